package definition

// This test is inside the package because it compares the schema with the tables of keys.

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/stepwell/stepwell/spec"
)

func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	raw, err := json.Marshal(Schema())
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("pipeline.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("pipeline.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// plain is a document as an editor sees it: ${…} as they are, aliases and merges resolved.
func plain(file string) (any, bool) {
	src, err := os.ReadFile(file)
	if err != nil {
		return nil, false
	}
	r := &spec.Report{}
	l := &loader{src: src, file: file, report: r}
	n := l.load()
	if n == nil {
		return nil, false
	}
	v := newDecoder(r, false).Value(n, "", "")
	if r.Found.Err() != nil {
		return nil, false
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, false
	}
	v, err = jsonschema.UnmarshalJSON(strings.NewReader(string(raw)))
	return v, err == nil
}

func TestSchemaAcceptsGoodDocuments(t *testing.T) {
	s := compiled(t)
	files, _ := filepath.Glob("testdata/good/*")
	for _, file := range files {
		if filepath.Ext(file) == ".want" {
			continue
		}
		// A schema cannot say these: the wrapper, variables in numbers, other cases of letters.
		if name := filepath.Base(file); name == "wrapped.yaml" || name == "variables.yaml" || name == "health-check.json" || name == "budpipeline-health.json" {
			continue
		}
		v, ok := plain(file)
		if !ok {
			t.Fatalf("%s cannot be read", file)
		}
		if err := s.Validate(v); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// The schema refuses every bad document that Parse can read but refuses, and none that only Check
// refuses, but for those listed.
func TestSchemaRefusesBadDocuments(t *testing.T) {
	s := compiled(t)
	beyond := []string{ // rules that a schema cannot express
		"json-positions.json", "loop-keys-twice.yaml", "loop-names.yaml", "parameter-twice.yaml", "parameter-bad-default.yaml", "group-too-deep.yaml",
		"parameter-enum-on-number.yaml", "loop-max-failures.yaml", "variables-missing.yaml", "variables-malformed.yaml", "variables-inject.yaml", "targets.yaml"}
	files, _ := filepath.Glob("testdata/bad/*")
	refused := 0
	for _, file := range files {
		v, ok := plain(file)
		if filepath.Ext(file) == ".want" || !ok {
			continue
		}
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, problems := Parse(src, ParseOptions{Env: func(string) (string, bool) { return "1", true }})
		bad := problems.Err() != nil
		got := s.Validate(v) != nil
		if got {
			refused++
		}
		if bad && !got && !slices.Contains(beyond, filepath.Base(file)) {
			t.Errorf("%s is accepted by the schema, but not by Parse: %v", file, problems)
		}
		if !bad && got && filepath.Base(file) != "warnings.yaml" {
			t.Errorf("%s is refused by the schema, but not by Parse: %v", file, s.Validate(v))
		}
	}
	if refused < 25 {
		t.Errorf("the schema refused only %d documents", refused)
	}
}

// Every key that the decoder knows is described: the schema is made of the structs that it decodes into.
func TestSchemaDescribesEveryKey(t *testing.T) {
	count := 0
	var walk func(path string, v any)
	walk = func(path string, v any) {
		m, _ := v.(map[string]any)
		properties, _ := m["properties"].(map[string]any)
		for key, p := range properties {
			if p == false {
				continue
			}
			count++
			if d, _ := p.(map[string]any)["description"].(string); d == "" {
				t.Errorf("%s: %s is not described", path, key)
			}
			walk(path+"/"+key, p)
		}
		list, _ := m["anyOf"].([]any)
		for _, one := range list {
			walk(path, one)
		}
	}
	schema := Schema()
	walk("", schema)
	for name, def := range schema["$defs"].(map[string]any) {
		walk(name, def)
	}
	if count < 120 {
		t.Errorf("only %d keys", count)
	}
}
