package builtin

import (
	"errors"
	"testing"

	"github.com/stepwell/stepwell/action/actiontest"
)

func TestSwitch(t *testing.T) {
	list := []any{
		params{"value": 1, "result": "one"},
		params{"value": "1", "result": "text one", "target_step": "texts"},
		params{"value": []any{1, params{"a": 2}}, "result": params{"size": "{{ value | length }}", "of": "{{ params.n }}"}},
		params{"value": "{{ params.n }}", "target_step": "n-{{ params.n }}"},
		params{"condition": "{{ value is none }}", "result": "nothing"},
		params{"condition": "value > 1000", "result": "large"},
	}
	object := params{"fast": "quick", "true": 2, "3": "{{ params.n }}", "": "empty"}
	tests := map[string]struct {
		value, cases, fallback any
		want                   params
	}{
		"integer":          {int64(1), list, nil, params{"matched": true, "case": int64(1), "result": "one", "target_step": nil}},
		"float of it":      {1.0, list, nil, params{"matched": true, "case": int64(1), "result": "one", "target_step": nil}},
		"text":             {"1", list, nil, params{"matched": true, "case": "1", "result": "text one", "target_step": "texts"}},
		"list":             {[]any{int64(1), params{"a": int64(2)}}, list, nil, params{"matched": true, "case": []any{int64(1), params{"a": int64(2)}}, "result": params{"size": int64(2), "of": int64(77)}, "target_step": nil}},
		"template":         {77, list, nil, params{"matched": true, "case": "{{ params.n }}", "result": nil, "target_step": "n-77"}},
		"condition":        {1001, list, nil, params{"matched": true, "case": "value > 1000", "result": "large", "target_step": nil}},
		"null":             {nil, list, nil, params{"matched": true, "case": "{{ value is none }}", "result": "nothing", "target_step": nil}},
		"none":             {2, list, nil, params{"matched": false, "case": "none", "result": nil, "target_step": nil}},
		"default":          {2, list, "other {{ value }}", params{"matched": false, "case": "default", "result": "other 2", "target_step": nil}},
		"default case":     {2, list, params{"result": 0, "target_step": "rest"}, params{"matched": false, "case": "default", "result": int64(0), "target_step": "rest"}},
		"default object":   {2, list, params{"result": 0, "more": 1}, params{"matched": false, "case": "default", "result": params{"result": int64(0), "more": int64(1)}, "target_step": nil}},
		"object":           {"fast", object, nil, params{"matched": true, "case": "fast", "result": "quick", "target_step": nil}},
		"object, boolean":  {true, object, nil, params{"matched": true, "case": "true", "result": int64(2), "target_step": nil}},
		"object, number":   {3, object, nil, params{"matched": true, "case": "3", "result": int64(77), "target_step": nil}},
		"object, null":     {nil, object, nil, params{"matched": true, "case": "", "result": "empty", "target_step": nil}},
		"object, no match": {"slow", object, nil, params{"matched": false, "case": "none", "result": nil, "target_step": nil}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p := params{"value": test.value, "cases": test.cases}
			if test.fallback != nil {
				p["default"] = test.fallback
			}
			want(t, run(t, "switch", actiontest.Call{Params: p, Scope: params{"params": params{"n": 77}}}), test.want)
		})
	}
}

// Only the result of the case that is taken is evaluated.
func TestSwitchLazy(t *testing.T) {
	cases := []any{params{"value": 1, "result": "{{ nothing }}"}, params{"value": 2, "result": "fine"}}
	want(t, run(t, "util.switch", actiontest.Call{Params: params{"value": 2, "cases": cases}}),
		params{"matched": true, "case": int64(2), "result": "fine", "target_step": nil})
	wantFail(t, run(t, "util.switch", actiontest.Call{Params: params{"value": 1, "cases": cases}}), "result of case 1: 1:4: nothing is undefined")
}

func TestSwitchRefuses(t *testing.T) {
	for _, test := range []struct {
		cases any
		text  string
	}{
		{nil, "is null, not a list or an object"},
		{[]any{}, "has 0 elements, not 1 to 1000"},
		{params{}, "has 0 elements"},
		{"{{ params.cases }}", "is string, not a list or an object"},
		{[]any{1}, "cases[0]: is integer"},
		{[]any{params{"result": 1}}, "exactly one of value and condition"},
		{[]any{params{"value": 1, "condition": "x"}}, "exactly one of value and condition"},
		{[]any{params{"value": 1, "then": "x"}}, `unknown key "then"`},
		{[]any{params{"condition": "{{ 1 +"}}, "cases[0]: 1:"},
		{[]any{params{"value": 1, "target_step": 5}}, "target_step is integer"},
	} {
		wantFail(t, run(t, "switch", actiontest.Call{Params: params{"value": 1, "cases": test.cases}}), test.text)
	}
	problems := registry(t).Validate("switch", params{"cases": []any{1, params{}, params{"value": nil}}})
	if len(problems) != 2 {
		t.Errorf("%d problems, want 2: %v", len(problems), errors.Join(problems...))
	}
}

func TestFilter(t *testing.T) {
	items := []any{params{"p": "high", "n": 1}, params{"p": "low", "n": 0}, params{"p": "high", "n": 2}}
	high := params{"items": []any{params{"p": "high", "n": int64(1)}, params{"p": "high", "n": int64(2)}}, "count": int64(2)}
	for _, condition := range []any{"item.p == 'high'", "{{ item.p == 'high' }}", "{{ item.n > 0 }}", "index != 1"} {
		want(t, run(t, "filter", actiontest.Call{Params: params{"items": items, "condition": condition}}), high)
	}
	want(t, run(t, "filter", actiontest.Call{Params: params{"items": items, "condition": false}}), params{"items": []any{}, "count": int64(0)})
	want(t, run(t, "filter", actiontest.Call{Params: params{"items": []any{1, 5, 9}, "condition": "{{ item >= params.least }}"}, Scope: params{"params": params{"least": 5}}}),
		params{"items": []any{int64(5), int64(9)}, "count": int64(2)})
	wantFail(t, run(t, "filter", actiontest.Call{Params: params{"items": []any{1, "x"}, "condition": "item + 1"}}), "condition for element 1")
	wantFail(t, run(t, "filter", actiontest.Call{Params: params{"items": []any{}, "condition": "{{ 1 +"}}), "condition: 1:")
	wantFail(t, run(t, "filter", actiontest.Call{Params: params{"items": params{}, "condition": true}}), "items must be a list")
}
