package secret

import (
	"encoding/base64"
	"encoding/hex"
	"html"
	"strconv"
	"strings"
	"unicode/utf8"
)

// pattern is one form of a value, to be found in a text.
type pattern struct {
	text string
	// before and after say that the adjacent character also holds bits of the value (base64).
	before, after bool
	// mixed says that the value is partly something else, so that its beginning alone is no part of a secret.
	mixed bool
	// coded says that it is base64.
	coded bool
}

// minLine is the length from which a line of a value counts on its own.
const minLine = 8

// forms are all forms of a value that are looked for.
type forms struct {
	seen map[string]bool
	out  []pattern
}

func (f *forms) add(texts ...string) {
	for _, text := range texts {
		f.put(pattern{text: text})
	}
}

func (f *forms) put(p pattern) {
	if len(p.text) >= MinValue && !f.seen[p.text] {
		f.seen[p.text] = true
		f.out = append(f.out, p)
	}
}

// formsOf lists the forms of a value.
func formsOf(value string) []pattern {
	f := &forms{seen: map[string]bool{}}
	trimmed := strings.TrimSpace(value)
	for _, v := range []string{value, trimmed} {
		f.add(v, strings.ToValidUTF8(v, "\ufffd"))
		f.escaped(v)
		f.add(strings.ReplaceAll(v, " ", "+")) // in queries; percent-encoding is undone before (unpercented)
		f.base64(v)
		h := hex.EncodeToString([]byte(v))
		f.add(h, strings.ToUpper(h))
	}
	f.lines(value)
	return f.out
}

// lines are the lines of a value, as logs show them one by one.
func (f *forms) lines(value string) {
	if !strings.ContainsAny(value, "\r\n") {
		return
	}
	for line := range strings.FieldsFuncSeq(value, func(r rune) bool { return r == '\n' || r == '\r' }) {
		if line = strings.TrimSpace(line); len(line) >= minLine && !strings.HasPrefix(line, "-----") { // the frame of a key is no secret
			f.add(line)
			f.escaped(line)
		}
	}
}

// escaped are the forms in JSON, in JSON within JSON, in source code and in HTML.
func (f *forms) escaped(v string) {
	if plain(v) {
		return
	}
	for _, how := range []jsonForm{{}, {html: true}, {ascii: true}, {ascii: true, upper: true}, {html: true, ascii: true}, {html: true, upper: true}, {slash: true}, {slash: true, ascii: true}} {
		once := how.quote(v)
		f.add(once, jsonForm{}.quote(once), jsonForm{html: true}.quote(once))
	}
	f.add(inner(strconv.Quote(v)), inner(strconv.QuoteToASCII(v)), html.EscapeString(v), strings.ReplaceAll(v, "'", `'\''`))
}

func inner(quoted string) string { return quoted[1 : len(quoted)-1] }

// plain reports whether a text looks the same in JSON, URLs and HTML.
func plain(v string) bool {
	for i := range len(v) {
		c := v[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c == '.') {
			return false
		}
	}
	return true
}

// jsonForm is a way of writing JSON strings.
type jsonForm struct{ html, ascii, slash, upper bool }

func (how jsonForm) quote(v string) string {
	var b strings.Builder
	for i := 0; i < len(v); {
		r, size := utf8.DecodeRuneInString(v[i:])
		switch {
		case r == '"' || r == '\\' || r == '/' && how.slash:
			b.WriteByte('\\')
			b.WriteRune(r)
		case strings.ContainsRune("\n\r\t\b\f", r):
			b.WriteString(map[rune]string{'\n': `\n`, '\r': `\r`, '\t': `\t`, '\b': `\b`, '\f': `\f`}[r])
		case r < ' ', how.ascii && r > '~', how.html && strings.ContainsRune("<>&\u2028\u2029", r):
			how.unicode(&b, r)
		default:
			b.WriteRune(r)
		}
		i += size
	}
	return b.String()
}

func (how jsonForm) unicode(b *strings.Builder, r rune) {
	units := []rune{r}
	if r > 0xffff {
		units = []rune{0xd800 + (r-0x10000)>>10, 0xdc00 + (r-0x10000)&0x3ff}
	}
	for _, u := range units {
		h := strconv.FormatInt(int64(u), 16)
		if how.upper {
			h = strings.ToUpper(h)
		}
		b.WriteString(`\u` + "0000"[len(h):] + h)
	}
}

// base64 are the three forms of a value within the base64 of a longer text, by the offset of the value modulo 3. The
// end characters also hold bits of the adjacent text, so they are not part of the form.
func (f *forms) base64(v string) {
	for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for k := range 3 {
			text := enc.EncodeToString(append(make([]byte, k, k+len(v)), v...))
			from := [3]int{0, 2, 3}[k]
			to := (k + len(v)) * 8 / 6
			p := pattern{text: text[from:to], before: k > 0, after: (k+len(v))%3 != 0, coded: true}
			f.put(p)
			if k == 0 {
				f.wrapped(p)
			}
		}
	}
}

// wrapped are the lines of a base64 that was broken into lines.
func (f *forms) wrapped(p pattern) {
	for _, width := range []int{64, 76} {
		for at := 0; len(p.text) > width && at < len(p.text); at += width {
			end := min(at+width, len(p.text))
			if end-at >= minLine {
				f.put(pattern{text: p.text[at:end], after: p.after && end == len(p.text)})
			}
		}
	}
}
