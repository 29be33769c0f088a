package expr

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// goldenResult is a value, undefined, or an error.
type goldenResult struct {
	Value     json.RawMessage `json:"value"`
	Undefined bool            `json:"undefined"`
	Error     string          `json:"error"`
}

type goldenCase struct {
	Kind     string        `json:"kind"`
	Template string        `json:"template"`
	Jinja2   goldenResult  `json:"jinja2"`
	Stepwell *goldenResult `json:"stepwell"`
	Reason   string        `json:"reason"`
	// Revision1 is the result by the rules of revision 1, when it differs.
	Revision1 *goldenResult `json:"revision1"`
}

func readGolden(t *testing.T) (Vars, []goldenCase) {
	t.Helper()
	raw, err := os.ReadFile("testdata/jinja2.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Context json.RawMessage `json:"context"`
		Cases   []goldenCase    `json:"cases"`
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	context, err := Decode(file.Context)
	if err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) < 200 {
		t.Fatalf("only %d cases", len(file.Cases))
	}
	return Vars(context.(map[string]any)), file.Cases
}

// TestJinja2 compares every case with the real Jinja2, types included, or with the difference that the case states.
func TestJinja2(t *testing.T) {
	scope, cases := readGolden(t)
	for _, c := range cases {
		t.Run(c.Template, func(t *testing.T) {
			want := c.Jinja2
			if c.Stepwell != nil {
				want = *c.Stepwell
				if c.Reason == "" {
					t.Error("a difference without a reason")
				}
				if got := outcome(t, c.Kind, c.Template, scope, Limits{}); matches(t, got, c.Jinja2) {
					t.Error("the stated difference does not exist")
				}
			}
			got := outcome(t, c.Kind, c.Template, scope, Limits{})
			if !matches(t, got, want) {
				t.Errorf("got %s, want %s", describe(got), describe(want))
			}
			if was := c.Revision1; was != nil {
				if got := outcome(t, c.Kind, c.Template, scope, Limits{Revision: 1}); !matches(t, got, *was) {
					t.Errorf("revision 1: got %s, want %s", describe(got), describe(*was))
				}
			}
		})
	}
}

func outcome(t *testing.T, kind, source string, scope Scope, l Limits) goldenResult {
	t.Helper()
	parse := Parse
	if kind == "expression" {
		parse = ParseExpression
	}
	template, err := parse(source)
	var v any
	if err == nil {
		v, err = template.Eval(scope, l)
	}
	if err == nil && kind == "text" {
		if s, ok := v.(string); ok {
			v = s
		} else { // a text of one expression keeps its type here and is rendered there
			v = (&state{src: source, limits: l.withDefaults(), bytes: 1 << 20, ops: 1 << 20}).text(v)
		}
	}
	if err != nil {
		e, ok := err.(*Error)
		if !ok {
			t.Fatalf("an error of type %T: %v", err, err)
		}
		if e.Line < 1 || e.Column < 1 {
			t.Errorf("no position in %q", e.Error())
		}
		return goldenResult{Undefined: e.Code == CodeUndefined, Error: string(e.Code)}
	}
	raw, err := Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return goldenResult{Value: raw}
}

func matches(t *testing.T, got, want goldenResult) bool {
	t.Helper()
	switch {
	case want.Undefined:
		return got.Undefined
	case want.Error != "" && len(want.Error) > 0 && want.Error[0] >= 'a':
		return got.Error == want.Error // one of our codes
	case want.Error != "":
		return got.Error != ""
	case got.Error != "":
		return false
	}
	a, err := Decode(got.Value)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Decode(want.Value)
	if err != nil {
		t.Fatal(err)
	}
	return cmp.Equal(a, b)
}

func describe(r goldenResult) string {
	if r.Error != "" {
		return "the error " + r.Error
	}
	if r.Undefined {
		return "undefined"
	}
	return string(r.Value)
}
