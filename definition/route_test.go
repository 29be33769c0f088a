package definition

// This test is inside the package because it is about how conditions are put together.

import (
	"testing"

	"github.com/stepwell/stepwell/expr"
)

// Within a block any condition is judged as it is alone; and it is false when the step was not chosen.
func TestBothKeepsTruth(t *testing.T) {
	scope := expr.Vars{"params": map[string]any{"zero": int64(0), "one": 1.5, "no": "False", "text": "x", "empty": "", "null": nil,
		"list": []any{}, "full": []any{int64(0)}, "object": map[string]any{}, "yes": true, "off": false, "brackets": "[]", "point": "0.0"}}
	conditions := []string{"", " ", "true", "False", "yes", "no", "none", "NULL", "1", "0", "{{ true }}", "{{ false }}", "{{ none }}", "{{ 'a' if params.zero }}",
		"{{ params.one > 1 }}", "params.text == 'x'", "params.text == \"x\"",
		"{% if params.yes %}1{% endif %}", "{% if params.off %}1{% endif %}", "{% if params.yes %}no{% else %}yes{% endif %}", "{{- params.no -}}",
		"{{ params.full | length }}", "{{ params.unknown is defined }}", "{{ params.unknown | default('off') }}", "{{ params.yes and params.no }}", "'}}' == '}}'", "{# a #}{{ params.yes }}"}
	for name := range scope["params"].(map[string]any) {
		conditions = append(conditions, "params."+name, "{{ params."+name+" }}", "{{ params['"+name+"'] }}")
	}
	for _, own := range conditions {
		alone := truth(t, own, scope)
		if got := truth(t, both("params.yes", own), scope); got != alone {
			t.Errorf("%q is %v, but %v as %q", own, alone, got, both("params.yes", own))
		}
		if truth(t, both("params.off", own), scope) || truth(t, both(`params.unknown | default("") == "x"`, own), scope) {
			t.Errorf("%q holds for a step that was not chosen: %q", own, both("params.off", own))
		}
	}
}

func truth(t *testing.T, condition string, scope expr.Scope) bool {
	t.Helper()
	parsed, err := expr.ParseCondition(condition)
	if err != nil {
		t.Fatalf("%q: %v", condition, err)
	}
	holds, err := parsed.EvalBool(scope, expr.Limits{})
	if err != nil {
		t.Fatalf("%q: %v", condition, err)
	}
	return holds
}
