package lint_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/lint"
	"github.com/stepwell/stepwell/scenario"
)

var registry = sync.OnceValues(func() (*action.Registry, error) { return app.Actions(app.Options{}) })

func actions(t testing.TB) *action.Registry {
	t.Helper()
	r, err := registry()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// read lints one document. Pipelines that it calls are looked up among the others.
func read(t testing.TB, file string, src []byte, others map[string]*definition.Definition, facts lint.Facts) (definition.Problems, *definition.Definition) {
	t.Helper()
	cat := actions(t)
	d, problems := definition.Parse(src, definition.ParseOptions{File: file})
	if d == nil {
		return problems, nil
	}
	for _, name := range d.Calls() {
		if others[name] != nil {
			if d.Pipelines == nil {
				d.Pipelines = map[string]*definition.Definition{}
			}
			d.Pipelines[name] = others[name]
		}
	}
	checked := definition.Check(d, cat, file)
	inspected, survey := definition.Inspect(d, cat, file)
	if !slices.Equal(inspected, checked) {
		t.Errorf("%s: inspected: %v, checked: %v", file, inspected, checked)
	}
	problems = append(problems, checked...)
	expanded := definition.Expand(d, cat)
	if problems.Err() == nil && len(d.Matrix) == 0 {
		var err error
		if facts.Idle, facts.Runs, err = scenario.Reach(t.Context(), expanded); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	found := lint.Find(expanded, cat, file, src, problems, facts)
	facts.Survey = survey
	if again := lint.Find(expanded, cat, file, src, problems, facts); !slices.Equal(again, found) {
		t.Errorf("%s: with a survey: %v, without: %v", file, again, found)
	}
	return found, d
}

// document is a text of the project that may be a pipeline.
type document struct {
	name string
	text string
}

var (
	fence   = regexp.MustCompile("(?ms)^```ya?ml\n(.*?)^```")
	section = regexp.MustCompile(`(?ms)^-- (\S+\.ya?ml) --\n(.*?)(?:^-- |\z)`)
)

// documents are all texts of the project that look like pipelines: files, blocks of the documentation, files inside test scripts,
// templates, and the examples of actions.
func documents(t testing.TB) (list []document) {
	t.Helper()
	add := func(name, text string) {
		if strings.Contains(text, "steps:") {
			list = append(list, document{name, text})
		}
	}
	root := os.DirFS("..")
	err := fs.WalkDir(root, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			if e != nil && slices.Contains([]string{"node_modules", "dist", ".git", "bad"}, e.Name()) {
				return fs.SkipDir
			}
			return err
		}
		ext := filepath.Ext(name)
		if !slices.Contains([]string{".yaml", ".yml", ".md", ".txtar"}, ext) || strings.HasPrefix(name, "lint/") || strings.HasPrefix(name, "docs/lint") || filepath.Base(name) == "lint.txtar" {
			return nil
		}
		src, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		switch ext {
		case ".md":
			for _, m := range fence.FindAllStringSubmatch(string(src), -1) {
				add(name, m[1])
			}
		case ".txtar":
			rest := string(src)
			for m := section.FindStringSubmatchIndex(rest); m != nil; m = section.FindStringSubmatchIndex(rest) {
				add(name+"/"+rest[m[2]:m[3]], rest[m[4]:m[5]])
				rest = rest[m[5]:]
			}
		default:
			add(name, string(src))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range actions(t).Specs() {
		for _, e := range s.Examples {
			add("example of "+s.Name, "name: example\nsteps:\n  - "+strings.ReplaceAll(strings.TrimSpace(e.YAML), "\n", "\n    ")+"\n")
		}
	}
	return list
}

// wanted are the problems that documents of the project really have: most are tests of how such a mistake ends.
var wanted = map[string][]string{
	// reads of outputs that do not exist
	"cmd/stepwell/testdata/revision1/ended.yaml":                  {"SW101"},
	"cmd/stepwell/testdata/revision1/failed.yaml":                 {"SW101"},
	"cmd/stepwell/testdata/revision1/flight.yaml":                 {"SW101"},
	"cmd/stepwell/testdata/script/templates.txtar/undefined.yaml": {"SW101"},
	"cmd/stepwell/testdata/script/templates.txtar/misspelt.yaml":  {"SW101"},
	"docs/troubleshooting.md":                                     {"SW101"},
	// parameters that only the command line or a test is about
	"cmd/stepwell/testdata/script/executions.txtar/fails.yaml":       {"SW108"},
	"cmd/stepwell/testdata/script/executions.txtar/secret.yaml":      {"SW108"},
	"cmd/stepwell/testdata/script/here.txtar/hello.yaml":             {"SW108"},
	"cmd/stepwell/testdata/script/pipelines.txtar/parts/double.yaml": {"SW108"},
	"cmd/stepwell/testdata/script/same.txtar/mixed.yaml":             {"SW108"},
	"cmd/stepwell/testdata/script/test_from.txtar/changed.yaml":      {"SW108"},
	// conditions without a name in them, which skip a step on purpose or show how a literal is read
	"cmd/stepwell/testdata/script/places.txtar/fine.yaml":           {"SW201"},
	"cmd/stepwell/testdata/script/templates.txtar/param.yaml":       {"SW201", "SW204"},
	"cmd/stepwell/testdata/script/templates.txtar/absent.yaml":      {"SW201"},
	"cmd/stepwell/testdata/script/worker_streams.txtar/absent.yaml": {"SW201"},
	"definition/testdata/good/targets.yaml":                         {"SW201"},
	// rules behind fail_fast
	"cmd/stepwell/testdata/script/validate.txtar/after.yaml": {"SW204"},
	// secrets that surface, so that a test or a reader sees them redacted
	"cmd/stepwell/testdata/script/data.txtar/secret.yaml":         {"SW404"},
	"cmd/stepwell/testdata/script/policy.txtar/uses.yaml":         {"SW401"},
	"cmd/stepwell/testdata/script/validate.txtar/hosted.yaml":     {"SW108", "SW401"},
	"cmd/stepwell/testdata/script/worker_access.txtar/tells.yaml": {"SW401"},
	"docs/recipes/secrets.md":                                     {"SW401"},
}

// TestNoFalseAlarms: of all valid documents of the project none has an error, and at most 2 of 100 have a warning that is not meant.
func TestNoFalseAlarms(t *testing.T) {
	all := documents(t)
	others := map[string]*definition.Definition{}
	for _, d := range all {
		if def, _ := definition.Parse([]byte(d.text), definition.ParseOptions{}); def != nil && def.Name != "" {
			others[def.Name] = def
			others[strings.TrimSuffix(filepath.Base(d.name), filepath.Ext(d.name))] = def
		}
	}
	valid, warned := 0, 0
	met := map[string]bool{}
	seen := map[string]bool{}
	for _, d := range all {
		problems, def := read(t, d.name, []byte(d.text), others, lint.Facts{})
		if def == nil || seen[d.text] || slices.ContainsFunc(problems, func(p definition.Problem) bool { return p.Code == lint.CodeInvalid && !p.Warning }) {
			continue
		}
		seen[d.text] = true
		valid++
		warnings := false
		for _, p := range problems {
			met[d.name+p.Code] = true
			switch {
			case p.Code == lint.CodeInvalid || slices.Contains(wanted[d.name], p.Code):
			case p.Warning:
				warnings = true
				t.Log(p)
			default:
				t.Errorf("a valid document has an error: %v", p)
			}
		}
		if warnings {
			warned++
		}
	}
	for name, codes := range wanted {
		for _, code := range codes {
			if !met[name+code] {
				t.Errorf("%s no longer breaks %s", name, code)
			}
		}
	}
	t.Logf("%d valid documents, %d of them with warnings", valid, warned)
	if valid < 150 || warned*50 > valid {
		t.Errorf("%d of %d valid documents have warnings, more than 2 %%", warned, valid)
	}
}
