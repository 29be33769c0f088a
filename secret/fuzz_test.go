package secret_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stepwell/stepwell/secret"
)

// The secrets of these tests: with what JSON escapes, a number, and lines.
var fuzzed = []string{`p"q\w<é>/4`, "4711004711", "line one of it\nline two of it", "\u2983sealed:x", "abcdefgh"}

func sealerOf(f *testing.F) (*secret.Sealer, *secret.Redactor) {
	f.Helper()
	k, err := secret.NewKeyring(key(1))
	if err != nil {
		f.Fatal(err)
	}
	r := secret.NewRedactor()
	r.Add(fuzzed...)
	return secret.NewSealer(k, r), r
}

func decoded(raw []byte) (v any, ok bool) {
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	if !json.Valid(raw) || d.Decode(&v) != nil {
		return nil, false
	}
	return v, true
}

// FuzzSealJSON: what is sealed is JSON still, holds no secret in any string, and is opened to what it was.
func FuzzSealJSON(f *testing.F) {
	s, r := sealerOf(f)
	for _, v := range fuzzed {
		f.Add(must(json.Marshal(map[string]any{v: []any{v, "x" + v + "y", 1.5, nil}})))
	}
	for _, raw := range []string{`[4711004711,-4711004711e3,"4711004711"]`, `{"a":"p\"q\\w\u003cé\u003e\/4"}`, `"\u2983sealed:AAAA\u2984"`, "\"\u2983sealed:AAAA\u2984\"", `"\ud800abcdefgh"`, "\"\xff\xfeabcdefgh\"",
		`"abc`, `{"abcdefgh`, `\"abcdefgh"`, `"%61%62%63%64%65%66%67%68"`} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		sealed := s.SealJSON(run, []byte(raw))
		before, valid := decoded([]byte(raw))
		if !valid {
			return
		}
		during, ok := decoded(sealed)
		if !ok {
			t.Fatalf("%s is sealed as %s", raw, sealed)
		}
		each(during, func(text string) {
			if rest := secret.MaskText(text); r.Knows("", rest) && !strings.Contains(rest, secret.Hidden) {
				t.Fatalf("%q is left in %s", rest, sealed)
			}
		})
		opened, err := s.OpenJSON(run, sealed)
		after, ok := decoded(opened)
		if err != nil || !ok || !reflect.DeepEqual(before, after) {
			t.Fatalf("%s, sealed as %s, is opened as %s, %v", raw, sealed, opened, err)
		}
		shown := r.JSON(run, []byte(raw))
		if _, ok := decoded(shown); !ok {
			t.Fatalf("%s is shown as %s", raw, shown)
		}
	})
}

func each(v any, do func(string)) {
	switch v := v.(type) {
	case string:
		do(v)
	case json.Number:
		do(v.String())
	case []any:
		for _, one := range v {
			each(one, do)
		}
	case map[string]any:
		for name, one := range v {
			do(name)
			each(one, do)
		}
	}
}

// FuzzOpenJSON: nothing that looks sealed brings anything down, and what is not sealed stays.
func FuzzOpenJSON(f *testing.F) {
	s, _ := sealerOf(f)
	value, err := s.SealValue([]byte(`{"a":1}`))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(value))
	f.Add(string(s.SealJSON(run, []byte(`"abcdefgh and more"`))))
	f.Add("\"\u2983sealed:\u2984\"")
	f.Fuzz(func(t *testing.T, raw string) {
		opened, err := s.OpenJSON(run, []byte(raw))
		if err == nil && !secret.Sealed([]byte(raw)) && string(opened) != raw {
			t.Fatalf("%q is opened as %q", raw, opened)
		}
		if _, err := s.OpenValue(run, raw); err != nil && !secret.Sealed([]byte(raw)) {
			t.Fatal(err)
		}
		secret.Mask([]byte(raw))
	})
}

// FuzzText: hiding hides the value as it is, keeps characters whole, and does it once.
func FuzzText(f *testing.F) {
	_, r := sealerOf(f)
	for _, v := range append(fuzzed, "%61%62%63%64%65%66%67%68", "6162636465666768", "YWJjZGVmZ2g=", "x%", "4A4b4C4d4E4f5A5b") {
		f.Add("before " + v + " after")
	}
	f.Fuzz(func(t *testing.T, text string) {
		shown := r.Text(run, text)
		for _, v := range fuzzed {
			if strings.Contains(shown, v) && !strings.Contains(shown, secret.Hidden) {
				t.Fatalf("%q is shown as %q", text, shown)
			}
		}
		if utf8.ValidString(text) && !utf8.ValidString(shown) {
			t.Fatalf("%q is shown as %q", text, shown)
		}
	})
}

// FuzzParseKeys: what is taken for keys can be used, and what is refused is not shown.
func FuzzParseKeys(f *testing.F) {
	for _, text := range []string{"", "# nothing", strings.Repeat("ab", 32), strings.Repeat("A", 43) + "=", strings.Repeat("ab", 32) + "," + strings.Repeat("cd", 32), "short-and-secret", strings.Repeat("_-", 21) + "A"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		k, err := secret.ParseKeys(text)
		if err != nil {
			for line := range strings.FieldsSeq(text) {
				if len(line) > 12 && strings.Contains(err.Error(), line) {
					t.Fatalf("the error shows what was given: %v", err)
				}
			}
			return
		}
		sealed, err := k.Seal([]byte("value"), "x")
		if err != nil || !k.Current(sealed) {
			t.Fatal(err)
		}
		if got, err := k.Open(sealed, "x"); err != nil || string(got) != "value" {
			t.Fatalf("%q, %v", got, err)
		}
	})
}
