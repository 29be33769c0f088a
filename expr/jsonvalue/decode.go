package jsonvalue

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/stepwell/stepwell"
)

// Decode reads one JSON value (RFC 8259): integers as int64, other numbers as float64. An
// integer beyond 64 bits is a float64 when that is exact, else a json.Number. The last of
// duplicate keys wins. Errors are *Error.
func Decode(src string, b Budget) (v any, err error) {
	d := decoder{src: src, budget: b}
	return d.all()
}

// Check returns the error of Decode without a budget. It makes no value, and keeps nothing of src.
func Check(src string) error {
	d := decoder{src: src, dry: true}
	_, err := d.all()
	return err
}

// decoder strings share memory with src.
type decoder struct {
	src    string
	off    int
	budget Budget
	dry    bool // no value is made
}

func (d *decoder) all() (v any, err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case failed:
			v, err = nil, p.err
		default:
			panic(p)
		}
	}()
	v = d.value(0)
	if d.space(); d.off < len(d.src) {
		panic(d.fault("text follows the value"))
	}
	return v, nil
}

// failed is the panic that ends a decoder.
type failed struct{ err error }

func (d *decoder) fault(what string) failed {
	if d.off >= len(d.src) {
		what = "it ends too early"
	}
	return failed{&Error{Message: "invalid JSON: " + what, Off: d.off}}
}

func (d *decoder) pay(elements, entries int) {
	if d.budget == nil {
		return
	}
	if err := d.budget.Pay(elements, entries); err != nil {
		panic(failed{&Error{Message: err.Error(), Off: d.off, Err: err}})
	}
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

func (d *decoder) value(depth int) any {
	if depth > MaxDepth {
		panic(failed{&Error{Message: "the JSON nests deeper than " + strconv.Itoa(MaxDepth) + " levels", Off: d.off, TooDeep: true}})
	}
	d.pay(1, 0)
	d.space()
	switch c := d.peek(); {
	case c == '{':
		return d.object(depth)
	case c == '[':
		if list := d.array(depth); !d.dry {
			return list
		}
		return nil
	case c == '"':
		if s := d.string(); !d.dry {
			return s
		}
		return nil
	case c == '-' || c >= '0' && c <= '9':
		return d.number()
	}
	for _, word := range literals {
		if strings.HasPrefix(d.src[d.off:], word.text) {
			d.off += len(word.text)
			return word.value
		}
	}
	panic(d.fault("expected a value"))
}

var literals = [...]struct {
	text  string
	value any
}{{"true", true}, {"false", false}, {"null", nil}}

func (d *decoder) object(depth int) any {
	d.off++
	var m map[string]any
	if !d.dry {
		m = map[string]any{}
	}
	d.space()
	if d.peek() == '}' {
		d.off++
		return m
	}
	for {
		if d.space(); d.peek() != '"' {
			panic(d.fault("expected a key in quotes"))
		}
		key := d.string()
		if d.space(); d.peek() != ':' {
			panic(d.fault("expected a colon"))
		}
		d.off++
		if v := d.value(depth + 1); !d.dry {
			m[key] = v
		}
		d.pay(0, 1)
		switch d.space(); d.peek() {
		case ',':
			d.off++
		case '}':
			d.off++
			return m
		default:
			panic(d.fault("expected a comma or }"))
		}
	}
}

func (d *decoder) array(depth int) []any {
	d.off++
	list := []any{}
	d.space()
	if d.peek() == ']' {
		d.off++
		return list
	}
	for {
		if v := d.value(depth + 1); !d.dry {
			list = AppendDoubling(list, v)
		}
		switch d.space(); d.peek() {
		case ',':
			d.off++
		case ']':
			d.off++
			return list
		default:
			panic(d.fault("expected a comma or ]"))
		}
	}
}

func (d *decoder) digits() {
	start := d.off
	for c := d.peek(); c >= '0' && c <= '9'; c = d.peek() {
		d.off++
	}
	if d.off == start {
		panic(d.fault("expected a digit"))
	}
}

func (d *decoder) number() any {
	start := d.off
	if d.peek() == '-' {
		d.off++
	}
	first := d.off
	d.digits()
	if d.src[first] == '0' && d.off > first+1 {
		d.off = first
		panic(d.fault("a number begins with 0"))
	}
	integer := true
	if d.peek() == '.' {
		integer = false
		d.off++
		d.digits()
	}
	if c := d.peek(); c == 'e' || c == 'E' {
		integer = false
		d.off++
		if c := d.peek(); c == '+' || c == '-' {
			d.off++
		}
		d.digits()
	}
	text := d.src[start:d.off]
	if integer {
		return Integer(text)
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		d.off = start
		panic(d.fault("the number " + stepwell.Clip(text, 60) + " is out of range"))
	}
	return f
}

// Integer keeps every digit: as int64, as an exact float64, or as json.Number.
func Integer(text string) any {
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

func (d *decoder) string() string {
	d.off++
	start := d.off
	d.off += special(d.src[start:])
	switch c := d.peek(); {
	case c == '"':
		s := d.src[start:d.off]
		d.off++
		if !utf8.ValidString(s) {
			s = strings.ToValidUTF8(s, "\ufffd")
		}
		return s
	case c == '\\':
		return d.escaped(start)
	}
	panic(d.fault("a control character in a string"))
}

// escaped continues a string at its first backslash.
func (d *decoder) escaped(start int) string {
	out := []byte(d.src[start:d.off])
	for d.off < len(d.src) {
		c := d.src[d.off]
		d.off++
		switch {
		case c == '"':
			return strings.ToValidUTF8(string(out), "\ufffd")
		case c < ' ':
			d.off--
			panic(d.fault("a control character in a string"))
		case c != '\\':
			out = append(out, c)
			continue
		}
		e := d.peek()
		d.off++
		switch i := strings.IndexByte(`"\/bfnrt`, e); {
		case e == 'u':
			out = utf8.AppendRune(out, d.unicode())
		case i >= 0 && e != 0:
			out = append(out, "\"\\/\b\f\n\r\t"[i])
		default:
			d.off--
			panic(d.fault("unknown escape"))
		}
	}
	panic(d.fault(""))
}

// unicode reads the digits of one \u escape, and of the second of a surrogate pair.
func (d *decoder) unicode() rune {
	r := d.hex4()
	if !utf16.IsSurrogate(r) {
		return r
	}
	if !strings.HasPrefix(d.src[d.off:], `\u`) {
		return utf8.RuneError
	}
	mark := d.off
	d.off += 2
	pair := utf16.DecodeRune(r, d.hex4())
	if pair == utf8.RuneError {
		d.off = mark
	}
	return pair
}

func (d *decoder) hex4() rune {
	if d.off+4 > len(d.src) {
		d.off = len(d.src)
		panic(d.fault(""))
	}
	n, err := strconv.ParseUint(d.src[d.off:d.off+4], 16, 16)
	if err != nil {
		panic(d.fault("expected four hexadecimal digits"))
	}
	d.off += 4
	return rune(n)
}

// AppendDoubling is append with a growth of two, so that all copies together cost no more
// than the final list.
func AppendDoubling(list []any, v any) []any {
	if len(list) == cap(list) {
		list = slices.Grow(list, max(4, len(list)))
	}
	return append(list, v)
}
