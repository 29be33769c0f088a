package item_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/item"
)

func parse(t testing.TB, text string) *item.Value {
	t.Helper()
	v, err := item.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func path(t testing.TB, text string) item.Path {
	t.Helper()
	p, err := item.ParsePath(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		``:                          "at byte 0: it ends too early",
		`{"a":1`:                    "at byte 6: it ends too early",
		`{"a":1} x`:                 "at byte 8: text follows the value",
		`{"a":1,"b":{"c":1,"c":2}}`: `at byte 18: the name "c" is twice in one object`,
		`{"é":1,"\u00e9":2}`:        `at byte 8: the name "é" is twice in one object`,
		`{"a" 1}`:                   "at byte 5: expected a colon",
		`{a:1}`:                     "at byte 1: expected a name in quotes",
		`[1 2]`:                     "at byte 3: expected a comma or ]",
		`{"a":1;}`:                  "at byte 6: expected a comma or }",
		`[NaN]`:                     "at byte 1: expected a value",
		`[-x]`:                      "at byte 2: expected a digit",
		`"\ud800x"`:                 "at byte 1: an unpaired surrogate",
		"\"a\xff\"":                 "at byte 2: invalid UTF-8",
		"\"a\nb\"":                  "at byte 2: a control character in a text",
		strings.Repeat("[", 1001):   "at byte 1000: it nests deeper than 1000 levels",
	} {
		_, err := item.Parse([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) || stepwell.CodeOf(err) != stepwell.CodeInvalid {
			t.Errorf("%.30q: %v, want %s", text, err, want)
		}
	}
}

// TestDuplicateNames has objects on both sides of where names are compared by another way.
func TestDuplicateNames(t *testing.T) {
	for _, n := range []int{2, 20, 32, 33, 34, 100, 5000} {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"n%d":%d,`, i, i)
		}
		v := parse(t, "{"+b.String()+`"last":[{"n1":1}]}`)
		if v.Len() != n+1 || string(v.Get(fmt.Sprintf("n%d", n-1)).Bytes()) != fmt.Sprint(n-1) || v.Get("no") != nil {
			t.Errorf("%d names: not all are found", n)
		}
		for _, again := range []int{0, n / 2, n - 1} {
			if _, err := item.Parse(fmt.Appendf(nil, `{%s"n%d":0}`, b.String(), again)); err == nil {
				t.Errorf("%d names: n%d twice is accepted", n, again)
			}
		}
	}
}

// TestDeep goes as deep as Parse lets, in every recursion.
func TestDeep(t *testing.T) {
	deep := strings.Repeat(`{"a":[`, 500) + strings.Repeat(`]}`, 500)
	v := parse(t, deep)
	v.Clone().Force()
	w := parse(t, deep)
	w.Force()
	w.Patch(v)
	w.Merge(v)
	if string(w.AppendTo(nil)) != deep || string(v.Bytes()) != deep {
		t.Error("it is another")
	}
	if _, err := v.Any(); err == nil {
		t.Error("expr.Decode takes 256 levels")
	}
	for _, text := range []string{strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000), strings.Repeat(`{"a":`, 1_000_000)} {
		if _, err := item.Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), "deeper than 1000") {
			t.Errorf("error %v", err)
		}
	}
	cycle := map[string]any{}
	cycle["again"] = []any{cycle}
	if _, err := item.Of(cycle); err == nil {
		t.Error("a value inside itself has become JSON")
	}
}

// TestLarge: nothing is quadratic in the number of members.
func TestLarge(t *testing.T) {
	const n = 100_000
	begin := time.Now()
	v, patch := item.NewObject(), item.NewObject()
	for i := range n {
		v.Set(fmt.Sprint("member ", i), item.OfText("x"))
		patch.Set(fmt.Sprint("member ", i+n/2), &item.Value{})
	}
	v.Merge(v.Clone())
	v.Patch(patch)
	if v.Len() != n/2 || v.Get("member 49999") == nil || v.Get("member 50000") != nil {
		t.Errorf("%d members", v.Len())
	}
	if again := parse(t, string(v.Bytes())); again.Len() != n/2 {
		t.Errorf("%d members written", again.Len())
	}
	if d := time.Since(begin); d > 20*time.Second {
		t.Errorf("took %v", d)
	}
}

// TestBytesOnce: the text of a changed value is made once, until the next change, and nobody can write behind it.
func TestBytesOnce(t *testing.T) {
	v := parse(t, `{"a":{"b":1},"c":[1,2]}`)
	v.Get("a").Set("b", item.OfText("é"))
	first, second := v.Bytes(), v.Bytes()
	if string(first) != `{"a":{"b":"é"},"c":[1,2]}` || &first[0] != &second[0] || cap(first) != len(first) {
		t.Errorf("%s, %s, cap %d of %d", first, second, cap(first), len(first))
	}
	inside := v.Get("a")
	inside.Set("d", nil)
	inside.Bytes()
	if got := string(v.Bytes()); got != `{"a":{"b":"é","d":null},"c":[1,2]}` {
		t.Error(got)
	}
	if string(first) != `{"a":{"b":"é"},"c":[1,2]}` {
		t.Errorf("the text that was given out has become %s", first)
	}
}

// TestStale changes what is deep inside, by every way to get there, and looks from outside.
func TestStale(t *testing.T) {
	const text = `{"a": {"b": [1, {"c": "x"}]}, "d": 1e21}`
	for name, change := range map[string]func(v *item.Value){
		"get":  func(v *item.Value) { v.Get("a").Get("b").At(1).Get("c").Replace(item.OfText("y")) },
		"find": func(v *item.Value) { v.Find(path(t, "a.b[1].c")).Replace(item.OfText("y")) },
		"walk": func(v *item.Value) {
			v.Walk(path(t, "a.*[*].c"), func(_ []string, at *item.Value) bool { at.Replace(item.OfText("y")); return true })
		},
		"set": func(v *item.Value) { v.Get("a").Get("b").At(1).Set("c", item.OfText("y")) },
		"members": func(v *item.Value) {
			for _, m := range v.Get("a").Get("b").At(1).Members() {
				m.Replace(item.OfText("y"))
			}
		},
		"elements": func(v *item.Value) {
			for i, e := range v.Get("a").Get("b").Elements() {
				if i == 1 {
					e.Set("c", item.OfText("y"))
				}
			}
		},
		"replaced": func(v *item.Value) { v.Get("a").Replace(parse(t, `{"b":[1,{"c":"y"}]}`)) },
		"in new": func(v *item.Value) {
			w := parse(t, `{"b":[1,{"c":"z"}]}`)
			v.Set("a", w)
			v.Bytes()
			v.Get("a").Get("b").At(1).Set("c", item.OfText("y"))
		},
		"clone": func(v *item.Value) {
			w := v.Clone()
			w.Find(path(t, "a.b[1].c")).Replace(item.OfText("y"))
			v.Replace(w)
		},
	} {
		v := parse(t, text)
		if string(v.Bytes()) != text {
			t.Fatalf("unchanged: %s", v.Bytes())
		}
		change(v)
		want := map[string]any{"a": map[string]any{"b": []any{json.Number("1"), map[string]any{"c": "y"}}}, "d": json.Number("1e21")}
		for range 2 { // writing does not change what is written
			if got := plain(t, v.Bytes()); !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %s", name, v.Bytes())
			}
		}
		if e := v.Get("a").Get("b").Bytes(); !reflect.DeepEqual(plain(t, e), want["a"].(map[string]any)["b"]) {
			t.Errorf("%s: inside %s", name, e)
		}
	}
}

// TestUntouchedText: beside a change, white space, escapes and numbers stay as they came.
func TestUntouchedText(t *testing.T) {
	v := parse(t, `{ "a" : [ 1.0, 1e21 ] , "b" : { "x" : "\u00e9" , "y" : 100.0 } , "\u0063" : "\/" }`)
	v.Get("b").Set("x", item.OfText("new"))
	if got, want := string(v.Bytes()), `{"a":[ 1.0, 1e21 ],"b":{"x":"new","y":100.0},"c":"\/"}`; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func TestNumbersAndTexts(t *testing.T) {
	v := parse(t, `[1e21,100.0,-0,12345678901234567890,1e999,"1","a\ud83d\ude00"]`)
	for i, want := range []float64{1e21, 100, 0, 12345678901234567890} {
		if f, ok := v.At(i).Float(); !ok || f != want {
			t.Errorf("%d: %v %v", i, f, ok)
		}
	}
	if _, ok := v.At(4).Float(); ok {
		t.Error("1e999 is a float")
	}
	if _, ok := v.At(5).Float(); ok {
		t.Error("a text is a number")
	}
	if s, ok := v.At(6).Str(); !ok || s != "a😀" {
		t.Errorf("text %q", s)
	}
	if _, ok := v.At(0).Str(); ok {
		t.Error("a number is a text")
	}
	var none *item.Value
	if !none.IsNull() || none.Get("a") != nil || none.At(0) != nil || none.Find(path(t, "a.b")) != nil || none.Len() != 0 || string(none.Bytes()) != "null" {
		t.Error("nil is not null")
	}
	if s := item.OfText("a\xff\"\n"); string(s.Bytes()) != `"a`+"\ufffd"+`\"\n"` {
		t.Errorf("%s", s.Bytes())
	}
	o := item.NewObject()
	o.Set("a\xff", nil)
	o.Set("a\ufffd", item.OfText("same"))
	if string(o.Bytes()) != `{"a`+"\ufffd"+`":"same"}` {
		t.Errorf("%s", o.Bytes())
	}
}

func TestOf(t *testing.T) {
	inside := parse(t, `{"z":1e21,"a":100.0}`)
	v, err := item.Of(map[string]any{"v": inside, "n": []any{int64(1), 2.0, nil, true, "x", json.Number("3.10")}, "r": expr.Raw(` {"b":1.0 , "a":2}`),
		"s": []string{"q"}, "m": json.RawMessage(nil), "nil": (*item.Value)(nil)})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(v.Bytes()), `{"m":null,"n":[1,2.0,null,true,"x",3.10],"nil":null,"r":{"b":1.0 , "a":2},"s":["q"],"v":{"z":1e21,"a":100.0}}`; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	v.Get("v").Set("z", item.OfText(""))
	if string(inside.Bytes()) != `{"z":1e21,"a":100.0}` {
		t.Error("what was inside has changed")
	}
	for _, bad := range []any{make(chan int), expr.Raw("{"), expr.Raw(`{"a":1,"a":2}`), map[string]any{"x": []any{func() {}}}} {
		if _, err := item.Of(bad); err == nil {
			t.Errorf("%T has become JSON", bad)
		}
	}
}

// TestMergePatch has the examples of RFC 7386, appendix A.
func TestMergePatch(t *testing.T) {
	for _, c := range [][3]string{
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`}, {`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`}, {`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`}, {`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`}, {`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`}, {`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`}, {`["a","b"]`, `["c","d"]`, `["c","d"]`},
		{`{"a":"b"}`, `["c"]`, `["c"]`}, {`{"a":"foo"}`, `null`, `null`}, {`{"a":"foo"}`, `"bar"`, `"bar"`}, {`{"e":null}`, `{"a":1}`, `{"e":null,"a":1}`},
		{`[1,2]`, `{"a":"b","c":null}`, `{"a":"b"}`}, {`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
		{`{"a":{"b":1}}`, `{"a.b":2}`, `{"a":{"b":1},"a.b":2}`}, // dots mean nothing
	} {
		v := parse(t, c[0])
		v.Patch(parse(t, c[1]))
		if string(v.Bytes()) != c[2] {
			t.Errorf("%s with %s is %s, want %s", c[0], c[1], v.Bytes(), c[2])
		}
	}
}

func TestPaths(t *testing.T) {
	const text = `{"assets":{"ANG.txt":{"href":"1"},"a\"q":{"href":"2"},"*":{"href":"3"},"":{"href":"4"}},"providers":[{"name":"x"},{"name":"y"}]}`
	for p, want := range map[string]string{
		`assets."ANG.txt".href`: `"1"`, `assets."a\"q".href`: `"2"`, `assets.a"q.href`: `"2"`, `assets."*".href`: `"3"`, `assets."".href`: `"4"`, `assets.*.href`: `"1""2""3""4"`,
		`providers[1].name`: `"y"`, `providers[*].name`: `"x""y"`, `providers.*.name`: `"x""y"`, `providers[2].name`: ``, `providers.name`: ``, `assets[0]`: ``, `*[0].name`: `"x"`, `nothing.at.all`: ``,
	} {
		got, n := "", 0
		v := parse(t, text)
		v.Walk(path(t, p), func(_ []string, at *item.Value) bool { got += string(at.Bytes()); n++; return true })
		if got != want {
			t.Errorf("%s: %s, want %s", p, got, want)
		}
		if dropped := v.Drop(path(t, p)); dropped != n || v.Find(path(t, p)) != nil && !strings.Contains(p, "[") {
			t.Errorf("%s: %d dropped of %d, left %s", p, dropped, n, v.Bytes())
		}
	}
	for _, bad := range []string{"", "a.", ".a", "a..b", "a[", "a[x]", "a[-1]", "a[+1]", `"a`, `"a"b`, `"a\n"`, "a[0]b", strings.Repeat("a.", 64) + "a"} {
		if _, err := item.ParsePath(bad); stepwell.CodeOf(err) != stepwell.CodeInvalid {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestPutLeavesNothing: what make leaves out, or refuses, leaves no empty objects.
func TestPutLeavesNothing(t *testing.T) {
	const text = `{"a":null,"b":{"c":[]}}`
	for _, p := range []string{"a.b.c", "x.y.z", "a.*.b", "x.*", "b.c[*].d", "b.x.y[0]", "b.c[0]"} {
		v := parse(t, text)
		err := v.Put(path(t, p), true, func([]string, *item.Value) (*item.Value, error) { return nil, nil })
		if string(v.Bytes()) != text {
			t.Errorf("%s: %s", p, v.Bytes())
		}
		if (err != nil) != strings.Contains(p, "[0]") {
			t.Errorf("%s: %v", p, err)
		}
	}
	v := parse(t, `{"a":{"b":"text"}}`)
	err := v.Put(path(t, "a.b.c"), true, func([]string, *item.Value) (*item.Value, error) { return item.OfText(""), nil })
	if err == nil || !strings.Contains(err.Error(), "a.b is a text, not an object") {
		t.Errorf("error %v", err)
	}
}

// TestExpressions: an expression sees what expr.Decode would give it, also of numbers.
func TestExpressions(t *testing.T) {
	v := parse(t, `{"i":-7,"zero":-0,"f":100.0,"e":1e2,"big":123456789012345678901234567890,"nineteen":9223372036854775807,"l":[1,2.5,{"a":1}],"o":{"x":{"y":"é"}},"t":true,"n":null}`)
	for source, want := range map[string]any{
		"item.i + 1": int64(-6), "item.zero": int64(0), "item.f": 100.0, "item.e": 100.0, "item.big": json.Number("123456789012345678901234567890"),
		"item.nineteen": int64(9223372036854775807), "item.l[1]": 2.5, "item.l[2].a": int64(1), "item.o.x.y": "é", "item.t": true, "item.n": nil,
		"item.o": map[string]any{"x": map[string]any{"y": "é"}}, "item.l|length": int64(3), "item.none|default('d')": "d", "'i' in item": true,
	} {
		tm, err := expr.ParseExpression(source)
		if err != nil {
			t.Fatal(err)
		}
		got, err := tm.Eval(expr.Vars{"item": v}, expr.Limits{})
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %#v, %v", source, got, err)
		}
	}
	decoded, err := v.Any()
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range decoded.(map[string]any) {
		tm, _ := expr.ParseExpression("item." + key)
		if got, err := tm.Eval(expr.Vars{"item": v}, expr.Limits{}); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %#v, decoded %#v, %v", key, got, want, err)
		}
	}
}
