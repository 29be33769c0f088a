package builtin

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"

	"github.com/stepwell/stepwell/action"
)

// TestExamples checks the step of every example as the validation of a pipeline would.
func TestExamples(t *testing.T) {
	r := registry(t)
	for _, s := range r.Specs() {
		for _, example := range s.Examples {
			t.Run(s.Name+"/"+example.Title, func(t *testing.T) {
				var step struct {
					ID        string
					Action    string
					DependsOn []string `yaml:"depends_on"`
					Condition string
					Params    map[string]any
				}
				decoder := yaml.NewDecoder(strings.NewReader(example.YAML))
				decoder.KnownFields(true)
				if err := decoder.Decode(&step); err != nil {
					t.Fatal(err)
				}
				if step.ID == "" || step.Action != s.Name {
					t.Errorf("id %q, action %q", step.ID, step.Action)
				}
				checker, _ := r.Params(step.Action)
				if problems := checker.CheckTemplated(step.Params); len(problems) > 0 {
					t.Errorf("%v", problems)
				}
				if problems := r.Validate(step.Action, step.Params); len(problems) > 0 {
					t.Error(errors.Join(problems...))
				}
			})
		}
	}
}

// TestSchemas compiles the JSON Schema of every action and tries it on good and bad parameters.
func TestSchemas(t *testing.T) {
	r := registry(t)
	compiler := jsonschema.NewCompiler()
	for _, name := range r.Names() {
		schema, ok := r.Schema(name)
		if !ok || schema["title"] != name {
			t.Fatalf("%s: %v", name, schema)
		}
		if err := compiler.AddResource(name, plainJSON(t, schema)); err != nil {
			t.Fatal(err)
		}
		if _, err := compiler.Compile(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, ok := r.Schema("nothing"); ok {
		t.Error("there is a schema of an unknown action")
	}
	for _, test := range []struct {
		action, params string
		fits           bool
	}{
		{"util.exec", `{"command": ["a", "b"], "success_codes": [0, 1]}`, true},
		{"util.exec", `{"command": "a", "success_codes": [256]}`, false},
		{"util.exec", `{}`, false},
		{"util.log", `{"message": "x", "level": "loud"}`, false},
		{"util.condition", `{"branches": [{"id": "a"}]}`, true},
		{"util.condition", `{"branches": [{}]}`, false},
		{"util.wait", `{"secs": 1}`, false},
		{"util.noop", `{"anything": 1}`, true},
	} {
		schema, err := compiler.Compile(test.action)
		if err != nil {
			t.Fatal(err)
		}
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(test.params))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(value); (err == nil) != test.fits {
			t.Errorf("%s %s: %v", test.action, test.params, err)
		}
	}
}

func plainJSON(t *testing.T, value any) any {
	t.Helper()
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := jsonschema.UnmarshalJSON(strings.NewReader(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	return plain
}

// A program registers the actions once, and looks them up by name.
func ExampleRegister() {
	r := new(action.Registry)
	if err := Register(r, Options{}); err != nil {
		panic(err)
	}
	for _, s := range r.Specs()[:3] {
		fmt.Println(s.Name+":", s.Summary)
	}
	// Output:
	// util.aggregate: Aggregates values.
	// util.approval: Waits until a person approves or rejects.
	// util.backup: Makes a backup of Stepwell's own data.
}
