package definition_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/definition"
)

const declared = `name: p
parameters:
  - {name: uri, type: string}
  - {name: cluster, type: cluster_ref}
  - {name: count, type: integer, default: 1}
  - {name: rate, type: float, required: false}
  - {name: tags, type: array, default: null}
  - {name: size, type: string, enum: [small, large], default: small}
  - {name: key, type: string, secret: true, required: false}
steps: [{id: a, action: b}]
`

func TestCheckParams(t *testing.T) {
	d := parse(t, declared, definition.ParseOptions{})
	given := map[string]any{"uri": "x", "cluster": "c", "count": 3.0, "rate": int64(2), "event": map[string]any{}, "_trigger": "t"}
	got, problems := definition.CheckParams(d, given)
	if problems != nil {
		t.Fatal(problems)
	}
	want := map[string]any{"uri": "x", "cluster": "c", "count": int64(3), "rate": 2.0, "event": map[string]any{}, "_trigger": "t", "tags": nil, "size": "small"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if len(given) != 6 || given["count"] != 3.0 {
		t.Errorf("the map given was changed: %v", given)
	}
}

func TestCheckParamsProblems(t *testing.T) {
	d := parse(t, declared, definition.ParseOptions{})
	_, problems := definition.CheckParams(d, map[string]any{"cluster": "", "count": "3", "size": "smal", "tags": "a", "key": 12, "tag": 1, "other": 2})
	got := []string{}
	for _, p := range problems {
		got = append(got, p.String())
	}
	want := []string{
		"parameter uri is missing (give it a value of type string)",
		"parameter cluster is empty (it names something that must exist)",
		`parameter count must be a whole number, not "3" (write it without quotes)`,
		`parameter tags must be a list, not "a" (write a list: ["a"])`,
		`parameter size must be one of small, large, not "smal" (did you mean small?)`,
		"parameter key must be a text (quote it)",
		"warning: parameter other is not declared by the pipeline (the pipeline does not use it)",
		"warning: parameter tag is not declared by the pipeline (did you mean tags?)",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if problems.Err() == nil {
		t.Error("no error")
	}
}

func TestParseParam(t *testing.T) {
	for _, c := range []struct {
		kind, text string
		want       any
		problem    string
	}{
		{"string", "007", "007", ""}, {"string", "", "", ""}, {"string", "{a: 1}", "{a: 1}", ""},
		{"integer", "42", int64(42), ""}, {"integer", " -7 ", int64(-7), ""}, {"integer", "4.0", 4.0, ""},
		{"integer", "4.5", nil, "must be a whole number"}, {"integer", "many", nil, "must be a whole number"}, {"integer", "", nil, "must be a whole number"},
		{"integer", "99999999999999999999", nil, "64 bits"},
		{"float", "2", int64(2), ""}, {"number", "1e3", 1000.0, ""}, {"number", ".inf", nil, "finite"},
		{"boolean", "true", true, ""}, {"boolean", "false", false, ""}, {"boolean", "yes", nil, "must be true or false"}, {"boolean", "1", nil, "must be true or false"},
		{"array", `["a", 1, {"b": null}]`, []any{"a", int64(1), map[string]any{"b": nil}}, ""}, {"array", "[a, 2.5]", []any{"a", 2.5}, ""},
		{"array", "a,b", nil, "must be a list"}, {"array", "[a", nil, "not valid YAML"}, {"array", "{a: 1}", nil, "must be a list"},
		{"object", `{"a": 1}`, map[string]any{"a": int64(1)}, ""}, {"object", "{a: {b: [x]}}", map[string]any{"a": map[string]any{"b": []any{"x"}}}, ""},
		{"object", "text", nil, "must be an object"},
		{"duration", "90", 90.0, ""}, {"duration", "1h30m", "1h30m", ""}, {"duration", "soon", nil, "number of seconds"},
		{"time", "2026-01-31T12:00:00Z", "2026-01-31T12:00:00Z", ""}, {"time", "noon", nil, "a time such as"},
		{"model_ref", "m-1", "m-1", ""}, {"model_ref", "", nil, "is empty"},
		{"any", "12", int64(12), ""}, {"any", "007", "007", ""}, {"any", "[1]", []any{int64(1)}, ""}, {"any", "plain text", "plain text", ""}, {"any", "", "", ""},
	} {
		d := parse(t, "name: p\nparameters: [{name: v, type: "+c.kind+"}]\nsteps: [{id: a, action: b}]", definition.ParseOptions{})
		got, err := definition.ParseParam(&d.Parameters[0], c.text)
		if c.problem != "" {
			if err == nil || !strings.Contains(err.Error(), c.problem) || stepwell.CodeOf(err) != stepwell.CodeInvalid {
				t.Errorf("%s %q: %v, %v; want an error with %q", c.kind, c.text, got, err, c.problem)
			}
			continue
		}
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("%s %q: %v\n%s", c.kind, c.text, err, diff)
		}
	}
	if v, err := definition.ParseParam(nil, "3"); v != int64(3) || err != nil {
		t.Errorf("undeclared: %v, %v", v, err)
	}
}
