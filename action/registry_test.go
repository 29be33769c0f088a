package action_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/spec"
)

// idle is a handler that does nothing.
var idle = action.HandlerFunc(func(context.Context, *action.Call) (any, error) { return nil, nil })

func described(s spec.Spec) action.Action { return action.Action{Spec: s, Handler: idle} }

func registered(t *testing.T, specs ...spec.Spec) *action.Registry {
	t.Helper()
	r := new(action.Registry)
	for _, s := range specs {
		if err := r.Add(described(s)); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func TestRegistryLookup(t *testing.T) {
	r := registered(t, spec.Spec{Name: "b"}, spec.Spec{Name: "a", Aliases: []string{"z"}}, spec.Spec{Name: "c"})
	if diff := cmp.Diff([]string{"a", "b", "c"}, r.Names()); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	for name, want := range map[string]string{"a": "a", "z": "a", "b": "b"} {
		a, ok := r.Lookup(name)
		s, ok2 := r.Spec(name)
		_, ok3 := r.Params(name)
		if !ok || !ok2 || !ok3 || a.Spec.Name != want || s.Name != want {
			t.Errorf("%s leads to %v", name, s)
		}
	}
	if _, ok := r.Lookup("d"); ok {
		t.Error("found an action that was never added")
	}
	if _, ok := new(action.Registry).Spec("a"); ok {
		t.Error("found an action in an empty registry")
	}
}

func TestRegistryRefuses(t *testing.T) {
	low, high := 1.0, 2.0
	one := func(f spec.Field) spec.Spec { return spec.Spec{Name: "x", Params: []spec.Field{f}} }
	tests := map[string]struct {
		spec spec.Spec
		code stepwell.Code
		text string
	}{
		"no name":         {spec.Spec{}, stepwell.CodeInvalid, "empty name"},
		"empty alias":     {spec.Spec{Name: "x", Aliases: []string{""}}, stepwell.CodeInvalid, "empty name or alias"},
		"name taken":      {spec.Spec{Name: "taken"}, stepwell.CodeConflict, `"taken" is registered twice`},
		"alias taken":     {spec.Spec{Name: "x", Aliases: []string{"also"}}, stepwell.CodeConflict, `"also" is registered twice`},
		"alias is name":   {spec.Spec{Name: "x", Aliases: []string{"x"}}, stepwell.CodeConflict, `"x" is registered twice`},
		"field twice":     {spec.Spec{Name: "x", Params: []spec.Field{{Name: "a", Type: spec.Any}, {Name: "a", Type: spec.Any}}}, stepwell.CodeInvalid, "params: field a appears twice"},
		"output twice":    {spec.Spec{Name: "x", Outputs: []spec.Field{{Name: "a", Type: spec.Any}, {Name: "a", Type: spec.Any}}}, stepwell.CodeInvalid, "outputs: field a"},
		"no field name":   {one(spec.Field{Type: spec.Any}), stepwell.CodeInvalid, "no name"},
		"unknown type":    {one(spec.Field{Name: "a", Type: "text"}), stepwell.CodeInvalid, `unknown type "text"`},
		"needless":        {one(spec.Field{Name: "a", Type: spec.String, Required: true, Default: "x"}), stepwell.CodeInvalid, "param a is required and has a default"},
		"bad default":     {one(spec.Field{Name: "a", Type: spec.Integer, Default: "x"}), stepwell.CodeInvalid, "default of field a"},
		"bounds":          {one(spec.Field{Name: "a", Type: spec.Number, Min: &high, Max: &low}), stepwell.CodeInvalid, "Min above its Max"},
		"enum":            {one(spec.Field{Name: "a", Type: spec.Number, Enum: []string{"1"}}), stepwell.CodeInvalid, "is not a string"},
		"items of object": {one(spec.Field{Name: "a", Type: spec.Object, Items: &spec.Field{Type: spec.Any}}), stepwell.CodeInvalid, "does not have"},
		"nested": {one(spec.Field{Name: "a", Type: spec.Array, Items: &spec.Field{Type: spec.Object,
			Fields: []spec.Field{{Name: "b", Type: spec.String, Required: true, Default: "x"}}}}), stepwell.CodeInvalid, "param a[].b is required"},
		"pattern":       {one(spec.Field{Name: "a", Type: spec.String, Pattern: "("}), stepwell.CodeInvalid, "pattern of field a"},
		"key param":     {spec.Spec{Name: "x", KeyParam: "file"}, stepwell.CodeInvalid, `KeyParam "file"`},
		"empty example": {spec.Spec{Name: "x", Examples: []spec.Example{{Title: "t"}}}, stepwell.CodeInvalid, "example"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := registered(t, spec.Spec{Name: "taken", Aliases: []string{"also"}})
			err := r.Add(described(test.spec))
			if stepwell.CodeOf(err) != test.code || !strings.Contains(err.Error(), test.text) {
				t.Errorf("got %v, want %s with %q", err, test.code, test.text)
			}
			if _, ok := r.Lookup("x"); ok || len(r.Names()) != 1 {
				t.Error("something of the refused action is registered")
			}
		})
	}
	if err := new(action.Registry).Add(action.Action{Spec: spec.Spec{Name: "x"}}); stepwell.CodeOf(err) != stepwell.CodeInvalid {
		t.Errorf("no handler: %v", err)
	}
}

// picky is a handler that finds every parameter wrong.
type picky struct{ action.Handler }

// Validate implements action.Validator.
func (picky) Validate(params map[string]any) []error {
	var problems []error
	for name := range params {
		problems = append(problems, errors.New(name+" is wrong"))
	}
	return problems
}

func TestRegistryValidate(t *testing.T) {
	r := registered(t, spec.Spec{Name: "util.easy"})
	if err := r.Add(action.Action{Spec: spec.Spec{Name: "picky"}, Handler: picky{idle}}); err != nil {
		t.Fatal(err)
	}
	if problems := r.Validate("util.easy", map[string]any{"a": 1}); problems != nil {
		t.Errorf("a handler without Validate: %v", problems)
	}
	if problems := r.Validate("picky", map[string]any{"a": 1, "b": 2}); len(problems) != 2 {
		t.Errorf("got %v", problems)
	}
	problems := r.Validate("easy", nil)
	if len(problems) != 1 || stepwell.CodeOf(problems[0]) != stepwell.CodeNotFound || stepwell.HintOf(problems[0]) != "did you mean util.easy?" {
		t.Errorf("unknown action: %v, hint %q", problems, stepwell.HintOf(errors.Join(problems...)))
	}
}

func TestRegistryComplete(t *testing.T) {
	r := registered(t, spec.Spec{Name: "extract", DependsOn: []string{"scan"}, KeyParam: "file",
		Params: []spec.Field{{Name: "file", Type: spec.String}}}, spec.Spec{Name: "plain"})
	tests := map[string]struct {
		in, want action.NewStep
		key      string
	}{
		"from the spec": {action.NewStep{Name: "extract", Params: map[string]any{"file": "GX01.MP4"}},
			action.NewStep{Name: "extract", Action: "extract", Key: "GX01.MP4", DependsOn: []string{"scan"}, Params: map[string]any{"file": "GX01.MP4"}}, "extract:GX01.MP4"},
		"its own": {action.NewStep{Name: "again", Action: "extract", Key: "k", DependsOn: []string{}, Params: map[string]any{"file": "x"}},
			action.NewStep{Name: "again", Action: "extract", Key: "k", DependsOn: []string{}, Params: map[string]any{"file": "x"}}, "again:k"},
		"nothing to take": {action.NewStep{Name: "plain"}, action.NewStep{Name: "plain", Action: "plain"}, "plain"},
	}
	for name, test := range tests {
		got, err := r.Complete(test.in)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if key := got.StepKey(); key != test.key {
			t.Errorf("%s: key %q, want %q", name, key, test.key)
		}
	}
	if _, err := r.Complete(action.NewStep{}); stepwell.CodeOf(err) != stepwell.CodeInvalid {
		t.Errorf("no name: %v", err)
	}
	if _, err := r.Complete(action.NewStep{Name: "extrct"}); stepwell.CodeOf(err) != stepwell.CodeNotFound || !strings.Contains(err.Error(), "spawned step extrct") {
		t.Errorf("unknown action: %v", err)
	}
	got, _ := r.Complete(action.NewStep{Name: "extract"})
	got.DependsOn[0] = "changed"
	if s, _ := r.Spec("extract"); s.DependsOn[0] != "scan" {
		t.Error("a spawned step shares its list with the Spec")
	}
}

func TestOutputs(t *testing.T) {
	type result struct {
		N int `json:"n"`
	}
	good := map[string]any{`{}`: nil, `{"n":1}`: result{1}, `{"a":[1]}`: map[string]any{"a": []int{1}}}
	good[`{"b":2}`] = json.RawMessage(`{"b": 2}`)
	for want, value := range good {
		got, err := action.Outputs(value)
		if err != nil || string(got) != want {
			t.Errorf("%v: %s, %v; want %s", value, got, err, want)
		}
	}
	for _, empty := range []any{map[string]any(nil), (*result)(nil)} {
		if got, err := action.Outputs(empty); err != nil || string(got) != "{}" {
			t.Errorf("%#v: %s, %v", empty, got, err)
		}
	}
	for _, bad := range []any{1, "x", []any{}, make(chan int), json.RawMessage(`{"a":`)} {
		if _, err := action.Outputs(bad); !action.IsFail(err) || stepwell.CodeOf(err) != stepwell.CodeInvalid {
			t.Errorf("%v: %v, want a failure for good", bad, err)
		}
	}
}
