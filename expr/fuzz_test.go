package expr

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func seed(f *testing.F) {
	raw, err := os.ReadFile("testdata/jinja2.json")
	if err != nil {
		f.Fatal(err)
	}
	var file struct{ Cases []goldenCase }
	if err := json.Unmarshal(raw, &file); err != nil {
		f.Fatal(err)
	}
	for _, c := range file.Cases {
		if c.Kind == "expression" {
			c.Template = "{{ " + c.Template + " }}"
		}
		f.Add(c.Template)
	}
}

// FuzzParse: no panic; every error is an *Error with a position inside the source.
func FuzzParse(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, source string) {
		for _, parse := range []func(string) (*Template, error){Parse, ParseExpression, ParseCondition} {
			template, err := parse(source)
			if err != nil {
				if e, ok := err.(*Error); !ok || e.Message == "" || e.Line < 1 && e.Code != CodeBudget {
					t.Fatalf("%q: %#v", source, err)
				}
				continue
			}
			for _, r := range template.Refs() {
				if len(r.Path) == 0 || r.Line < 1 || r.Column < 1 {
					t.Fatalf("%q: reference %+v", source, r)
				}
			}
		}
	})
}

// FuzzEval: no panic, the budget holds, equal inputs give equal outputs, a value can be written as JSON and read back.
func FuzzEval(f *testing.F) {
	seed(f)
	scope := Vars{"params": Raw(`{"a":1,"l":[3,1,"x"],"m":{"k":[null,true,2.5]},"s":"text"}`), "steps": lazy{"a": lazy{"outputs": Raw(`{"x":"y"}`)}},
		"x": "abc", "i": int(3), "n": nil}
	limits := Limits{Ops: 20_000, Bytes: 1 << 18, Depth: 64}
	f.Fuzz(func(t *testing.T, source string) {
		template, err := Parse(source)
		if err != nil {
			return
		}
		got, err := template.Eval(scope, limits)
		again, errAgain := template.Eval(scope, limits)
		if (err == nil) != (errAgain == nil) || err != nil && err.Error() != errAgain.Error() {
			t.Fatalf("%q: %v, then %v", source, err, errAgain)
		}
		if err != nil {
			if e, ok := err.(*Error); !ok || e.Line < 1 || e.Code == CodeUndefined && e.Name == "" {
				t.Fatalf("%q: %#v", source, err)
			}
			return
		}
		raw, err := Marshal(got)
		if err != nil {
			if isCode(err, CodeValue) {
				return // NaN or an infinity
			}
			t.Fatalf("%q: %#v: %v", source, got, err)
		}
		rawAgain, err := Marshal(again)
		if err != nil || string(raw) != string(rawAgain) {
			t.Fatalf("%q: %s, then %s", source, raw, rawAgain)
		}
		if _, err := template.EvalBool(scope, limits); err != nil && !isCode(err, CodeBudget) {
			t.Fatalf("%q: a value, but as a condition %v", source, err)
		}
	})
}

// FuzzDecode: Decode accepts the same texts as encoding/json, and Marshal brings them back.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.5,"x\u00e4"],"b":null}`, "1e5", "-0", `"\ud800"`, "[[[]]]", "123456789012345678901234567890", "-0.0", "1E-400"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		v, err := Decode(raw)
		if err != nil {
			e, ok := err.(*Error)
			if !ok || e.Line < 1 {
				t.Fatalf("%q: %#v", raw, err)
			}
			var any any
			if e.Code == CodeValue && json.Unmarshal(raw, &any) == nil {
				t.Fatalf("%q is JSON, but: %v", raw, err)
			}
			return
		}
		if !json.Valid(raw) {
			t.Fatalf("%q is not JSON, but gives %#v", raw, v)
		}
		out, err := Marshal(v)
		if err != nil {
			t.Fatalf("%q: %v", raw, err)
		}
		back, err := Decode(out)
		if err != nil || !cmp.Equal(v, back) {
			t.Fatalf("%q: %#v became %s and then %#v, %v", raw, v, out, back, err)
		}
	})
}
