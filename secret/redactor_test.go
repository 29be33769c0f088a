package secret_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stepwell/stepwell/secret"
)

const run = "0190-run"

// encodings are ways in which a program may write a value. They share nothing with the package's own.
var encodings = map[string]func(v string, pre int) string{
	"raw":       func(v string, _ int) string { return v },
	"json":      func(v string, _ int) string { return strings.Trim(must(json.Marshal(v)), `"`) },
	"plainjson": func(v string, _ int) string { return unescapedJSON(v) },
	"jsonjson":  func(v string, _ int) string { return strings.Trim(must(json.Marshal(unescapedJSON(v))), `"`) },
	"query":     func(v string, _ int) string { return url.QueryEscape(v) },
	"path":      func(v string, _ int) string { return url.PathEscape(v) },
	"lowerpath": func(v string, _ int) string { return lowerPercent(url.PathEscape(v)) },
	"values":    func(v string, _ int) string { return url.Values{"k": {v}}.Encode() },
	"hex":       func(v string, _ int) string { return hex.EncodeToString([]byte(v)) },
	"HEX":       func(v string, _ int) string { return strings.ToUpper(hex.EncodeToString([]byte(v))) },
	"base64":    func(v string, n int) string { return base64.StdEncoding.EncodeToString([]byte(around(v, n))) },
	"base64url": func(v string, n int) string { return base64.URLEncoding.EncodeToString([]byte(around(v, n))) },
	"rawbase64": func(v string, n int) string { return base64.RawStdEncoding.EncodeToString([]byte(around(v, n))) },
	"basicauth": func(v string, _ int) string { return base64.StdEncoding.EncodeToString([]byte("user:" + v)) },
	"percent":   func(v string, n int) string { return percentAll(v, n) },
	"mixedhex":  func(v string, n int) string { return mixedCase(hex.EncodeToString([]byte(v)), n) },
	"base64/76": func(v string, n int) string { return wrap(around(v, 7*n), 76, "\n") },
	"base64/64": func(v string, n int) string { return wrap(around(v, 9*n), 64, "\r\n") },
	"base64/60": func(v string, n int) string { return wrap(around(v, 11*n), 60, "\n  ") },
	"html":      func(v string, _ int) string { return html.EscapeString(v) },
	"go":        func(v string, _ int) string { return fmt.Sprintf("%q", v) },
	"goascii":   func(v string, _ int) string { return fmt.Sprintf("%+q", v) },
}

// percentAll encodes every byte, or but some, in digits of both cases.
func percentAll(v string, n int) string {
	var b strings.Builder
	for i, c := range []byte(v) {
		if plain := c >= 'a' && c <= 'z' && n > 0 && i%(n+1) == n; plain {
			b.WriteByte(c)
			continue
		}
		fmt.Fprintf(&b, map[bool]string{true: "%%%02x", false: "%%%02X"}[(i+n)%3 == 0], c)
	}
	return b.String()
}

func mixedCase(v string, n int) string {
	out := []byte(v)
	for i := range out {
		if (i*7+n)%3 == 0 {
			out[i] = strings.ToUpper(v[i : i+1])[0]
		}
	}
	return string(out)
}

func wrap(v string, width int, end string) string {
	text := base64.StdEncoding.EncodeToString([]byte(v))
	var lines []string
	for ; len(text) > width; text = text[width:] {
		lines = append(lines, text[:width])
	}
	return strings.Join(append(lines, text), end)
}

func around(v string, n int) string { return strings.Repeat("p", n) + v + "tail"[:n%4] }

func must(b []byte, err error) string {
	if err != nil {
		panic(err)
	}
	return string(b)
}

func unescapedJSON(v string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err)
	}
	return strings.Trim(strings.TrimSuffix(b.String(), "\n"), `"`)
}

func lowerPercent(v string) string {
	out := []byte(v)
	for i := range out {
		if out[i] == '%' {
			copy(out[i+1:i+3], strings.ToLower(v[i+1:i+3]))
		}
	}
	return string(out)
}

// value draws a secret that no ordinary text holds.
func value(t *rapid.T) string {
	v := rapid.StringOfN(rapid.RuneFrom([]rune(`abcXYZ0189-_.~ !"#$%&'()*+,/:;<=>?@[\]^{|}€ßé😀`)), 8, 60, 400).Draw(t, "value")
	return "q7" + v + "Z4"
}

// survives looks for pieces of the value in what is shown, decoding as an attacker would.
func survives(shown, v string, encoded string) bool {
	if strings.Contains(shown, encoded) || strings.Contains(shown, v) {
		return true
	}
	for i := 0; i+12 <= len(encoded); i++ {
		if strings.Contains(shown, encoded[i:i+12]) && !strings.Contains("<before>"+strings.Repeat("p", 12)+"<after>", encoded[i:i+12]) {
			return true
		}
	}
	return false
}

