package media

import (
	"encoding/json"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/spec"
)

// TestSpecs registers the actions and checks that their examples use parameters that exist.
func TestSpecs(t *testing.T) {
	var r action.Registry
	if err := Register(&r, Options{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"media.scan", "media.copy", "media.metadata"} {
		s, ok := r.Spec(name)
		if !ok || s.Summary == "" || s.Doc == "" || len(s.Outputs) == 0 || len(s.Examples) == 0 {
			t.Fatalf("%s: %+v", name, s)
		}
		for _, e := range s.Examples {
			var step struct {
				Action string
				Params map[string]any
			}
			if err := yaml.Unmarshal([]byte(e.YAML), &step); err != nil || step.Action != name {
				t.Errorf("%s: example %q: %v", name, e.Title, err)
			}
			for p := range step.Params {
				if _, ok := spec.FieldNamed(s.Params, p); !ok {
					t.Errorf("%s: example %q has the unknown parameter %s", name, e.Title, p)
				}
			}
			a, _ := r.Lookup(name)
			if v, ok := a.Handler.(action.Validator); ok {
				if errs := v.Validate(step.Params); len(errs) > 0 {
					t.Errorf("%s: example %q: %v", name, e.Title, errs)
				}
			}
		}
	}
	if err := Register(&r, Options{}); err == nil {
		t.Error("registering twice is no error")
	}
}

// checkOutputs compares the members of a result with the description of the outputs: what is there
// is described with its type.
func checkOutputs(t testing.TB, fields []spec.Field, out any) {
	t.Helper()
	raw, err := action.Outputs(out)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatal(err)
	}
	checkMembers(t, "", fields, m)
}

func checkMembers(t testing.TB, at string, fields []spec.Field, m map[string]any) {
	t.Helper()
	for name, value := range m {
		f, ok := spec.FieldNamed(fields, name)
		if !ok {
			t.Errorf("output %s%s is not described", at, name)
			continue
		}
		switch v := value.(type) {
		case map[string]any:
			if f.Type != spec.Object {
				t.Errorf("output %s%s is an object, described as %s", at, name, f.Type)
			}
			if f.Fields != nil {
				checkMembers(t, at+name+".", f.Fields, v)
			}
		case []any:
			if f.Type != spec.Array {
				t.Errorf("output %s%s is a list, described as %s", at, name, f.Type)
			}
			for _, e := range v {
				if o, ok := e.(map[string]any); ok && f.Items != nil {
					checkMembers(t, at+name+"[].", f.Items.Fields, o)
				}
			}
		case float64:
			if f.Type != spec.Integer && f.Type != spec.Number {
				t.Errorf("output %s%s is a number, described as %s", at, name, f.Type)
			}
		case bool:
			if f.Type != spec.Boolean {
				t.Errorf("output %s%s is a boolean, described as %s", at, name, f.Type)
			}
		}
	}
}
