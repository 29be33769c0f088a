package expr

import (
	"strings"
	"testing"
)

// ended is a step as the engine shows it, that has ended without outputs.
type ended struct{ why string }

func (e ended) Attr(name string) (any, bool) {
	switch name {
	case "outputs":
		return &Absent{Why: e.why}, true
	case "status":
		return "skipped", true
	}
	return nil, false
}

func (e ended) Keys() []string { return []string{"status"} }

func absentScope() Vars {
	return Vars{
		"steps": map[string]any{"a": ended{"the step a was skipped"}, "b": map[string]any{"outputs": map[string]any{"n": int64(5), "nothing": nil}}},
		"files": []any{map[string]any{"name": "x", "error": nil}, map[string]any{"name": "y", "error": map[string]any{"code": "e1"}}},
	}
}

// TestAbsent: an absent value is false in a condition of any form, and the decision names it.
func TestAbsent(t *testing.T) {
	for source, want := range map[string]struct {
		holds  bool
		absent string // named by the decision
	}{
		"steps.a.outputs":                                      {false, "steps.a.outputs"},
		"steps.a.outputs.ok":                                   {false, "steps.a.outputs.ok"},
		"{{ steps['a'].outputs['ok'] }}":                       {false, "steps.a.outputs.ok"},
		"steps.a.outputs.n > 3":                                {false, "steps.a.outputs.n"},
		"3 > steps.a.outputs.n":                                {false, "steps.a.outputs.n"},
		"steps.a.outputs.n == 3":                               {false, "steps.a.outputs.n"},
		"steps.a.outputs.n < steps.b.outputs.n":                {false, "steps.a.outputs.n"},
		"steps.a.outputs.list[0].x == 1":                       {false, "steps.a.outputs.list[0].x"},
		"steps.a.outputs.n + 1 > 3":                            {false, "steps.a.outputs.n"},
		"steps.a.outputs.n | int > 3":                          {false, "steps.a.outputs.n"},
		"steps.a.outputs.list | length > 0":                    {false, "steps.a.outputs.list"},
		"'x' in steps.a.outputs.list":                          {false, "steps.a.outputs.list"},
		"steps.a.outputs.name in ['x']":                        {false, "steps.a.outputs.name"},
		"steps.a.outputs.name.startswith('x')":                 {false, "steps.a.outputs.name"},
		"steps.a.outputs.name is startswith('x')":              {false, "steps.a.outputs.name"},
		"steps.a.outputs.n is number":                          {false, "steps.a.outputs.n"},
		"steps.a.outputs.n ~ '' == 'x'":                        {false, "steps.a.outputs.n"},
		"steps.a.outputs is defined":                           {false, ""},
		"'outputs' in steps.a":                                 {false, ""},
		"steps.a.outputs.ok and true":                          {false, "steps.a.outputs.ok"},
		"steps.b.outputs.nothing.x == 1":                       {false, "steps.b.outputs.nothing.x"},
		"{% if steps.a.outputs.ok %}1{% endif %}":              {false, "steps.a.outputs.ok"},
		"{% for x in steps.a.outputs.list %}1{% endfor %}":     {false, "steps.a.outputs.list"},
		"steps.a.outputs.n | int > 3 or steps.b.outputs.n":     {true, ""},
		"steps.a.outputs.n > 3 or steps.b.outputs.n > 3":       {true, ""},
		"not steps.a.outputs.ok":                               {true, ""},
		"steps.a.outputs.name != 'x'":                          {true, ""},
		"'x' not in steps.a.outputs.list":                      {true, ""},
		"steps.a.outputs.n == none":                            {true, ""},
		"steps.a.outputs.n is none":                            {true, ""},
		"steps.a.outputs is not defined":                       {true, ""},
		"steps.a.outputs.n | default(5) > 3":                   {true, ""},
		"(steps.a.outputs.n | default(5)) == 5":                {true, ""},
		"'b' if steps.a.outputs.ok else 'c'":                   {true, ""},
		"steps.b.outputs.nothing.x is none":                    {true, ""},
		"steps.a.status == 'skipped'":                          {true, ""},
		"files | selectattr('error.code', 'eq', 'e1')":         {true, ""},
		"files | rejectattr('error.code') | list | length":     {true, ""},
		"(files | map(attribute='error.code') | last) == 'e1'": {true, ""},
		"([] | first) == 'x'":                                  {false, "the first element of an empty list"},
		"not ([] | first)":                                     {true, ""},
		"'x' if steps.b.outputs.n == 1":                        {false, "the inline if without else"},
	} {
		tm, err := ParseCondition(source)
		if err != nil {
			t.Fatal(source, err)
		}
		holds, absent, err := tm.Decide(absentScope(), Limits{})
		if err != nil || holds != want.holds {
			t.Errorf("%s: got %v, %v, want %v", source, holds, err, want.holds)
		}
		name := ""
		if e, ok := absent.(*Error); ok {
			name = e.Name
			if strings.HasPrefix(source, "steps.a") && !strings.HasSuffix(e.Message, " is absent: the step a was skipped") {
				t.Errorf("%s: %v", source, e)
			}
		}
		if name != want.absent {
			t.Errorf("%s: names %q, want %q", source, name, want.absent)
		}
	}
}

// TestAbsentValue: where a value is needed, an absent one is an error with the reason, unless default replaces it.
func TestAbsentValue(t *testing.T) {
	const why = " is absent: the step a was skipped (default(…) gives another value)"
	for source, want := range map[string]string{
		"{{ steps.a.outputs }}":                          "1:4: steps.a.outputs" + why,
		"{{ steps.a.outputs.n }}":                        "1:4: steps.a.outputs.n" + why,
		"n is {{ steps.a.outputs.n }}":                   "1:9: steps.a.outputs.n" + why,
		"{{ steps.a.outputs.n | int }}":                  "1:4: steps.a.outputs.n" + why,
		"{{ steps.a.outputs.n | float(0) }}":             "1:4: steps.a.outputs.n" + why,
		"{{ [steps.a.outputs.n] }}":                      "1:5: steps.a.outputs.n" + why,
		"{{ steps.a.outputs.n + 1 }}":                    "1:4: steps.a.outputs.n" + why,
		"{{ steps.b.outputs.nothing.x }}":                "1:4: steps.b.outputs.nothing.x is absent: x is looked up in none (default(…) gives another value)",
		"{{ steps.a.outputs.n | default(7) }}":           "7",
		"{{ steps.a.outputs | default({}) }}":            "{}",
		"{{ (steps.a.outputs | default({})).get('x') }}": "null",
		"{{ 1 if steps.a.outputs.ok else 2 }}":           "2",
		"{{ steps.a }}":                                  `{"status":"skipped"}`,
		"{{ steps.a.outputs.n or 'x' }}":                 `"x"`,
	} {
		tm, err := Parse(source)
		if err != nil {
			t.Fatal(source, err)
		}
		v, err := tm.Eval(absentScope(), Limits{})
		got := ""
		if err != nil {
			got = err.Error()
			if e := err.(*Error); e.Code != CodeUndefined || !e.Absent {
				t.Errorf("%s: %+v", source, e)
			}
		} else if raw, err := Marshal(v); err == nil {
			got = string(raw)
		}
		if got != want {
			t.Errorf("%s:\n got %s\nwant %s", source, got, want)
		}
	}
}