func TestNoEncodingSurvives(t *testing.T) {
	for name, encode := range encodings {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				r := secret.NewRedactor()
				v := value(t)
				for range rapid.IntRange(0, 5).Draw(t, "others") {
					r.Add(value(t))
				}
				if rapid.Bool().Draw(t, "one execution") {
					r.Pin(run, v)
				} else {
					r.Add(v)
				}
				encoded := encode(v, rapid.IntRange(0, 9).Draw(t, "before"))
				shown := r.Text(run, "<before>"+encoded+"<after>")
				if !strings.HasPrefix(shown, "<before>") || !strings.HasSuffix(shown, "<after>") || !strings.Contains(shown, secret.Hidden) {
					t.Fatalf("%q is shown as %q", encoded, shown)
				}
				core := encode(v, 0)
				if strings.Contains(name, "base64") || survives(shown, v, core) {
					checkBase64(t, shown, v)
				}
			})
		})
	}
}

// checkBase64 decodes everything that is left at all alignments.
func checkBase64(t *rapid.T, shown, v string) {
	for piece := range strings.FieldsFuncSeq(shown, func(r rune) bool {
		return !strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_", r)
	}) {
		piece = strings.NewReplacer("-", "+", "_", "/").Replace(piece)
		for at := range min(4, len(piece)) {
			cut := piece[at:]
			plain, err := base64.RawStdEncoding.DecodeString(cut[:len(cut)/4*4])
			if err != nil {
				continue
			}
			for i := 0; i+3 <= len(v); i++ {
				if bytes.Contains(plain, []byte(v[i:i+3])) && !strings.Contains(strings.Repeat("p", 9)+"tail", v[i:i+3]) {
					t.Fatalf("%q of the value is left in %q", v[i:i+3], shown)
				}
			}
		}
	}
	if strings.Contains(shown, v) {
		t.Fatalf("the value is left in %q", shown)
	}
}

func TestJSONStaysJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := secret.NewRedactor()
		v := value(t)
		r.Add(v)
		doc := map[string]any{"a": "x" + v + "y", v: []any{v, 1.5, nil, map[string]any{"deep": "nothing"}}, "n": 12}
		raw := must(json.Marshal(doc))
		shown := r.JSON(run, []byte(raw))
		var back map[string]any
		if err := json.Unmarshal(shown, &back); err != nil {
			t.Fatalf("%v in %s", err, shown)
		}
		if back["a"] != "x***y" || back["n"] != 12.0 || strings.Contains(string(shown), strings.Trim(raw, "{}")[:10]+v) {
			t.Fatalf("%s", shown)
		}
		if list, ok := back["***"].([]any); !ok || list[0] != "***" || list[3].(map[string]any)["deep"] != "nothing" {
			t.Fatalf("%s", shown)
		}
	})
}

func TestRedactorFindsWhatWasCut(t *testing.T) {
	r := secret.NewRedactor()
	v := "ghp_0123456789abcdefghijABCDEFGHIJ"
	r.Add(v)
	for _, text := range []string{"token " + v[:20], "token " + v[:20] + "…", "token " + v[:20] + " … [line of 20000 bytes cut]", "token " + v[:9] + "... (shortened)"} {
		if got := r.Text(run, text); strings.Contains(got, v[:8]) || !strings.HasPrefix(got, "token ***") {
			t.Errorf("%q is shown as %q", text, got)
		}
	}
	long := v[10:] + " and then " + strings.Repeat("other text ", 500)
	if got := r.Text(run, long); !strings.HasPrefix(got, "*** and then ") {
		t.Errorf("the end of a value at the beginning of a tail is shown: %.60q", got)
	}
	if got := r.Text(run, "ghp_0123456789 is not a token"); got != "ghp_0123456789 is not a token" {
		t.Errorf("a beginning in the middle of a text: %q", got)
	}
}

func TestOverlappingValuesLeaveNothing(t *testing.T) {
	r := secret.NewRedactor()
	r.Add("abcdefgh", "efghijklmn", "abcd", "abcdefghXYZ")
	for text, want := range map[string]string{"<abcdefghijklmn>": "<***>", "<abcdefghXYZ>": "<***>", "<abcd>": "<***>", "<abcdefghX>": "<***X>", "<abc>": "<abc>"} {
		if got := r.Text(run, text); got != want {
			t.Errorf("%q is shown as %q, not %q", text, got, want)
		}
	}
}

