package lsp_test

import (
	"slices"
	"strings"
	"testing"
)

const pipeline = `name: nightly
parameters:
  - {name: city, type: string, description: Where it is.}
  - {name: days, type: integer, default: 3}
steps:
  - id: fetch
    action: util.http
    params: {url: "https://example.com/{{ params.city }}"}
  - id: read-it
    action: util.log
    depends_on: [fetch]
    params: {message: "{{ steps.fetch.outputs.status }} of {{ params.days }}"}
  - id: last
    action: util.log
    depends_on: [read-it]
    params:
      message: done
  - id: other
    action: util.log
    params: {message: alone}
`

type completions struct {
	Items []struct {
		Label    string
		Detail   string
		TextEdit edit
	}
}

func (l *completions) labels() (out []string) {
	for _, i := range l.Items {
		out = append(out, i.Label)
	}
	return out
}

// complete types a text over a good one, and asks at ¦.
func complete(t *testing.T, good, typed string) *completions {
	t.Helper()
	c := start(t)
	uri := c.file(t.TempDir(), "nightly.yaml")
	c.open(uri, good)
	c.diagnostics(uri, 1)
	text, p := mark(t, typed)
	c.notify("textDocument/didChange", map[string]any{"textDocument": map[string]any{"uri": uri, "version": 2}, "contentChanges": []any{map[string]any{"text": text}}})
	var list completions
	if why := c.call("textDocument/completion", at(uri, p), &list); why != "" {
		t.Fatal(why)
	}
	return &list
}

func TestCompletion(t *testing.T) {
	for _, test := range []struct {
		name, from, to string // in the pipeline
		has, lacks     []string
	}{
		{"keys of the document", "steps:\n", "¦\nsteps:\n", []string{"settings", "description", "outputs"}, []string{"name", "steps", "action"}},
		{"keys of a step", "    action: util.log\n    params: {message: alone}\n", "    action: util.log\n    ¦\n", []string{"params", "depends_on", "retry"}, []string{"id", "action", "steps_typo"}},
		{"keys of a step, begun", "    params: {message: alone}", "    pa¦", []string{"params"}, []string{"id"}},
		{"keys of settings", "steps:\n", "settings:\n  ¦\nsteps:\n", []string{"fail_fast", "timeout_seconds"}, []string{"steps"}},
		{"keys of the retry of a step", "    params: {message: alone}", "    retry:\n      ¦", []string{"max_attempts"}, []string{"action"}},
		{"actions", "action: util.http", "action: util.ht¦", []string{"util.http", "util.log"}, nil},
		{"an action that nothing stands for", "action: util.http", "action: ¦", []string{"util.http"}, nil},
		{"params", "params:\n      message: done", "params:\n      ¦", []string{"message", "level"}, []string{"url", "id"}},
		{"params that are there", "      message: done", "      message: done\n      ¦", []string{"level"}, []string{"message"}},
		{"params in braces", "{message: alone}", "{message: alone, ¦", []string{"level"}, []string{"message", "url"}},
		{"an enum of params", "      message: done", "      message: done\n      level: ¦", []string{"debug", "info"}, nil},
		{"an enum of the document", "    params: {message: alone}", "    on_failure: ¦", []string{"fail", "continue", "retry"}, nil},
		{"what a step may wait for", "depends_on: [read-it]", "depends_on: [¦", []string{"fetch", "read-it", "other"}, []string{"last"}},
		{"no circle", "depends_on: [fetch]", "depends_on: [¦]", []string{"fetch", "other"}, []string{"read-it", "last"}},
		{"a list below", "depends_on: [read-it]", "depends_on:\n      - ¦", []string{"fetch", "other"}, []string{"last"}},
		{"steps before this one", "message: done", "message: \"{{ steps.¦", []string{"fetch", "read-it"}, []string{"last", "other"}},
		{"what a step has", "message: done", "message: \"{{ steps.fetch.¦ }}\"", []string{"outputs", "status"}, []string{"url"}},
		{"outputs", "message: done", "message: \"{{ steps.fetch.outputs.st¦", []string{"status", "headers", "body"}, []string{"outputs"}},
		{"parameters", "message: done", "message: '{{ params.¦", []string{"city", "days"}, []string{"fetch"}},
		{"names", "message: done", "message: '{{ ¦", []string{"params", "steps", "secrets"}, []string{"item"}},
		{"names in a loop", "    params: {message: alone}", "    for_each: [1, 2]\n    params: {message: \"{{ ¦", []string{"item", "index"}, nil},
		{"filters", "message: done", "message: '{{ params.city | up¦", []string{"upper", "default"}, []string{"city"}},
		{"tests", "message: done", "message: '{{ params.city is de¦", []string{"defined"}, []string{"city", "tojson"}},
		{"a condition", "    params:\n      message: done", "    condition: params.¦", []string{"city", "days"}, nil},
		{"a block text", "message: done", "message: |\n        one\n        {{ params.¦", []string{"city"}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			if strings.Count(pipeline, test.from) < 1 {
				t.Fatalf("the pipeline has no %q", test.from)
			}
			i := strings.LastIndex(pipeline, test.from)
			got := complete(t, pipeline, pipeline[:i]+test.to+pipeline[i+len(test.from):]).labels()
			for _, want := range test.has {
				if !slices.Contains(got, want) {
					t.Errorf("%q is missing among %q", want, got)
				}
			}
			for _, not := range test.lacks {
				if slices.Contains(got, not) {
					t.Errorf("%q is offered", not)
				}
			}
		})
	}
}

