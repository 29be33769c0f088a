package expr

import (
	"strings"
	"testing"
)

// TestRevision1: a log of revision 1 is folded by its own rules, in which int and float give 0 for a value that is no
// number. In the latest, only a written default does.
func TestRevision1(t *testing.T) {
	scope := Vars{"params": map[string]any{"text": "n/a", "nothing": nil, "n": int64(3)}}
	for source, want := range map[string]any{
		"params.text | int":              int64(0),
		"params.text | float":            0.0,
		"params.nothing | float":         0.0,
		"[] | int":                       int64(0),
		"(1e308 * 10) | int":             int64(0),
		"params.text | float(2)":         int64(2),
		"params.text | int(default=7)":   int64(7),
		"params.text | float(none)":      nil,
		"params.n | float":               3.0,
		"['1', 'x'] | map('int') | list": nil,
	} {
		tm, err := ParseExpression(source)
		if err != nil {
			t.Fatal(err)
		}
		was, err := tm.Eval(scope, Limits{Revision: 1})
		if list, ok := was.([]any); ok {
			was, want = list[1], int64(0)
		}
		if err != nil || was != want {
			t.Errorf("%s in revision 1: got %v, %v, want %v", source, was, err, want)
		}
	}
	for _, source := range []string{"params.text | int", "params.text | float", "params.nothing | float", "[] | int", "(1e308 * 10) | int", "['1', 'x'] | map('int') | list"} {
		tm, err := ParseExpression(source)
		if err != nil {
			t.Fatal(err)
		}
		if v, err := tm.Eval(scope, Limits{}); !isCode(err, CodeValue) {
			t.Errorf("%s: got %v, %v, want an error", source, v, err)
		}
	}
}

// TestRevision1Conditions: in revision 1 a condition takes undefined for false, also inside a comparison or a
// calculation.
func TestRevision1Conditions(t *testing.T) {
	scope := Vars{"params": map[string]any{"nothing": nil}, "steps": map[string]any{}}
	for source, was := range map[string]bool{
		"{{ steps.gone.outputs.x }}": false, "{{ steps.gone.outputs.x > 3 }}": false, "missing": false, "missing == 'x'": false, "missing != 'x'": true, "not missing": true,
		"missing + 1 > 0 or true": false, "missing or true": true, "{% if missing %}1{% endif %}": false, "params.nothing.x is none": false, "params.missing is string": false,
		"params.nothing.x == none": false, "params.nothing.x > 1": false, "missing in ['x']": false, "[{}] | selectattr('x')": false, "missing | int == 0": false,
	} {
		tm, err := ParseCondition(source)
		if err != nil {
			t.Fatal(err)
		}
		holds, absent, err := tm.Decide(scope, Limits{Revision: 1})
		if err != nil || holds != was || absent != nil {
			t.Errorf("%s: got %v, %v, %v, want %v", source, holds, absent, err, was)
		}
		if strings.Contains(source, "nothing") { // a member of null is absent, not undefined
			continue
		}
		if holds, _, err := tm.Decide(scope, Limits{}); !isCode(err, CodeUndefined) {
			t.Errorf("%s: got %v, %v, want an error", source, holds, err)
		}
	}
}

// TestRevision1Zero: the sign of a zero that % and // give shows in a text.
func TestRevision1Zero(t *testing.T) {
	for source, want := range map[string][2]string{"x{{ -4.0 % 2 }}": {"x-0.0", "x0.0"}, "x{{ 4.0 % -2 }}": {"x0.0", "x-0.0"}, "x{{ 0.0 // -1 }}": {"x0.0", "x-0.0"}} {
		tm, err := Parse(source)
		if err != nil {
			t.Fatal(err)
		}
		for i, l := range []Limits{{Revision: 1}, {}} {
			if got, err := tm.Eval(nil, l); err != nil || got != want[i] {
				t.Errorf("%s in revision %d: %v, %v, want %s", source, i+1, got, err, want[i])
			}
		}
	}
}
