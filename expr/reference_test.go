package expr

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/expr/jsonvalue"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write docs/templates.md anew")

const referencePath = "../docs/templates.md"

// TestReference: docs/templates.md is generated from the compiler's tables. Every filter, test, function and method
// is in it with an example, with its result evaluated here; the differences from Jinja2 are those of
// testdata/jinja2.json, each compared with the real one there.
func TestReference(t *testing.T) {
	page := reference(t)
	if *update {
		if err := os.WriteFile(referencePath, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	current, err := os.ReadFile(referencePath)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(current), page); diff != "" {
		t.Errorf("%s is out of date; go test ./expr -run Reference -update:\n%s", referencePath, diff)
	}
}

func reference(t *testing.T) string {
	raw, err := os.ReadFile("testdata/templates.md")
	if err != nil {
		t.Fatal(err)
	}
	parts := map[string]string{
		"FILTERS": functionTable(t, "filter", builtins.filters, filterDocs), "TESTS": functionTable(t, "test", builtins.tests, testDocs),
		"FUNCTIONS": functionTable(t, "function", builtins.globals, globalDocs), "STRINGS": functionTable(t, "method of strings", builtins.stringMethods, stringMethodDocs),
		"MAPPINGS": functionTable(t, "method of mappings", builtins.dictMethods, dictMethodDocs), "LISTS": functionTable(t, "method of lists", builtins.listMethods, listMethodDocs),
		"LOOPS":     functionTable(t, "method of loop", loopMethods, loopMethodDocs),
		"OPERATORS": exampleTable(t, operatorExamples), "UNDEFINED": exampleTable(t, undefinedExamples), "TEXTS": exampleTable(t, textExamples),
		"LIMITS": limitTable(), "DIFFERENCES": differences(t),
	}
	page := string(raw)
	for name, text := range parts {
		if !strings.Contains(page, "<!-- "+name+" -->") {
			t.Errorf("testdata/templates.md has no place for %s", name)
		}
		page = strings.Replace(page, "<!-- "+name+" -->\n", text, 1)
	}
	return page
}

// entry is the documentation of a name.
type entry struct {
	doc     string
	example string // an expression, or with tags a text
}

// referenceScope is the scope of the reference's examples.
func referenceScope() Vars {
	return Vars{
		"params": map[string]any{"name": "demo", "n": int64(5), "text": "n/a", "nothing": nil, "list": []any{int64(3), int64(1), int64(2)}, "map": map[string]any{"b": int64(1), "a": int64(2)}},
		"files":  []any{map[string]any{"name": "b.mp4", "size": int64(20)}, map[string]any{"name": "a.jpg", "size": int64(5)}},
		"steps": map[string]any{"count": map[string]any{"status": "completed", "outputs": map[string]any{"n": int64(3), "files": []any{"a", "b"}}},
			"check": ended{"the step check was skipped"}},
		"item": map[string]any{"id": "S2A", "cloud": 7.5},
	}
}

// result evaluates an example.
func result(t *testing.T, source string) string {
	parse := ParseExpression
	if nextTag(source) >= 0 {
		parse = Parse
	}
	tm, err := parse(source)
	var v any
	if err == nil {
		v, err = tm.Eval(referenceScope(), Limits{})
	}
	if e, ok := err.(*Error); ok {
		return "error: " + e.Message
	}
	raw, err := Marshal(v)
	if err != nil {
		t.Errorf("%s: %v", source, err)
	}
	return code(string(raw))
}

// code is a text in a cell of a table.
func code(text string) string {
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\n", "↵"), "|", "\\|")
	if strings.Contains(text, "`") {
		return "`` " + text + " ``"
	}
	return "`" + text + "`"
}

func functionTable(t *testing.T, kind string, table map[string]*function, docs map[string]entry) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| %s | value | example | result |\n|---|---|---|---|\n", kind)
	for _, name := range slices.Sorted(maps.Keys(table)) {
		e, ok := docs[name]
		if !ok || e.doc == "" || e.example == "" {
			t.Errorf("the %s %s has no entry in the reference", kind, name)
			continue
		}
		if !strings.Contains(e.example, name) {
			t.Errorf("the example of the %s %s does not use it: %s", kind, name, e.example)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", code(signature(name, table[name])), e.doc, code(e.example), result(t, e.example))
	}
	for name := range docs {
		if table[name] == nil {
			t.Errorf("there is no %s %s", kind, name)
		}
	}
	return b.String()
}

// signature is a name with its arguments as they are declared.
func signature(name string, f *function) string {
	var args []string
	for _, p := range f.params {
		switch v := p.value.(type) {
		case notGiven:
			args = append(args, p.name+"=…")
		default:
			if p.required {
				args = append(args, p.name)
				continue
			}
			raw, err := json.Marshal(v)
			if err != nil {
				raw = []byte("…")
			}
			args = append(args, p.name+"="+strings.ReplaceAll(string(raw), "null", "none"))
		}
	}
	if f.rest {
		args = append(args, "…")
	}
	if len(args) == 0 {
		return name
	}
	return name + "(" + strings.Join(args, ", ") + ")"
}

func exampleTable(t *testing.T, list []entry) string {
	var b strings.Builder
	b.WriteString("| example | result | |\n|---|---|---|\n")
	for _, e := range list {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", code(e.example), result(t, e.example), e.doc)
	}
	return b.String()
}

func limitTable() string {
	return fmt.Sprintf("| limit | value |\n|---|---|\n| steps of one evaluation: parts visited, elements looped over or built | %d |\n| bytes of all texts and lists that it builds | %d |\n"+
		"| depth of values and expressions | %d |\n| bytes of a template | %d |\n| parts of a template | %d |\n| brackets and blocks inside each other | %d |\n| operations in one chain | %d |\n| bytes of a regular expression | %d |\n",
		defaultOps, defaultBytes, jsonvalue.MaxDepth, maxSource, maxNodes, maxNesting, maxHeight, maxPattern)
}

// differences groups the stated differences by their reason, with at most four examples each.
func differences(t *testing.T) string {
	_, cases := readGolden(t)
	var reasons []string
	by := map[string][]goldenCase{}
	for _, c := range cases {
		if c.Stepwell == nil {
			continue
		}
		if by[c.Reason] == nil {
			reasons = append(reasons, c.Reason)
		}
		by[c.Reason] = append(by[c.Reason], c)
	}
	var b strings.Builder
	b.WriteString("| difference | example | Jinja2 | Stepwell |\n|---|---|---|---|\n")
	for _, reason := range reasons {
		for i, c := range by[reason] {
			if i == 4 {
				break
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", reason, code(c.Template), shown(c.Jinja2), shown(*c.Stepwell))
			reason = ""
		}
	}
	return b.String()
}

func shown(r goldenResult) string {
	switch {
	case r.Undefined:
		return "undefined"
	case r.Error != "":
		return "error"
	case strings.Contains(string(r.Value), "$object"):
		return "a method"
	}
	var b bytes.Buffer
	if err := json.Compact(&b, r.Value); err != nil || b.Len() > 80 {
		return "a value"
	}
	return code(b.String())
}
