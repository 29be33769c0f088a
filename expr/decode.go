package expr

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Decode reads one JSON value (RFC 8259): integers as int64, other numbers as float64. An
// integer beyond 64 bits is a float64 when that is exact, else a json.Number. The last of
// duplicate keys wins. Deeper than 256 levels is CodeBudget; anything else that is wrong is
// CodeValue with the line and column in raw.
func Decode(raw []byte) (any, error) {
	return decode(string(raw), nil)
}

func decode(src string, st *state) (any, error) {
	d := decoder{src: src, st: st}
	v, err := d.value(0)
	if err == nil {
		if d.space(); d.off < len(d.src) {
			err = d.fail("text follows the value")
		}
	}
	if err != nil {
		return nil, located(err, src, d.off)
	}
	return v, nil
}

// decoder strings share memory with src, which is a private copy of the input.
type decoder struct {
	src string
	off int
	st  *state // nil without a budget
}

func (d *decoder) fail(what string) error {
	if d.off >= len(d.src) {
		what = "it ends too early"
	}
	return failf(CodeValue, "invalid JSON: %s", what)
}

func (d *decoder) space() {
	for d.off < len(d.src) {
		switch d.src[d.off] {
		case ' ', '\t', '\r', '\n':
			d.off++
		default:
			return
		}
	}
}

func (d *decoder) peek() byte {
	if d.off < len(d.src) {
		return d.src[d.off]
	}
	return 0
}

func (d *decoder) value(depth int) (any, error) {
	if depth > maxDepth {
		return nil, failf(CodeBudget, "the JSON nests deeper than %d levels", maxDepth)
	}
	if d.st != nil {
		if err := d.st.growList(1); err != nil {
			return nil, err
		}
	}
	d.space()
	switch c := d.peek(); {
	case c == '{':
		return d.object(depth)
	case c == '[':
		return d.array(depth)
	case c == '"':
		return d.string()
	case c == '-' || c >= '0' && c <= '9':
		return d.number()
	}
	for _, word := range literals {
		if strings.HasPrefix(d.src[d.off:], word.text) {
			d.off += len(word.text)
			return word.value, nil
		}
	}
	return nil, d.fail("expected a value")
}

var literals = [...]struct {
	text  string
	value any
}{{"true", true}, {"false", false}, {"null", nil}}

func (d *decoder) object(depth int) (any, error) {
	d.off++
	m := map[string]any{}
	d.space()
	if d.peek() == '}' {
		d.off++
		return m, nil
	}
	for {
		if d.space(); d.peek() != '"' {
			return nil, d.fail("expected a key in quotes")
		}
		key, err := d.string()
		if err != nil {
			return nil, err
		}
		if d.space(); d.peek() != ':' {
			return nil, d.fail("expected a colon")
		}
		d.off++
		if m[key], err = d.value(depth + 1); err != nil {
			return nil, err
		}
		if d.st != nil {
			if err := d.st.grow(entrySize); err != nil {
				return nil, err
			}
		}
		switch d.space(); d.peek() {
		case ',':
			d.off++
		case '}':
			d.off++
			return m, nil
		default:
			return nil, d.fail("expected a comma or }")
		}
	}
}

func (d *decoder) array(depth int) (any, error) {
	d.off++
	list := []any{}
	d.space()
	if d.peek() == ']' {
		d.off++
		return list, nil
	}
	for {
		v, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		list = appendDoubling(list, v)
		switch d.space(); d.peek() {
		case ',':
			d.off++
		case ']':
			d.off++
			return list, nil
		default:
			return nil, d.fail("expected a comma or ]")
		}
	}
}

func (d *decoder) digits() bool {
	start := d.off
	for c := d.peek(); c >= '0' && c <= '9'; c = d.peek() {
		d.off++
	}
	return d.off > start
}

