package item

import (
	"strconv"

	"github.com/stepwell/stepwell/expr"
)

// Attr implements expr.Object, so that templates read only the members that they name.
func (v *Value) Attr(name string) (any, bool) {
	m := v.Get(name)
	if m == nil {
		return nil, false
	}
	return m.native(), true
}

// Keys are the names of an object's members in order.
func (v *Value) Keys() []string {
	if v.Kind() != Object {
		return nil
	}
	v.split()
	keys := make([]string, len(v.inner.kids))
	for i := range v.inner.kids {
		keys[i] = v.inner.kids[i].key
	}
	return keys
}

// native is the value for expressions: the result of expr.Decode, objects as they are.
func (v *Value) native() any {
	switch v.kind {
	case Object:
		return v
	case Text:
		return content(v.text)
	case Bool:
		return v.text[0] == 't'
	case Null:
		return nil
	case Number:
		if n, ok := v.small(); ok {
			return n
		}
		if f, err := strconv.ParseFloat(string(v.text), 64); err == nil && !v.integer() {
			return f
		}
	}
	return expr.Raw(v.Bytes())
}

// small is an integer of up to 18 digits.
func (v *Value) small() (int64, bool) {
	digits := v.text
	if digits[0] == '-' {
		digits = digits[1:]
	}
	if len(digits) > 18 {
		return 0, false
	}
	var n int64
	for _, c := range digits {
		if c -= '0'; c > 9 {
			return 0, false
		}
		n = n*10 + int64(c)
	}
	if v.text[0] == '-' {
		n = -n
	}
	return n, true
}

// integer reports whether a number has neither fraction nor exponent.
func (v *Value) integer() bool {
	for _, c := range v.text {
		if c == '.' || c == 'e' || c == 'E' {
			return false
		}
	}
	return true
}
