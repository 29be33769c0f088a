package expr

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDecode(t *testing.T) {
	for source, want := range map[string]any{
		"1": int64(1), "-0": int64(0), "1.0": 1.0, "1e2": 100.0, "9223372036854775807": int64(math.MaxInt64), "9223372036854775808": float64(1 << 63),
		"9223372036854775809": json.Number("9223372036854775809"), `"a\u00e4\n\ud83d\ude00\ud83d"`: "aä\n😀\ufffd", " [ ] ": []any{}, `{"a":{},"a":[null,true,false]}`: map[string]any{"a": []any{nil, true, false}},
		"\"\xff\"": "\ufffd",
	} {
		if got, err := Decode([]byte(source)); err != nil || !cmp.Equal(got, want) {
			t.Errorf("%s: got %#v, %v; want %#v", source, got, err, want)
		}
	}
}

func TestDecodeErrors(t *testing.T) {
	for source, want := range map[string]string{
		"": "1:1: invalid JSON: it ends too early", "[1,\n2": "2:2: invalid JSON: it ends too early", "[1,]": "1:4: invalid JSON: expected a value", "{a:1}": "1:2: invalid JSON: expected a key in quotes",
		"01": "1:1: invalid JSON: a number begins with 0", "1 2": "1:3: invalid JSON: text follows the value", `{"a" 1}`: "1:6: invalid JSON: expected a colon", "nul": "1:1: invalid JSON: expected a value",
		`"\q"`: "1:3: invalid JSON: unknown escape", "\"a\nb\"": "1:3: invalid JSON: a control character in a string", "1e999": "1:1: invalid JSON: the number 1e999 is out of range", "-": "1:2: invalid JSON: it ends too early",
		`"\u12"`: "1:7: invalid JSON: it ends too early", "1.x": "1:3: invalid JSON: expected a digit", "[1 2]": "1:4: invalid JSON: expected a comma or ]",
	} {
		if got, err := Decode([]byte(source)); err == nil || err.Error() != want {
			t.Errorf("%s: got %#v, %v; want %s", source, got, err, want)
		}
	}
	if _, err := Decode([]byte(strings.Repeat("[", 1<<20))); !isCode(err, CodeBudget) {
		t.Errorf("deep nesting: %v", err)
	}
}

func TestMarshal(t *testing.T) {
	for _, test := range []struct {
		value any
		want  string
	}{
		{map[string]any{"b": 1.0, "a": []any{nil, true, int64(-3), "<&>\u2028\"\\\n\x01"}}, `{"a":[null,true,-3,"<&>` + "\u2028" + `\"\\\n\u0001"],"b":1.0}`},
		{1e21, "1e+21"}, {Raw("{ \"b\": 1,\n \"a\": \"<\" }"), `{"b":1,"a":"<"}`}, {json.RawMessage(`[1, 2]`), "[1,2]"}, {Raw(nil), "null"}, {[]string{"<"}, `["<"]`}, {7, "7"}, {json.Number("12"), "12"},
		{map[string]string{"b": "2", "a": "1"}, `{"a":"1","b":"2"}`}, {lazy{"x": Raw("[1]")}, `{"x":[1]}`}, {struct{ A int }{1}, `{"A":1}`}, {"\xff", `"` + "\ufffd" + `"`},
		{map[string]any{"r": Raw(`{"x": 1}`)}, `{"r":{"x":1}}`},
	} {
		if got, err := Marshal(test.value); err != nil || string(got) != test.want {
			t.Errorf("%v: got %s, %v; want %s", test.value, got, err, test.want)
		}
	}
	deep := any(nil)
	for range 1000 {
		deep = []any{deep}
	}
	for _, bad := range []any{math.NaN(), math.Inf(1), make(chan int), Raw("{"), deep} {
		if got, err := Marshal(bad); err == nil {
			t.Errorf("%T: got %s, want an error", bad, got)
		}
	}
}
