package expr

import (
	"encoding/json"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// lazy is an Object with keys, closed one without.
type lazy map[string]any

func isCode(err error, code Code) bool {
	e, ok := err.(*Error)
	return ok && e.Code == code
}

func (l lazy) Attr(name string) (any, bool) { v, ok := l[name]; return v, ok }
func (l lazy) Keys() []string               { return sortedKeys(l) }

type closed struct{ attrs map[string]any }

func (c closed) Attr(name string) (any, bool) { v, ok := c.attrs[name]; return v, ok }

func TestScopeValues(t *testing.T) {
	scope := Vars{
		"raw":     Raw(`{"a": [1, 2.0, {"b": "x"}], "big": 123456789012345678901, "empty": {}}`),
		"message": json.RawMessage(`[true]`),
		"int":     int(7), "uint8": uint8(8), "float32": float32(0.5), "number": json.Number("12"), "decimal": json.Number("1.5"),
		"strings": []string{"b", "a"}, "labels": map[string]string{"k": "v"}, "maps": []map[string]any{{"n": 1}},
		"lazy":   lazy{"x": Raw(`[1]`), "y": lazy{"z": int32(3)}},
		"closed": closed{map[string]any{"status": "done", "none": nil}},
		"nested": map[string]any{"n": int(1), "list": []any{int(2), Raw(`"r"`)}},
		"bytes":  struct{}{}, "bad": Raw(`{"a": `), "huge": uint64(1 << 63), "nil": nil, "absent": Raw(nil),
	}
	tests := []struct {
		source string
		want   any // nil with an error code in err
		err    Code
	}{
		{"raw.a[2].b", "x", ""},
		{"raw.a", []any{int64(1), 2.0, map[string]any{"b": "x"}}, ""},
		{"raw.big", json.Number("123456789012345678901"), ""},
		{"raw.big ~ ''", "123456789012345678901", ""},
		{"raw.big > 5 and raw.big == raw.big", true, ""},
		{"raw == raw", true, ""},
		{"raw.empty", map[string]any{}, ""},
		{"message[0]", true, ""},
		{"int + uint8 + float32", 15.5, ""},
		{"int", int64(7), ""},
		{"number + 1", int64(13), ""},
		{"decimal * 2", 3.0, ""},
		{"strings | sort", []any{"a", "b"}, ""},
		{"labels.k", "v", ""},
		{"labels", map[string]any{"k": "v"}, ""},
		{"maps[0].n + 1", int64(2), ""},
		{"lazy", map[string]any{"x": []any{int64(1)}, "y": map[string]any{"z": int64(3)}}, ""},
		{"lazy.x[0]", int64(1), ""},
		{"lazy | length", int64(2), ""},
		{"lazy.items() | map('first') | join", "xy", ""},
		{"lazy == {'x': [1], 'y': {'z': 3}}", true, ""},
		{"'x' in lazy and 'q' not in lazy", true, ""},
		{"lazy ~ ''", `{"x":[1],"y":{"z":3}}`, ""},
		{"lazy is mapping", true, ""},
		{"closed.status", "done", ""},
		{"closed.none", nil, ""},
		{"closed['status']", "done", ""},
		{"closed.nothing | default('d')", "d", ""},
		{"closed.get('status')", "done", ""},
		{"closed", nil, CodeType},
		{"nested", map[string]any{"n": int64(1), "list": []any{int64(2), "r"}}, ""},
		{"nested.list[1]", "r", ""},
		{"nested.list | join('-')", "2-r", ""},
		{"nested.list == [2, 'r']", true, ""},
		{"nil", nil, ""},
		{"absent", nil, ""},
		{"bytes", nil, CodeType},
		{"bad.a", nil, CodeValue},
		{"huge", nil, CodeBudget},
	}
	for _, test := range tests {
		template, err := ParseExpression(test.source)
		if err != nil {
			t.Fatalf("%s: %v", test.source, err)
		}
		got, err := template.Eval(scope, Limits{})
		if test.err != "" {
			if !isCode(err, test.err) {
				t.Errorf("%s: got %v, %v; want a %s error", test.source, got, err, test.err)
			}
			continue
		}
		if err != nil || !cmp.Equal(got, test.want) {
			t.Errorf("%s: got %#v, %v; want %#v", test.source, got, err, test.want)
		}
	}
}

// TestScopeUntouched: evaluation never modifies what the scope holds.
func TestScopeUntouched(t *testing.T) {
	list := []any{int64(3), int64(1), int64(2)}
	scope := Vars{"l": list, "m": map[string]any{"n": int(1)}}
	for _, source := range []string{"{{ l | sort }}", "{{ l | reverse }}", "{{ l[:2] | batch(3, 9) }}", "{{ l | slice(2, 0) }}", "{{ m }}",
		"{{ (l[:1] + [7]) }}", "{{ [l, l] | flatten }}", "{{ dict(m, n=5) }}"} {
		if _, err := parse(t, source).Eval(scope, Limits{}); err != nil {
			t.Errorf("%s: %v", source, err)
		}
	}
	if !cmp.Equal(list, []any{int64(3), int64(1), int64(2)}) || !cmp.Equal(scope["m"], any(map[string]any{"n": 1})) {
		t.Errorf("the scope is now %v", scope)
	}
}

func TestNativeTypes(t *testing.T) {
	scope := Vars{"id": "007", "n": int64(5), "l": []any{"a"}}
	for source, want := range map[string]any{
		"{{ id }}": "007", "{{ id | upper }}": "007", " {{ n }}\n": int64(5), "\n{{ l }}\n": []any{"a"}, "{{ n }}.": "5.", "{{ n }}{{ n }}": "55",
		"{# c #}{{ n }}": int64(5), "{% set x = 1 %}{{ x }}": "1", "{{- n -}}": int64(5), "{{ none }}": nil, "": "", "{# only #}": "", "a{# b #}": "a",
	} {
		if got, err := parse(t, source).Eval(scope, Limits{}); err != nil || !cmp.Equal(got, want) {
			t.Errorf("%q: got %#v, %v; want %#v", source, got, err, want)
		}
	}
}

func TestStatic(t *testing.T) {
	for source, want := range map[string]bool{"": true, "plain": true, "a } b": true, "{ {": true, "{{ 1 }}": false, "{# c #}": false,
		"{% raw %}x{% endraw %}": false} {
		template := parse(t, source)
		if template.Static() != want || template.Source() != source {
			t.Errorf("%q: static is %v", source, template.Static())
		}
		if v, err := template.Eval(nil, Limits{}); want && (err != nil || v != source) {
			t.Errorf("%q: got %v, %v", source, v, err)
		}
	}
}

func TestErrorMessages(t *testing.T) {
	scope := Vars{"params": map[string]any{"model": "m", "list": []any{int64(1)}, "nothing": nil}, "steps": lazy{"onboard": lazy{"outputs": Raw(`{"id": 1}`)}}}
	for source, want := range map[string]string{
		"{{ parms.model }}":                   "1:4: parms.model is undefined (did you mean params?)",
		"{{ params.modle }}":                  "1:4: params.modle is undefined (did you mean model?)",
		"{{ steps.onbord.outputs.id }}":       "1:4: steps.onbord.outputs.id is undefined (did you mean onboard?)",
		"{{ steps.onboard.outputs['i d'] }}":  `1:4: steps.onboard.outputs["i d"] is undefined (did you mean id?)`,
		"{{ params.list[3] }}":                "1:4: params.list[3] is undefined (the list has 1 elements)",
		"{{ params.nothing.x }}":              "1:4: params.nothing.x is absent: x is looked up in none (default(…) gives another value)",
		"a\n{{ params.model + 1 }}":           "2:4: + cannot be used between a string and an integer (~ joins values as text)",
		"{{ params.model | lenght }}":         "1:19: there is no filter named lenght (did you mean length?)",
		"{{ 1 is evn }}":                      "1:9: there is no test named evn (did you mean even?)",
		"{{ rnge(1) }}":                       "1:4: there is no function named rnge (did you mean range?)",
		"{{ params.model.uper() }}":           "1:17: there is no method named uper (did you mean upper?)",
		"{{ params.list.upper() }}":           "1:4: there is no list method named upper",
		"{{ 'a' | replace('b') }}":            "1:10: replace needs the argument new",
		"{{ 'a' | round(precison=1) }}":       "1:10: round has no argument named precison (did you mean precision?)",
		"{{ 'a' | upper(1) }}":                "1:10: upper takes at most 0 arguments",
		"{{ 1 | join(d=[1], attribute={}) }}": "1:8: an attribute is a name or a number, not a mapping",
		"x {{ a":                              "1:3: the tag is not closed: }} is missing",
		"{% if a %}\n":                        "2:1: the block is not closed: {% endif %} is missing",
		"{% fro x in y %}":                    "1:4: the tag fro is not supported (did you mean for?)",
		"{{ a && b }}":                        "1:6: unexpected character \"&\" (write and)",
		"{{ 007 }}":                           "1:4: the number 007 has a leading zero (quote it if it is text)",
		"{{ '{' | fromjson }}":                "1:10: invalid JSON: it ends too early at line 1, column 2 of the input of fromjson",
		"{{ 'a' | regex_search('(') }}":       "1:10: invalid regular expression: missing closing ): `(` (the syntax is RE2: no look-around, no back references)",
		"{{ ['a'] | map('uper') }}":           "1:16: there is no filter named uper (did you mean upper?)",
	} {
		template, err := Parse(source)
		if err == nil {
			_, err = template.Eval(scope, Limits{})
		}
		if err == nil || err.Error() != want {
			t.Errorf("%s\n got %v\nwant %s", source, err, want)
		}
	}
}

func TestUndefinedName(t *testing.T) {
	for source, want := range map[string]string{"{{ a.b.c }}": "a.b.c", "{{ a['x y'][0] }}": `a["x y"][0]`, "{{ m.b.c }}": "m.b.c", "{{ m[k].z }}": "m.q.z"} {
		_, err := parse(t, source).Eval(Vars{"m": map[string]any{}, "k": "q"}, Limits{})
		if e, ok := err.(*Error); !ok || e.Code != CodeUndefined || e.Name != want {
			t.Errorf("%s: got %v, want the name %s", source, err, want)
		}
	}
}

// TestConcurrentUse lets the race detector watch one Template in several goroutines.
func TestConcurrentUse(t *testing.T) {
	template := parse(t, "{% for x in raw.l %}{{ x | upper }}{{ 'a1' | regex_search('[0-9]') }}{% endfor %}")
	scope := Vars{"raw": Raw(`{"l": ["a", "b"]}`)}
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 100 {
				if v, err := template.Eval(scope, Limits{}); err != nil || v != "A1B1" {
					t.Errorf("got %v, %v", v, err)
					return
				}
			}
		})
	}
	group.Wait()
}

func BenchmarkPath(b *testing.B) {
	bench(b, "{{ steps.a.outputs.x }}", Vars{"steps": map[string]any{"a": map[string]any{"outputs": map[string]any{"x": "y"}}}})
}

func BenchmarkRawPath(b *testing.B) {
	bench(b, "{{ steps.a.outputs.x }}", Vars{"steps": lazy{"a": lazy{"outputs": Raw(`{"x":"y","n":1}`)}}})
}

func BenchmarkText(b *testing.B) {
	bench(b, "run-{{ params.name }}-{{ params.n }}", Vars{"params": map[string]any{"name": "demo", "n": int64(7)}})
}

func BenchmarkCondition(b *testing.B) {
	bench(b, "{{ steps.a.status == 'completed' and params.n > 3 }}",
		Vars{"steps": lazy{"a": lazy{"status": "completed"}}, "params": map[string]any{"n": int64(7)}})
}

func bench(b *testing.B, source string, scope Scope) {
	template := parse(b, source)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := template.Eval(scope, Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}
