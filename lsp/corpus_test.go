package lsp_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/plan"
)

var fence = regexp.MustCompile("(?ms)^```ya?ml\n(.*?)^```")

// documents are the texts of the project that are valid pipelines on their own.
func documents(t testing.TB) map[string]string {
	t.Helper()
	cat, err := registry()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	add := func(name, text string) {
		if !strings.Contains(text, "\nsteps:") {
			return
		}
		d, problems := definition.Parse([]byte(text), definition.ParseOptions{})
		if d == nil || append(problems, definition.Check(d, cat, "")...).Err() != nil {
			return
		}
		out[fmt.Sprintf("%s#%d", name, len(out))] = text
	}
	root := os.DirFS("..")
	err = fs.WalkDir(root, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			if e != nil && slices.Contains([]string{"node_modules", "dist", ".git", "bad"}, e.Name()) {
				return fs.SkipDir
			}
			return err
		}
		ext := filepath.Ext(name)
		if !slices.Contains([]string{".yaml", ".yml", ".md"}, ext) {
			return nil
		}
		src, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		if ext != ".md" {
			add(name, string(src))
			return nil
		}
		for _, m := range fence.FindAllStringSubmatch(string(src), -1) {
			add(name, m[1])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// planned is what the plan of a document is compiled from, in its canonical form.
func planned(t testing.TB, text string) string {
	t.Helper()
	cat, err := registry()
	if err != nil {
		t.Fatal(err)
	}
	d, problems := definition.Parse([]byte(text), definition.ParseOptions{})
	if d == nil || append(problems, definition.Check(d, cat, "")...).Err() != nil {
		t.Fatalf("the document is invalid: %v\n%s", problems, text)
	}
	if _, err := plan.Compile(definition.Expand(d, cat), cat); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	raw, err := definition.Encode(d) // what Expand adds has names that are free
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// TestRenameKeepsThePlan renames every step and parameter of the project's valid documents. The text must be the same but for the
// name, and so must be what its plan is compiled from: it is still valid, so nothing reads the old name.
func TestRenameKeepsThePlan(t *testing.T) {
	const to = "zz_renamed"
	done, refused := 0, map[string]int{}
	c := start(t)
	dir := t.TempDir()
	for name, text := range documents(t) {
		cat, _ := registry()
		d, _ := definition.Parse([]byte(text), definition.ParseOptions{})
		o := definition.OutlineOf(d, cat, []byte(text))
		places := map[string]definition.Use{}
		for _, u := range slices.Concat(o.Uses, o.Params) {
			if u.Exact {
				places[u.Step] = u
			}
		}
		for id, u := range places {
			uri := c.file(dir, fmt.Sprintf("d%d.stepwell.yaml", done+len(refused)))
			c.open(uri, text)
			line := strings.Split(text, "\n")[u.At.Line-1]
			params := at(uri, pos{u.At.Line - 1, units(string([]rune(line)[:u.At.Column-1]))})
			params["newName"] = to
			var changes struct{ Changes map[string][]edit }
			why := c.call("textDocument/rename", params, &changes)
			c.notify("textDocument/didClose", map[string]any{"textDocument": map[string]any{"uri": uri}})
			if why != "" {
				refused[regexp.MustCompile(`"[^"]*"|\d+`).ReplaceAllString(why, "…")]++
				continue
			}
			done++
			after := edited(text, changes.Changes[uri])
			if back := strings.ReplaceAll(after, to, id); back != text {
				t.Fatalf("%s: renaming %q has changed something else:\n%s", name, id, after)
			}
			if got, want := strings.ReplaceAll(planned(t, after), to, id), planned(t, text); got != want {
				t.Errorf("%s: the plan is another one after renaming %q", name, id)
			}
		}
	}
	t.Logf("%d renamed, refused: %v", done, refused)
	if done < 200 {
		t.Errorf("only %d could be renamed: %v", done, refused)
	}
}

// large is a valid document of n steps.
func large(n int) string {
	var b strings.Builder
	b.WriteString("name: large\nparameters: [{name: city, type: string}]\nsteps:\n")
	for i := range n {
		fmt.Fprintf(&b, "  - id: s%d\n    action: util.http\n    params:\n      url: \"https://example.com/{{ params.city }}/%d\"\n", i, i)
		if i > 0 {
			fmt.Fprintf(&b, "      headers: {last: \"{{ steps.s%d.outputs.status }}\"}\n    depends_on: [s%d]\n", i-1, i-1)
		}
	}
	return b.String()
}

func BenchmarkDiagnosticsOf1000Steps(b *testing.B) {
	c := start(b)
	uri := c.file(b.TempDir(), "large.stepwell.yaml")
	c.open(uri, large(1000))
	c.diagnostics(uri, 1)
	version := 1
	for b.Loop() {
		version++
		c.notify("textDocument/didChange", map[string]any{"textDocument": map[string]any{"uri": uri, "version": version},
			"contentChanges": []any{map[string]any{"range": rng{pos{0, 6}, pos{0, 7}}, "text": "L"}}})
		c.diagnostics(uri, version)
	}
}

func BenchmarkCompletionIn1000Steps(b *testing.B) {
	c := startWith(b, time.Hour) // nobody waits for diagnostics meanwhile
	uri := c.file(b.TempDir(), "large.stepwell.yaml")
	text, p := mark(b, large(1000)+"    condition: steps.s¦")
	c.open(uri, text)
	var first completions
	c.call("textDocument/completion", at(uri, p), &first)
	version := 1
	for b.Loop() {
		version++
		c.notify("textDocument/didChange", map[string]any{"textDocument": map[string]any{"uri": uri, "version": version},
			"contentChanges": []any{map[string]any{"range": rng{p, p}, "text": ""}}})
		var list completions
		c.call("textDocument/completion", at(uri, p), &list)
		if len(list.Items) < 900 {
			b.Fatalf("%d items", len(list.Items))
		}
	}
}