func TestLinesOfAValue(t *testing.T) {
	r := secret.NewRedactor()
	key := "-----BEGIN KEY-----\nMIIEowIBAAKCAQEAabcdef0123\nqwertyuiop0987654321\n-----END KEY-----\n"
	r.Add(key)
	if got := r.Text(run, "line: qwertyuiop0987654321\r"); got != "line: ***\r" {
		t.Errorf("a line: %q", got)
	}
	if got := r.Text(run, "-----BEGIN KEY----- of another"); got != "-----BEGIN KEY----- of another" {
		t.Errorf("the frame: %q", got)
	}
	wrapped := base64.StdEncoding.EncodeToString([]byte(key))
	for at := 0; at < len(wrapped); at += 76 {
		line := wrapped[at:min(at+76, len(wrapped))]
		if got := r.Text(run, line); len(line) > 12 && strings.Contains(got, line[4:12]) {
			t.Errorf("a line of base64: %q", got)
		}
	}
}

// TestLinesOfBase64ThatComeAlone cuts what holds a value into lines, as a log has them: no more than a few characters
// at the ends of lines may be left.
func TestLinesOfBase64ThatComeAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := secret.NewRedactor()
		v := value(t)
		r.Add(v)
		before := rapid.IntRange(0, 120).Draw(t, "before")
		width := rapid.SampledFrom([]int{60, 64, 72, 76}).Draw(t, "width")
		text := strings.Repeat("p", before) + v + strings.Repeat("p", 40)
		whole := base64.StdEncoding.EncodeToString([]byte(text))
		from, to := before*8/6, (before+len(v))*8/6
		left := 0
		for at := 0; at < len(whole); at += width {
			line := whole[at:min(at+width, len(whole))]
			shown := r.Text(run, line)
			a, b := max(from, at), min(to, at+len(line))
			if b-a > 9 && strings.Contains(shown, whole[a+1:b-1]) {
				t.Fatalf("%q of %q is shown as %q", whole[a:b], line, shown)
			}
			if b > a && strings.Contains(shown, whole[a:b]) {
				left += b - a
			}
		}
		if left > 18 {
			t.Fatalf("%d characters of base64 are left", left)
		}
	})
}

func TestReadingsLeaveOtherTextAlone(t *testing.T) {
	r := secret.NewRedactor()
	r.Add("s3cr3t-value!")
	for text, want := range map[string]string{
		"100%, 5%% and %zz":                                 "100%, 5%% and %zz",
		"%41%42 s3cr3t%2Dvalue%21 %43":                      "%41%42 *** %43",
		"aB12Cd34eF56 and 0xDEADbeef":                       "aB12Cd34eF56 and 0xDEADbeef",
		"an ordinary line\nand_another_one_of_no_spaces\nx": "an ordinary line\nand_another_one_of_no_spaces\nx",
		"%":   "%",
		"a%2": "a%2",
	} {
		if got := r.Text(run, text); got != want {
			t.Errorf("%q is shown as %q", text, got)
		}
	}
}

func TestExecutionsKnowTheirOwn(t *testing.T) {
	r := secret.NewRedactor()
	r.Pin("one", "value-of-one")
	if r.Active("two") || !r.Active("one") {
		t.Error("Active is wrong")
	}
	if got := r.Text("two", "value-of-one"); got != "value-of-one" {
		t.Errorf("another execution: %q", got)
	}
	for i := range 10_000 {
		r.Learn("one", fmt.Sprintf("derived-%d-value", i))
	}
	if got := r.Text("one", "value-of-one, derived-9999-value"); got != "***, ***" {
		t.Errorf("after many others: %q", got)
	}
	r.Forget("one")
	if got := r.Text("one", "value-of-one"); got != "***" {
		t.Errorf("right after the end: %q", got)
	}
	for i := range 300 {
		id := fmt.Sprint("later ", i)
		r.Pin(id, "something else")
		r.Forget(id)
	}
	if r.Active("one") {
		t.Error("nothing is ever forgotten")
	}
}

func TestShortPiecesAreLeft(t *testing.T) {
	r := secret.NewRedactor()
	r.Add("https://user:pw12345678@host")
	r.Learn(run, "https:", "pw12345678", "abc", "nothing to do with it")
	if got := r.Text(run, "https: pw12345678 abc nothing to do with it"); got != "https: *** abc ***" {
		t.Errorf("shown as %q", got)
	}
}

func BenchmarkRedact(b *testing.B) {
	text := strings.Repeat(`{"level":"info","message":"GET https://example.org/a/b?c=d answered 200 in 12 ms"} `, 13)[:1024]
	for _, n := range []int{0, 1, 100, 1000} {
		r := secret.NewRedactor()
		for i := range n {
			r.Add(fmt.Sprintf("sk-live/%04d+%x", i, i*7919))
		}
		b.Run(fmt.Sprintf("%d values", n), func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				r.Text(run, text)
			}
		})
	}
}
