package item_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
)

// failer is a test, or one of rapid.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// plain decodes a text with numbers as they are written, by a parser that shares nothing with ours.
func plain(t failer, text []byte) any {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%v in %.200q", err, text)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		t.Fatalf("text behind %.200q", text)
	}
	return v
}

// depth is how deep brackets nest outside of texts.
func depth(text []byte) int {
	deepest, now, quoted := 0, 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			now++
			deepest = max(deepest, now)
		case c == '}' || c == ']':
			now--
		}
	}
	return deepest
}

var seeds = []string{`{"a":[1,2.50,-0,1e21,100.0,-1.5E+3],"b":{"c":null,"":true},"é\n":"\ud83d\ude00"}`, ` [ ] `, "\t{ }\r\n",
	`{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `"\ud800"`, `"\udc00\ud800"`, "\"\xff\"", `01`, `-`, `1.`, `1e`, `.5`, `+1`, `tru`, `nul`, `{} x`, `{,}`, `{"a"}`,
	`{"a":}`, `[1,]`, `[,1]`, `{"a":1,}`, "\"\x01\"", "\"a\tb\"", `"\x"`, `"\u12g4"`, `"`, `{`, `[`, ``, ` `, "\ufeff{}", `{"a b":[{"x":[[]]},{}]}`, "[\"\u2028\",\"\x7f\"]",
	`"\"\\\/\b\f\n\r\t\u00e9"`, `123456789012345678901234567890`, `"12345678"`, `"1234567\u0031"`, `{"a" : 1 , "b" : [ 1 , 2 ] }`, "1\x00", "{\"a\":1\x00}", "[1\f]"}

// FuzzParse compares with two other parsers. Ours is as strict as jsontext, but for the depth; encoding/json
// accepts besides: names that are twice in an object, invalid UTF-8 and unpaired surrogates.
func FuzzParse(f *testing.F) {
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	f.Add([]byte(strings.Repeat("[", 1000) + strings.Repeat("]", 1000)))
	f.Add([]byte(strings.Repeat("[", 1001) + strings.Repeat("]", 1001)))
	f.Fuzz(func(t *testing.T, text []byte) {
		original := bytes.Clone(text)
		v, err := item.Parse(text)
		want := jsontext.Value(text).IsValid() && depth(text) <= item.MaxDepth
		if (err == nil) != want {
			t.Fatalf("error %v, jsontext accepts: %v", err, want)
		}
		if err != nil {
			if stepwell.CodeOf(err) != stepwell.CodeInvalid || !strings.Contains(err.Error(), "at byte ") {
				t.Fatalf("error %v", err)
			}
			return
		}
		if !json.Valid(text) {
			t.Fatal("encoding/json does not accept it")
		}
		trimmed := bytes.Trim(original, " \t\r\n")
		look(v)
		if !bytes.Equal(v.Bytes(), trimmed) || !bytes.Equal(v.AppendTo(nil), trimmed) {
			t.Fatalf("unchanged, but %q", v.Bytes())
		}
		values := plain(t, original)
		if v.Clone().Force() != count(values) {
			t.Fatal("not all values are there")
		}
		if again, err := v.Any(); err == nil && reflect.TypeOf(again) == reflect.TypeFor[map[string]any]() != (v.Kind() == item.Object) {
			t.Fatalf("decoded as %T", again)
		}
		v.Force()
		if !reflect.DeepEqual(plain(t, v.Bytes()), values) {
			t.Fatalf("from inside it is %q", v.Bytes())
		}
		if !bytes.Equal(text, original) {
			t.Fatal("the text was changed")
		}
	})
}

// look goes everywhere without changing anything.
func look(v *item.Value) {
	for _, m := range v.Members() {
		look(m)
	}
	for _, e := range v.Elements() {
		look(e)
	}
	v.Str()
	v.Float()
}

func count(v any) int {
	n := 1
	switch v := v.(type) {
	case map[string]any:
		for _, m := range v {
			n += count(m)
		}
	case []any:
		for _, e := range v {
			n += count(e)
		}
	}
	return n
}

// FuzzPath: what ParsePath takes is written so that it is the same path again.
func FuzzPath(f *testing.F) {
	for _, seed := range []string{`a.b`, `assets."ANG.txt".href`, `a.*.b[0][*]`, `"a\"b\\".c`, `""`, `"*"`, `[0].a`, `a[`, `a[x]`, `a[-1]`, `a..b`, ``, `.`, `"a`, `"a"b`, `a"b`, `a]`, `"a\x"`, `a[99999999999]`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := item.ParsePath(text)
		if err != nil {
			if stepwell.CodeOf(err) != stepwell.CodeInvalid || stepwell.HintOf(err) == "" {
				t.Fatalf("error %v", err)
			}
			return
		}
		again, err := item.ParsePath(p.String())
		if err != nil || !reflect.DeepEqual(p, again) {
			t.Fatalf("%q is written %q, which is %v, %v", text, p.String(), again, err)
		}
		if len(p) == 0 || len(p) > item.MaxPath {
			t.Fatalf("%d steps", len(p))
		}
	})
}
