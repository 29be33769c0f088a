package jsonvalue

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

// Every byte at every place of a text: what begins an escape is found, and nothing else.
func TestSpecial(t *testing.T) {
	for size := range 20 {
		for at := range size {
			for c := range 256 {
				text := []byte(strings.Repeat("x", size))
				text[at] = byte(c)
				if at > 0 {
					text[at-1] = 0xff // a high byte before it borrows nothing
				}
				want := size
				if c < ' ' || c == '"' || c == '\\' {
					want = at
				}
				if got := special(string(text)); got != want {
					t.Fatalf("in %q it is at %d instead of %d", text, got, want)
				}
			}
		}
	}
}

// Quoted texts read back unchanged; each byte that is no UTF-8 reads back as one U+FFFD.
func TestAppendQuoted(t *testing.T) {
	for _, text := range []string{"", "plain", "long enough for more than eight bytes at once", `a "quoted" \ back`, "tab\tnew\nline\r\x00\x01\x1f\x7f", "über – 日本語 🙂",
		"\xff", "a\xff\xfeb", "\xed\xa0\x80", "ends in a part of a rune \xe6\x97", "\ufffd", `"`, `\`, strings.Repeat("ü", 100) + "\xc3"} {
		raw := AppendQuoted([]byte("before"), text)
		var got string
		if err := json.Unmarshal(raw[len("before"):], &got); err != nil {
			t.Fatalf("%q is written as %s: %v", text, raw, err)
		}
		want := ""
		for _, r := range text {
			want += string(r)
		}
		if got != want || !utf8.Valid(raw) {
			t.Errorf("%q reads back as %q", text, got)
		}
		v, err := Decode(string(raw[len("before"):]), nil)
		if v != want || err != nil {
			t.Errorf("%q is decoded as %q, %v", text, v, err)
		}
	}
}

// Check accepts what Decode accepts, and refuses what Decode refuses, for the same reason.
func TestCheck(t *testing.T) {
	deep := strings.Repeat("[", MaxDepth+2) + strings.Repeat("]", MaxDepth+2)
	for _, text := range []string{`{}`, `[]`, `{"a": 1, "b": [true, null, "x\u00e9\n", -1.5e3]}`, ` {"a":{"a":{"b":[[1],[2]]}}} `, `"x"`, `12345678901234567890123`, `1e5`, `"\ud800"`, "\"\xff\"",
		``, `{`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{a:1}`, `[1,`, `[1,]`, `[1 2]`, `01`, `1.`, `1e`, `1e999`, `-`, `"`, `"\`, `"\x"`, `"\u12"`, "\"a\x01\"", "\"long text with\ta tab\"", `nul`, `{} x`, deep} {
		_, want := Decode(text, nil)
		if got := Check(text); !reflect.DeepEqual(got, want) {
			t.Errorf("%.40q: %v, but decoded: %v", text, got, want)
		}
		if e, ok := errors.AsType[*Error](want); want != nil && (!ok || e.Off > len(text)) {
			t.Errorf("%.40q: %v", text, want)
		}
	}
	long := `{"data":"` + strings.Repeat("x", 1000) + `","in":{"a":[true,null]}}`
	if n := testing.AllocsPerRun(100, func() { _ = Check(long) }); n > 0 {
		t.Errorf("a check allocates %v times", n)
	}
}
