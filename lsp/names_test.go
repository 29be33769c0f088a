package lsp_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// renamed gives the texts after a rename at ¦, by file; or why it is refused.
func renamed(t *testing.T, text, to string, others map[string]string) (map[string]string, string) {
	t.Helper()
	c := start(t)
	dir := t.TempDir()
	for name, src := range others {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(src), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, p := mark(t, text)
	uri := c.file(dir, "nightly.yaml")
	c.open(uri, text)
	params := at(uri, p)
	params["newName"] = to
	var changes struct{ Changes map[string][]edit }
	if why := c.call("textDocument/rename", params, &changes); why != "" {
		return nil, why
	}
	out := map[string]string{}
	for of, edits := range changes.Changes {
		name := filepath.Base(of)
		src := others[name]
		if of == uri {
			src = text
		}
		out[name] = edited(src, edits)
	}
	return out, ""
}

const nightlyTests = `# fetch is a word here
params: {city: Berlin}
mock:
  fetch: {outputs: {status: 200}}
  "fetch[1]": {fail: no}
  prefetch: {outputs: {}}
tests:
  - name: fetch works
    params: {city: Rome, days: 2}
    expect: {steps: {fetch: completed, last: {after: [fetch]}}, order: [fetch, last], outputs: {fetch: 1}}
    assert: steps.fetch.outputs.status == 200 and params.city == "Rome"
`

func TestRename(t *testing.T) {
	at := func(text string) string {
		return strings.Replace(pipeline, strings.Replace(text, "¦", "", 1), text, 1)
	}
	got, why := renamed(t, at("depends_on: [fe¦tch]"), "load", map[string]string{"nightly.test.yaml": nightlyTests})
	if why != "" {
		t.Fatal(why)
	}
	if want := strings.NewReplacer("id: fetch", "id: load", "[fetch]", "[load]", "steps.fetch", "steps.load").Replace(pipeline); got["nightly.yaml"] != want {
		t.Errorf("the pipeline is\n%s", got["nightly.yaml"])
	}
	want := strings.NewReplacer("  fetch:", "  load:", "fetch[1]", "load[1]", "{fetch: completed", "{load: completed", "[fetch]", "[load]", "[fetch, last]", "[load, last]", "steps.fetch", "steps.load").Replace(nightlyTests)
	if got["nightly.test.yaml"] != want {
		t.Errorf("the tests are\n%s", got["nightly.test.yaml"])
	}

	const caller = "name: all\nsteps:\n  - {id: run, pipeline: nightly, params: {city: Oslo}}\n"
	got, why = renamed(t, at("params.ci¦ty"), "town", map[string]string{"nightly.test.yaml": nightlyTests, "all.yaml": caller, "broken.yml": "a: [\n"})
	if why != "" {
		t.Fatal(why)
	}
	if want := strings.NewReplacer("name: city", "name: town", "params.city", "params.town").Replace(pipeline); got["nightly.yaml"] != want {
		t.Errorf("the pipeline is\n%s", got["nightly.yaml"])
	}
	if want := strings.NewReplacer("city:", "town:", "params.city", "params.town").Replace(nightlyTests); got["nightly.test.yaml"] != want {
		t.Errorf("the tests are\n%s", got["nightly.test.yaml"])
	}
	if want := strings.Replace(caller, "city", "town", 1); got["all.yaml"] != want {
		t.Errorf("the caller is\n%s", got["all.yaml"])
	}
}

func TestRenameIsRefused(t *testing.T) {
	for _, test := range []struct{ name, from, text, to, why string }{
		{"an id that is taken", "id: fetch", "id: fe¦tch", "last", `there is a step "last" already`},
		{"no id", "id: fetch", "id: fe¦tch", "a b", "is no id of a step"},
		{"no word behind a dot", "id: fetch", "id: fe¦tch", "a-b", "cannot stand behind"},
		{"a parameter that is taken", "name: city", "name: ci¦ty", "days", "already"},
		{"neither", "name: nightly", "name: night¦ly", "x", "neither a step nor a parameter"},
		{"a definition with errors", "action: util.http", "action: util.htp # ¦", "x", "neither"},
		{"errors elsewhere", "id: other\n    action: util.log", "id: ot¦her\n    action: util.lgo", "x", "rename needs a valid definition"},
		{"a name of run time", "message: alone", `message: "{{ steps[params.city].status }}"`, "x", "known only while it runs"},
		{"a folded text", "message: done", "message: >\n        so\n        {{ steps.fetch.outputs.status }}", "x", "change it by hand"},
	} {
		t.Run(test.name, func(t *testing.T) {
			text := strings.Replace(pipeline, test.from, test.text, 1)
			if !strings.Contains(text, "¦") {
				text = strings.Replace(text, "id: fetch", "id: fe¦tch", 1)
			}
			if _, why := renamed(t, text, test.to, nil); !strings.Contains(why, test.why) {
				t.Errorf("refused with %q, not %q", why, test.why)
			}
		})
	}
	if _, why := renamed(t, strings.Replace(pipeline, "id: fetch", "id: fe¦tch", 1), "load", map[string]string{"nightly.test.yaml": "mock: {\n fetch"}); !strings.Contains(why, "cannot be read") {
		t.Errorf("tests that are broken: %q", why)
	}
}

func TestReferencesHoverSymbols(t *testing.T) {
	c := start(t)
	uri := c.file(t.TempDir(), "nightly.yaml")
	c.open(uri, pipeline)
	place := func(text string) map[string]any {
		before, _, _ := strings.Cut(text, "¦")
		i := strings.Index(pipeline, strings.Replace(text, "¦", "", 1))
		if i < 0 {
			t.Fatalf("the pipeline has no %q", text)
		}
		_, p := mark(t, pipeline[:i+len(before)]+"¦"+pipeline[i+len(before):])
		return at(uri, p)
	}
	var found []struct{ Range rng }
	params := place("steps.fe¦tch")
	params["context"] = map[string]any{"includeDeclaration": true}
	c.call("textDocument/references", params, &found)
	if len(found) != 3 {
		t.Errorf("fetch is at %+v", found)
	}
	var one struct{ Range rng }
	c.call("textDocument/definition", place("steps.fe¦tch"), &one)
	if one.Range.Start != (pos{5, 8}) {
		t.Errorf("fetch is declared at %+v", one)
	}
	c.call("textDocument/definition", place("params.da¦ys"), &one)
	if one.Range.Start != (pos{3, 11}) {
		t.Errorf("days is declared at %+v", one)
	}
	for text, want := range map[string]string{
		"util.ht¦tp": "**util.http**", "depends_o¦n": "Ids of steps", "outputs.st¦atus": "an integer", "mess¦age: done": "**message**", "params.da¦ys": "`params.days`: an integer"} {
		var h struct{ Contents struct{ Value string } }
		c.call("textDocument/hover", place(text), &h)
		if !strings.Contains(h.Contents.Value, want) {
			t.Errorf("%s: %q", text, h.Contents.Value)
		}
	}
	var symbols []struct{ Name string }
	c.call("textDocument/documentSymbol", place("na¦me"), &symbols)
	if names := slices.Collect(func(yield func(string) bool) {
		for _, s := range symbols {
			if !yield(s.Name) {
				return
			}
		}
	}); !slices.Equal(names, []string{"city", "days", "fetch", "read-it", "last", "other"}) {
		t.Errorf("symbols: %q", names)
	}
}

func TestActions(t *testing.T) {
	for _, test := range []struct{ name, from, text, title, want string }{
		{"an action", "util.http", "util.htp", "Write util.http", "util.http"},
		{"a key", "depends_on: [fetch]", "depend_on: [fetch]", "Write depends_on", "depends_on: [fetch]"},
		{"a key of others", "depends_on: [fetch]", "needs: [fetch]", "Write depends_on", "depends_on: [fetch]"},
		{"a step", "[fetch]", "[fetsh]", "Write fetch", "[fetch]"},
		{"a rule", "    action: util.log\n    params: {message: alone}", "    action: util.log\n    condition: 1 == 1\n    params: {message: alone}", "Suppress SW201 here",
			"    # stepwell: ignore SW201 say why\n    condition: 1 == 1"},
		{"a retry", "    action: util.log\n    params: {message: alone}", "    action: util.exec\n    idempotent: false\n    retry: {max_attempts: 3}\n    params: {command: [a]}", "", ""},
		{"idempotent", "    action: util.log\n    params: {message: alone}", "    action: util.http\n    retry: {max_attempts: 3}\n    params: {url: \"https://a.example\", method: POST, idempotency_key: false}",
			"Say that the step may run twice: idempotent: true", "- id: other\n    idempotent: true\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := start(t)
			uri := c.file(t.TempDir(), "nightly.yaml")
			text := strings.Replace(pipeline, test.from, test.text, 1)
			c.open(uri, text)
			params := at(uri, pos{})
			params["range"] = rng{pos{0, 0}, pos{100, 0}}
			var list []struct {
				Title string
				Edit  struct{ Changes map[string][]edit }
			}
			c.call("textDocument/codeAction", params, &list)
			for _, a := range list {
				if a.Title == test.title {
					if got := edited(text, a.Edit.Changes[uri]); !strings.Contains(got, test.want) {
						t.Errorf("it becomes\n%s", got)
					}
					return
				}
				if test.title == "" && strings.Contains(a.Title, "idempotent") {
					t.Error("the key is there already")
				}
			}
			if test.title != "" {
				t.Errorf("%q is missing among %+v; %+v", test.title, list, c.told[uri])
			}
		})
	}
}

func TestProtocolErrors(t *testing.T) {
	c := start(t)
	if why := c.call("workspace/nothing", map[string]any{}, nil); !strings.Contains(why, "no method") {
		t.Errorf("an unknown method: %q", why)
	}
	if why := c.call("textDocument/hover", at("file:///no.yaml", pos{}), nil); !strings.Contains(why, "not open") {
		t.Errorf("a document that is not open: %q", why)
	}
	if why := c.call("textDocument/hover", 7, nil); why == "" {
		t.Error("params that are no object are fine")
	}
	uri := c.file(t.TempDir(), "nightly.yaml")
	c.open(uri, pipeline)
	for _, p := range []pos{{-1, -1}, {1000, 0}, {0, 100000}} {
		for _, method := range []string{"completion", "hover", "definition", "references", "documentSymbol", "codeAction", "prepareRename"} {
			var any json.RawMessage
			if why := c.call("textDocument/"+method, at(uri, p), &any); why != "" {
				t.Errorf("%s at %v: %s", method, p, why)
			}
		}
	}
	c.call("shutdown", nil, nil)
	c.notify("exit", nil)
	if err := <-c.done; err != nil {
		t.Errorf("the end: %v", err)
	}
}