func (d *decoder) number() (any, error) {
	start := d.off
	if d.peek() == '-' {
		d.off++
	}
	first := d.off
	if !d.digits() {
		return nil, d.fail("expected a digit")
	}
	if d.src[first] == '0' && d.off > first+1 {
		d.off = first
		return nil, d.fail("a number begins with 0")
	}
	integer := true
	if d.peek() == '.' {
		integer = false
		d.off++
		if !d.digits() {
			return nil, d.fail("expected a digit")
		}
	}
	if c := d.peek(); c == 'e' || c == 'E' {
		integer = false
		d.off++
		if c := d.peek(); c == '+' || c == '-' {
			d.off++
		}
		if !d.digits() {
			return nil, d.fail("expected a digit")
		}
	}
	text := d.src[start:d.off]
	if integer {
		return integerValue(text), nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		d.off = start
		return nil, d.fail("the number " + clip(text) + " is out of range")
	}
	return f, nil
}

// integerValue keeps every digit: as int64, as an exact float64, or as json.Number.
func integerValue(text string) any {
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return i
	}
	if len(text) <= 310 {
		f, err := strconv.ParseFloat(text, 64)
		if err == nil && strconv.FormatFloat(f, 'f', 0, 64) == text {
			return f
		}
	}
	return json.Number(text)
}

// numberValue is a json.Number of a Scope as int64 or float64. One that is a whole number
// beyond both stays as it is: it is passed on digit by digit, and calculated with as a float64.
func numberValue(n json.Number) (any, error) {
	text := string(n)
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return nil, failf(CodeValue, "the number %s is out of range", clip(text))
	}
	if strings.Trim(text, "-0123456789") != "" {
		return f, nil
	}
	return integerValue(text), nil
}

func (d *decoder) string() (string, error) {
	d.off++
	start := d.off
	for d.off < len(d.src) {
		switch c := d.src[d.off]; {
		case c == '"':
			s := d.src[start:d.off]
			d.off++
			if !utf8.ValidString(s) {
				s = strings.ToValidUTF8(s, "\ufffd")
			}
			return s, nil
		case c == '\\':
			return d.escaped(start)
		case c < ' ':
			return "", d.fail("a control character in a string")
		}
		d.off++
	}
	return "", d.fail("")
}

// escaped continues a string at its first backslash.
func (d *decoder) escaped(start int) (string, error) {
	out := []byte(d.src[start:d.off])
	for d.off < len(d.src) {
		c := d.src[d.off]
		d.off++
		switch {
		case c == '"':
			return strings.ToValidUTF8(string(out), "\ufffd"), nil
		case c < ' ':
			d.off--
			return "", d.fail("a control character in a string")
		case c != '\\':
			out = append(out, c)
			continue
		}
		e := d.peek()
		d.off++
		switch i := strings.IndexByte(`"\/bfnrt`, e); {
		case e == 'u':
			r, err := d.unicode()
			if err != nil {
				return "", err
			}
			out = utf8.AppendRune(out, r)
		case i >= 0 && e != 0:
			out = append(out, "\"\\/\b\f\n\r\t"[i])
		default:
			d.off--
			return "", d.fail("unknown escape")
		}
	}
	return "", d.fail("")
}

// unicode reads the digits of one \u escape, and of the second of a surrogate pair.
func (d *decoder) unicode() (rune, error) {
	r, err := d.hex4()
	if err != nil || !utf16.IsSurrogate(r) {
		return r, err
	}
	if !strings.HasPrefix(d.src[d.off:], `\u`) {
		return utf8.RuneError, nil
	}
	mark := d.off
	d.off += 2
	second, err := d.hex4()
	if err != nil {
		return 0, err
	}
	pair := utf16.DecodeRune(r, second)
	if pair == utf8.RuneError {
		d.off = mark
	}
	return pair, nil
}

func (d *decoder) hex4() (rune, error) {
	if d.off+4 > len(d.src) {
		d.off = len(d.src)
		return 0, d.fail("")
	}
	n, err := strconv.ParseUint(d.src[d.off:d.off+4], 16, 16)
	if err != nil {
		return 0, d.fail("expected four hexadecimal digits")
	}
	d.off += 4
	return rune(n), nil
}

// appendDoubling is append with a growth of two, so that all copies together cost no more
// than the final list.
func appendDoubling(list []any, v any) []any {
	if len(list) == cap(list) {
		list = slices.Grow(list, max(4, len(list)))
	}
	return append(list, v)
}
