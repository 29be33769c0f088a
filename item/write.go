package item

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// settle marks every value around a change as changed, and reports whether v is.
func (v *Value) settle() bool {
	if v.inner == nil {
		return v.own
	}
	for i := range v.inner.kids {
		kid := &v.inner.kids[i].val
		if kid.settle() || kid.new { // every kid: their own flags must be right too
			v.own = true
		}
	}
	return v.own
}

// Bytes is the value's text: the original when nothing in it has changed, else one that is made once and kept until the
// next change. It must not be changed.
func (v *Value) Bytes() []byte {
	switch {
	case v == nil || v.text == nil && !v.own:
		return []byte("null")
	case !v.settle():
		return v.text
	}
	v.renew(make([]byte, 0, v.size()))
	v.new = true // a value around it does not know the text yet
	return v.text
}

// size is about how long the text is.
func (v *Value) size() int {
	if !v.own {
		return max(len(v.text), len("null"))
	}
	n := 2
	for i := range v.inner.kids {
		n += len(v.inner.kids[i].key) + len(`"":,`) + v.inner.kids[i].val.size()
	}
	return n
}

// renew is write that stores the text, also of the children.
func (v *Value) renew(dst []byte) []byte {
	start := len(dst)
	opening, closing := byte('['), byte(']')
	if v.kind == Object {
		opening, closing = '{', '}'
	}
	dst = append(dst, opening)
	for i := range v.inner.kids {
		dst = v.appendKey(dst, i)
		kid := &v.inner.kids[i]
		kid.val.new = false
		if kid.val.own {
			dst = kid.val.renew(dst)
			continue
		}
		at := len(dst)
		dst = kid.val.write(dst)
		if kid.val.inner == nil { // else its children have the old text
			kid.val.text = dst[at:len(dst):len(dst)]
		}
	}
	dst = append(dst, closing)
	v.text, v.own = dst[start:len(dst):len(dst)], false
	return dst
}

// MarshalJSON is Bytes.
func (v *Value) MarshalJSON() ([]byte, error) { return v.Bytes(), nil }

// AppendTo appends the value's text, without white space where something has changed.
func (v *Value) AppendTo(dst []byte) []byte {
	if v == nil {
		return append(dst, "null"...)
	}
	v.settle()
	return v.write(dst)
}

// AppendLine is AppendTo in one line, and ends it: as NDJSON has rows.
func (v *Value) AppendLine(dst []byte) []byte {
	start := len(dst)
	dst = v.AppendTo(dst)
	if bytes.IndexByte(dst[start:], '\n') >= 0 || bytes.IndexByte(dst[start:], '\r') >= 0 {
		text := jsontext.Value(dst[start:])
		if text.Compact() == nil { // a value's text is valid
			dst = dst[:start+len(text)]
		}
	}
	return append(dst, '\n')
}

func (v *Value) write(dst []byte) []byte {
	switch {
	case !v.own && v.text == nil:
		return append(dst, "null"...)
	case !v.own:
		return append(dst, v.text...)
	}
	opening, closing := byte('['), byte(']')
	if v.kind == Object {
		opening, closing = '{', '}'
	}
	dst = append(dst, opening)
	for i := range v.inner.kids {
		dst = v.inner.kids[i].val.write(v.appendKey(dst, i))
	}
	return append(dst, closing)
}

// appendKey appends the text before an element: the comma, and in an object its name.
func (v *Value) appendKey(dst []byte, i int) []byte {
	if i > 0 {
		dst = append(dst, ',')
	}
	if v.kind == Object {
		dst = append(quote(dst, v.inner.kids[i].key), ':')
	}
	return dst
}
