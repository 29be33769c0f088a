package expr

import "testing"

func TestConditions(t *testing.T) {
	outputs := map[string]any{"healthy": true, "count": int64(3), "branch": "left", "empty": []any{}, "zero": int64(0), "fzero": 0.0,
		"no": "false", "text": " None ", "list": []any{int64(1)}}
	scope := Vars{"params": map[string]any{"env": "prod", "flag": false, "nothing": nil},
		"steps": map[string]any{"check": map[string]any{"status": "completed", "outputs": outputs}}}
	tests := map[string]bool{
		"": true, "  \n": true, "true": true, "True": true, "TRUE": true, "1": true, "yes": true, "Yes": true, "{{ true }}": true,
		"false": false, "False": false, "FALSE": false, "0": false, "none": false, "None": false, "no": false, "{{ false }}": false,
		"{{ none }}": false, "{{ 0 }}": false, "{{ 0.0 }}": false, "{{ '' }}": false, "{{ '0' }}": false, "{{ '0.0' }}": false, "{{ 'FALSE' }}": false, "{{ ' none ' }}": false,
		"{{ '[]' }}": false, "{{ '{}' }}": false, "{{ '()' }}": false, "{{ [] }}": false, "{{ {} }}": false, "{{ () }}": false, "{{ 'no' }}": false,
		"{{ 'true' }}": true, "{{ 'x' }}": true, "{{ 2 }}": true, "{{ -1 }}": true, "{{ [0] }}": true, "{{ {'a': 0} }}": true, "{{ '[ ]' }}": true,
		"{{ steps.check.outputs.healthy }}": true, "steps.check.outputs.healthy": true, "{{ not steps.check.outputs.healthy }}": false,
		"{{ steps.check.status == 'completed' }}": true, "steps.check.status == 'failed'": false,
		"{{ steps.check.outputs.count > 2 }}": true, "{{ steps.check.outputs.count > 2 and params.env == 'prod' }}": true,
		"{{ params.env in ['dev', 'test'] }}": false, "{{ params.env not in ['dev'] }}": true, "{{ params.flag or params.env == 'prod' }}": true,
		"{{ steps.check.outputs.no }}": false, "{{ steps.check.outputs.text }}": false, "{{ steps.check.outputs.empty }}": false,
		"{{ steps.check.outputs.zero }}": false, "{{ steps.check.outputs.fzero }}": false, "{{ steps.check.outputs.list }}": true,
		"{{ steps.check.outputs.branch == 'left' }}": true, "{{ params.nothing }}": false, "{{ params.nothing is none }}": true,
		"{{ missing is defined }}": false, "{{ missing is not defined }}": true, "{{ params.nothing.x }}": false, "params.nothing.x > 3": false,
		"{{ missing | default(true) }}": true, "{{ missing | default('') }}": false, "{{ steps.gone is defined and steps.gone.outputs.x > 1 }}": false,
		"{% if params.env == 'prod' %}true{% else %}false{% endif %}": true, "{% if params.flag %}true{% else %} false {% endif %}": false,
		"{{ params.flag }}{{ params.flag }}": true,
	}
	for source, want := range tests {
		template, err := ParseCondition(source)
		if err != nil {
			t.Errorf("%q: %v", source, err)
			continue
		}
		if got, err := template.EvalBool(scope, Limits{}); err != nil || got != want {
			t.Errorf("%q: got %v, %v; want %v", source, got, err, want)
		}
	}
}

func TestConditionErrors(t *testing.T) {
	for source, want := range map[string]string{
		"{{ params.env }} == 'prod'": "1:1: the condition has text outside {{ }} (put the whole condition into one pair of braces)",
		"{{ 1 < 'a' }}":              "1:8: an integer and a string have no order",
		"params.env = 'prod'":        "1:12: unexpected = (write == to compare)",
		"{{ 1 / 0 }}":                "1:4: / divides by zero",
		"missing":                    "1:1: missing is undefined",
		"not missing.x":              "1:5: missing.x is undefined",
		"{{ missing == 'x' }}":       "1:4: missing is undefined",
	} {
		template, err := ParseCondition(source)
		if err == nil {
			_, err = template.EvalBool(Vars{}, Limits{})
		}
		if err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", source, err, want)
		}
	}
}
