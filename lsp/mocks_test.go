package lsp_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// besides writes a pipeline and opens the file of tests beside it.
func besides(t *testing.T, tests string) (c *client, uri, dir string) {
	t.Helper()
	dir = t.TempDir()
	text := strings.Replace(pipeline, "    action: util.http\n", "    action: util.http\n    for_each: {items: [1, 2]}\n", 1)
	if err := os.WriteFile(filepath.Join(dir, "nightly.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c = start(t)
	uri = c.file(dir, "nightly.test.yaml")
	c.open(uri, tests)
	return c, uri, dir
}

func TestCompletionInTests(t *testing.T) {
	for _, test := range []struct {
		name, tests string
		has, lacks  []string
	}{
		{"keys of the file", "¦\n", []string{"tests", "mock", "params", "pipeline"}, []string{"steps", "expect"}},
		{"keys of a test", "tests:\n  - name: a\n    ¦\n", []string{"expect", "mock", "when", "params"}, []string{"name", "tests"}},
		{"keys of an expectation", "tests:\n  - name: a\n    expect:\n      ¦\n", []string{"status", "steps", "calls", "order"}, []string{"mock"}},
		{"statuses of the execution", "tests:\n  - name: a\n    expect:\n      status: ¦\n", []string{"completed", "completed_with_failures"}, []string{"skipped"}},
		{"steps that are expected", "tests:\n  - name: a\n    expect:\n      steps:\n        ¦\n", []string{"fetch", "read-it"}, []string{"status"}},
		{"statuses of a step", "tests:\n  - name: a\n    expect:\n      steps:\n        fetch: ¦\n", []string{"completed", "skipped", "timed_out"}, nil},
		{"keys of a step that is expected", "tests:\n  - name: a\n    expect:\n      steps:\n        fetch:\n          ¦\n", []string{"attempts", "status", "why"}, []string{"steps"}},
		{"what is mocked", "mock:\n  ¦\n", []string{"fetch[*]", "read-it", "action util.http"}, []string{"fetch", "outputs"}},
		{"what is mocked, in braces", "mock: {¦}\n", []string{"fetch[*]", "action util.http"}, nil},
		{"keys of an outcome", "mock:\n  fetch[*]:\n    ¦\n", []string{"outputs", "fail", "takes", "lose_worker"}, []string{"fetch[*]"}},
		{"keys of one of several outcomes", "mock:\n  fetch[*]:\n    - fail: no\n      ¦\n", []string{"times", "permanent"}, []string{"fail"}},
		{"outputs of a step", "mock:\n  fetch[*]:\n    outputs:\n      ¦\n", []string{"status", "body"}, []string{"fail"}},
		{"outputs of an action", "tests:\n  - name: a\n    mock:\n      action util.http:\n        outputs:\n          ¦\n", []string{"status", "headers"}, nil},
		{"parameters", "params:\n  ¦\n", []string{"city", "days"}, []string{"tests"}},
		{"a step of when", "tests:\n  - name: a\n    when:\n      - step: ¦\n", []string{"fetch", "last"}, nil},
		{"keys of when", "tests:\n  - name: a\n    when:\n      - ¦\n", []string{"after", "approve", "restart_process"}, nil},
		{"real steps", "real: [¦]\n", []string{"fetch"}, nil},
		{"the pipeline", "pipeline: ¦\n", []string{"nightly.yaml"}, []string{"nightly.test.yaml"}},
		{"an expression", "tests:\n  - name: a\n    assert: [\"{{ steps.¦ }}\"]\n", []string{"fetch", "last"}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			text, p := mark(t, test.tests)
			c, uri, _ := besides(t, text)
			var list completions
			if why := c.call("textDocument/completion", at(uri, p), &list); why != "" {
				t.Fatal(why)
			}
			for _, label := range test.has {
				if !slices.Contains(list.labels(), label) {
					t.Errorf("%q is not among %q", label, list.labels())
				}
			}
			for _, label := range test.lacks {
				if slices.Contains(list.labels(), label) {
					t.Errorf("%q is among %q", label, list.labels())
				}
			}
		})
	}
}

// TestAddMock: a mock of a step that has none is added to the tests, from there and from the pipeline, and the tests are still valid.
func TestAddMock(t *testing.T) {
	for _, test := range []struct{ name, tests, want string }{
		{"without mocks", "# mine\ntests:\n  - name: a¦\n", "# mine\nmock:\n  fetch[*]: {outputs: {status: 200, "},
		{"among others", "mock:\n    ¦other: {outputs: {}}\ntests: [{name: a}]\n", "mock:\n    fetch[*]: {outputs: {status: 200, "},
		{"in braces", "mock: {¦other: {outputs: {}}}\ntests: [{name: a}]\n", "mock: {\"fetch[*]\": {outputs: {status: 200, "},
		{"there is one", "mock:\n  ¦fetch[0]: {fail: no}\ntests: [{name: a}]\n", ""},
		{"there is one of the action", "mock: {¦action util.http: {fail: no}}\ntests: [{name: a}]\n", ""},
		{"elsewhere", "mock: {other: {outputs: {}}}\ntests:\n  - name: a\n    expect: {¦status: completed}\n", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			text, p := mark(t, test.tests)
			c, uri, dir := besides(t, text)
			ask := func(of string, p pos) (edits map[string][]edit) {
				params := at(of, p)
				params["range"] = rng{p, p}
				var list []struct {
					Title string
					Edit  struct{ Changes map[string][]edit }
				}
				if why := c.call("textDocument/codeAction", params, &list); why != "" {
					t.Fatal(why)
				}
				for _, a := range list {
					if strings.HasPrefix(a.Title, "Add a mock of fetch[*]") {
						return a.Edit.Changes
					}
				}
				return nil
			}
			got := edited(text, ask(uri, p)[uri])
			if test.want == "" {
				if got != text {
					t.Errorf("it becomes\n%s", got)
				}
				return
			}
			if !strings.HasPrefix(got, test.want) {
				t.Errorf("it becomes\n%s", got)
			}
			c.notify("textDocument/didChange", map[string]any{"textDocument": map[string]any{"uri": uri, "version": 2}, "contentChanges": []any{map[string]any{"text": got}}})
			if told := c.diagnostics(uri, 2); len(told.Diagnostics) > 0 {
				t.Errorf("%+v", told)
			}
			// From the pipeline, with the tests as they were.
			c.notify("textDocument/didChange", map[string]any{"textDocument": map[string]any{"uri": uri, "version": 3}, "contentChanges": []any{map[string]any{"text": text}}})
			raw, err := os.ReadFile(filepath.Join(dir, "nightly.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			own := c.file(dir, "nightly.yaml")
			c.open(own, string(raw))
			c.diagnostics(own, 1)
			line := strings.Count(string(raw)[:strings.Index(string(raw), "action: util.http")], "\n")
			if again := edited(text, ask(own, pos{line, 4})[uri]); again != got {
				t.Errorf("from the pipeline it becomes\n%s", again)
			}
			if other := ask(own, pos{0, 0}); other != nil {
				t.Errorf("outside of the step: %+v", other)
			}
		})
	}
}