func TestCompletionOfAnIDThatIsNoWord(t *testing.T) {
	text := strings.Replace(pipeline, "message: done", "message: '{{ steps.re¦", 1)
	list := complete(t, pipeline, text)
	text, _ = mark(t, text)
	for _, item := range list.Items {
		if item.Label == "read-it" {
			if got := edited(text, []edit{item.TextEdit}); !strings.Contains(got, `'{{ steps["read-it"]`) {
				t.Errorf("it becomes %s", got)
			}
			return
		}
	}
	t.Errorf("read-it is missing among %q", list.labels())
}

func TestDiagnostics(t *testing.T) {
	c := start(t)
	dir := t.TempDir()
	uri := c.file(dir, "nightly.yaml")
	c.open(uri, strings.NewReplacer("util.http", "util.htp", "{{ params.days }}", "😀 {{ params.dayz }}").Replace(pipeline))
	got := c.diagnostics(uri, 1)
	find := func(part string) (rng, string) {
		for _, d := range got.Diagnostics {
			if strings.Contains(d.Message, part) {
				return d.Range, d.Code
			}
		}
		t.Fatalf("nothing of %q in %+v", part, got)
		return rng{}, ""
	}
	if at, code := find("util.htp"); at != (rng{pos{6, 12}, pos{6, 20}}) || code != "SW001" {
		t.Errorf("the action is at %v, %s", at, code)
	}
	line := `    params: {message: "{{ steps.fetch.outputs.status }} of 😀 {{ `
	if at, _ := find("dayz"); at.Start != (pos{11, units(line)}) {
		t.Errorf("the parameter is at %v, not %d", at, units(line))
	}

	// A change of a part, with positions in UTF-16.
	c.notify("textDocument/didChange", map[string]any{"textDocument": map[string]any{"uri": uri, "version": 2}, "contentChanges": []any{
		map[string]any{"range": rng{pos{11, units(line) + 7}, pos{11, units(line) + 11}}, "text": "days"},
		map[string]any{"range": rng{pos{6, 12}, pos{6, 20}}, "text": "util.http"}}})
	if got = c.diagnostics(uri, 2); len(got.Diagnostics) > 0 {
		t.Errorf("still there: %+v", got)
	}
	c.notify("textDocument/didChange", map[string]any{"textDocument": map[string]any{"uri": uri, "version": 3}, "contentChanges": []any{map[string]any{"text": "name: x\nsteps: [\n"}}})
	if got = c.diagnostics(uri, 3); len(got.Diagnostics) == 0 {
		t.Error("broken YAML is fine")
	}
	other := c.file(dir, "compose.yaml")
	c.open(other, "services:\n  web: {image: nginx}\n")
	if got = c.diagnostics(other, 1); len(got.Diagnostics) > 0 {
		t.Errorf("a file of something else: %+v", got)
	}
	tests := c.file(dir, "nightly.test.yaml")
	c.open(tests, "pipeline: nightly.yaml\ntests:\n  - name: a\n    expext: {}\n")
	if got = c.diagnostics(tests, 1); len(got.Diagnostics) != 1 || got.Diagnostics[0].Range.Start.Line != 3 {
		t.Errorf("the tests: %+v", got)
	}
}

func TestDiagnosticsFollowSubPipelines(t *testing.T) {
	c := start(t)
	dir := t.TempDir()
	main, sub := c.file(dir, "main.yaml"), c.file(dir, "sub.yaml")
	const called = "name: sub\nparameters: [{name: day, type: string}]\nsteps:\n  - {id: a, action: util.log, params: {message: \"{{ params.day }}\"}}\n"
	c.open(sub, called)
	c.open(main, "name: main\nsteps:\n  - id: run\n    pipeline: sub\n    params: {day: Monday}\n")
	if got := c.diagnostics(main, 1); len(got.Diagnostics) > 0 {
		t.Errorf("at first: %+v", got)
	}
	c.told = map[string]told{}
	c.notify("textDocument/didChange", map[string]any{"textDocument": map[string]any{"uri": sub, "version": 2}, "contentChanges": []any{map[string]any{"text": strings.ReplaceAll(called, "day", "week")}}})
	if got := c.diagnostics(main, 1); len(got.Diagnostics) == 0 {
		t.Error("the parameter that is gone is not told where it is given")
	}
	var place struct{ URI string }
	c.call("textDocument/definition", at(main, pos{3, 15}), &place)
	if place.URI != sub {
		t.Errorf("the sub-pipeline is %q", place.URI)
	}
}
