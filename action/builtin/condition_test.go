package builtin

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stepwell/stepwell/action/actiontest"
)

func TestCondition(t *testing.T) {
	scope := map[string]any{"params": params{"env": "prod", "n": 0, "list": []any{}, "no": "False", "null": nil}}
	tests := []struct {
		condition any
		result    bool
	}{
		{true, true}, {false, false}, {0, false}, {1, true}, {[]any{}, false}, {params{"a": 1}, true},
		{"true", true}, {"False", false}, {"", true}, {"  ", true}, {"none", false}, {"yes", true},
		{"{{ params.env == 'prod' }}", true}, {"{{ params.env == 'dev' }}", false}, {"params.env == 'prod'", true},
		{"{{ params.n }}", false}, {"{{ params.list }}", false}, {"{{ params.no }}", false}, {"{{ true }}", true},
		{"{{ params.null.x }}", false}, {"params.null.deeper.still > 3", false}, {"not params.null.x", true}, {"{{ nothing is defined }}", false},
		{"{% if params.n == 0 %}true{% endif %}", true},
	}
	for _, test := range tests {
		got := run(t, "util.condition", actiontest.Call{Params: params{"condition": test.condition}, Scope: scope})
		branch := map[bool]string{true: "true", false: "false"}[test.result]
		t.Logf("%v", test.condition)
		want(t, got, params{"result": test.result, "branch": branch, "matched_branch": branch, "matched_label": branch, "target_step": nil})
	}
}

// A name that does not exist fails the step: it is never false.
func TestConditionUndefined(t *testing.T) {
	for _, condition := range []string{"{{ params.unknown }}", "params.unknown.deeper > 3", "nothing", "not nothing", "{{ nothing == 'x' }}"} {
		wantFail(t, run(t, "util.condition", actiontest.Call{Params: params{"condition": condition}, Scope: params{"params": params{}}}), " is undefined")
		wantFail(t, run(t, "filter", actiontest.Call{Params: params{"items": []any{1}, "condition": condition}, Scope: params{"params": params{}}}), " is undefined")
	}
}

func TestConditionBranches(t *testing.T) {
	branches := []any{
		params{"id": "many", "condition": "{{ n > 100 }}", "label": "A lot: {{ n }}", "target_step": "bulk"},
		params{"id": "some", "condition": "{{ n > 0 }}"},
		params{"id": "more", "condition": "{{ n > 50 }}"},
		params{"id": "broken", "condition": "{{ n < 0 and n / 0 }}"},
	}
	at := func(n int, branches ...any) actiontest.Result {
		return run(t, "conditional", actiontest.Call{Params: params{"branches": branches}, Scope: params{"n": n}})
	}
	taken := func(id, label string, target any) params {
		return params{"branch": id, "matched_branch": id, "matched_label": label, "target_step": target, "result": label}
	}
	want(t, at(200, branches...), taken("many", "A lot: 200", "bulk"))
	want(t, at(70, branches...), taken("some", "some", nil))
	want(t, at(0, branches...), params{"branch": "none", "matched_branch": nil, "matched_label": "none", "target_step": nil, "result": nil})
	want(t, at(0, append(branches, params{"id": "else"})...), taken("else", "else", nil))
	wantFail(t, at(-1, branches...), "condition of branch broken")
	wantFail(t, at(1, params{"id": "a", "target_step": "{{ unknown }}"}), "branch a: 1:4: unknown is undefined")
}

func TestConditionResults(t *testing.T) {
	either := params{"condition": "params.n > 1", "true_result": params{"way": "{{ params.n }}", "list": []any{"{{ params.n }}", 7}}, "false_result": "no: {{ params.n }}"}
	for n, result := range map[int]any{2: params{"way": int64(2), "list": []any{int64(2), int64(7)}}, 1: "no: 1"} {
		got := run(t, "conditional", actiontest.Call{Params: either, Scope: params{"params": params{"n": n}}})
		if got.Err != nil {
			t.Fatal(got.Err)
		}
		if diff := cmp.Diff(result, got.Outputs["result"]); diff != "" {
			t.Errorf("result (-want +got):\n%s", diff)
		}
	}
	wantFail(t, run(t, "conditional", actiontest.Call{Params: params{"condition": true, "true_result": []any{"{{ nothing }}"}}}), "true_result: [0]: 1:4: nothing is undefined")
}

func TestConditionRefuses(t *testing.T) {
	many := make([]any, maxBranches+1)
	for i := range many {
		many[i] = params{"id": strings.Repeat("x", i+1)}
	}
	tests := []struct {
		params params
		text   string
	}{
		{params{}, "nothing to decide"},
		{params{"condition": true, "branches": []any{params{"id": "a"}}}, "condition stands beside branches"},
		{params{"true_result": 1, "branches": []any{params{"id": "a"}}}, "true_result stands beside branches"},
		{params{"condition": "{{ 1 +"}, "condition: 1:"},
		{params{"condition": "{{ params.env }} == 'prod'"}, "text outside"},
		{params{"branches": []any{}}, "at least 1"},
		{params{"branches": many}, "at most 1000"},
		{params{"branches": []any{params{"label": "x"}}}, "id is missing"},
		{params{"branches": []any{params{"id": "a"}, params{"id": "a"}}}, `the id "a" is there twice`},
		{params{"branches": []any{params{"id": "a", "condition": "{{ }}"}}}, "branches[0].condition"},
		{params{"branches": []any{params{"id": "a", "conditon": true}}}, "conditon"},
	}
	for _, test := range tests {
		wantFail(t, run(t, "util.condition", actiontest.Call{Params: test.params}), test.text)
	}
}

func TestConditionValidateFindsAll(t *testing.T) {
	problems := registry(t).Validate("util.condition", params{"condition": "{{ 1 +", "branches": []any{params{}, params{"id": "a", "condition": "a b"}}})
	if len(problems) != 4 {
		t.Errorf("%d problems, want 4:\n%v", len(problems), errors.Join(problems...))
	}
}
