// Package item holds the JSON values that flow through a stream: parsed where somebody looks, and
// written back as they came where nobody did.
//
// A Value keeps its text. Looking inside splits one level; what is not looked at is never decoded, and
// what is not changed is written byte for byte, so that numbers, unknown members and the order of keys
// survive (docs/semantics §6; STAC items carry ids such as 1e21 and coordinates of 15 digits). It is not
// safe for concurrent use, reading included; Clone is cheap and makes a value of one's own. Pure.
//
// The tokens are read by go-json-experiment's jsontext, which decodes twice as fast as encoding/json and keeps digits and the
// order of keys. Turned down: sonic, which takes what is not JSON, and segmentio's, which is quadratic on nesting.
package item

import (
	"bytes"
	"iter"
	"strconv"

	"github.com/stepwell/stepwell/expr"
)

// Kind is the kind of a JSON value.
type Kind uint8

// The kinds.
const (
	Null Kind = iota
	Bool
	Number
	Text
	List
	Object
)

func (k Kind) String() string {
	return [...]string{"null", "a boolean", "a number", "a text", "a list", "an object"}[k]
}

// Value is one JSON value. The zero value is null.
type Value struct {
	text  []byte // as it came or was last set; stale once something inside has changed
	inner *inner // of a list or an object that has been split
	kind  Kind
	own   bool // the children count, not the text
	gone  bool // about to be taken away
	new   bool // it has replaced a value of the text of its parent
}

// KindOf is the kind of the JSON value that begins with a byte.
func KindOf(first byte) Kind {
	switch first {
	case '{':
		return Object
	case '[':
		return List
	case '"':
		return Text
	case 't', 'f':
		return Bool
	case 'n':
		return Null
	}
	return Number
}

// Kind is the value's kind; that of a nil Value is Null.
func (v *Value) Kind() Kind {
	if v == nil {
		return Null
	}
	return v.kind
}

// IsNull reports whether the value is null or absent (nil).
func (v *Value) IsNull() bool { return v.Kind() == Null }

// Str is the content of a text, and whether it is one.
func (v *Value) Str() (string, bool) {
	if v.Kind() != Text {
		return "", false
	}
	return content(v.text), true
}

// content is that of a valid text in quotes.
func content(quoted []byte) string {
	if inside := quoted[1 : len(quoted)-1]; bytes.IndexByte(inside, '\\') < 0 {
		return string(inside)
	}
	return string(unescaped(nil, quoted))
}

// Float is the float64 that is nearest to a number, and whether it is a number within its range.
func (v *Value) Float() (float64, bool) {
	if v.Kind() != Number {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(v.text), 64)
	return f, err == nil
}

// Any decodes the value as expr.Decode does, with its errors: numbers out of range, more than 256 levels.
func (v *Value) Any() (any, error) {
	if v == nil {
		return nil, nil
	}
	return expr.Decode(v.Bytes())
}

// Len is the number of members or elements; 0 for other kinds.
func (v *Value) Len() int {
	if v == nil {
		return 0
	}
	if v.split(); v.inner == nil {
		return 0
	}
	return len(v.inner.kids)
}

// Get is a member of an object, nil when there is none. It is part of the object: changes to it are
// changes of the object. It stays valid until members are added to or taken from the object.
func (v *Value) Get(key string) *Value {
	if i := v.find(key); i >= 0 {
		return &v.inner.kids[i].val
	}
	return nil
}

// At is an element of a list, nil when there is none; valid as long as the result of Get.
func (v *Value) At(i int) *Value {
	if v.Kind() != List || i < 0 || i >= v.Len() {
		return nil
	}
	return &v.inner.kids[i].val
}

// Members goes over an object in its order. Members must not be added or taken meanwhile.
func (v *Value) Members() iter.Seq2[string, *Value] {
	return func(yield func(string, *Value) bool) {
		if v.Kind() != Object {
			return
		}
		v.split()
		for i := range v.inner.kids {
			if !yield(v.inner.kids[i].key, &v.inner.kids[i].val) {
				return
			}
		}
	}
}

// Elements goes over a list.
func (v *Value) Elements() iter.Seq2[int, *Value] {
	return func(yield func(int, *Value) bool) {
		if v.Kind() != List {
			return
		}
		v.split()
		for i := range v.inner.kids {
			if !yield(i, &v.inner.kids[i].val) {
				return
			}
		}
	}
}

// Clone makes an independent copy of v. Its cost depends on the split part, not the text. It only reads: several
// goroutines may clone one Value while it is neither read into nor changed.
func (v *Value) Clone() *Value {
	if v == nil {
		return nil
	}
	out := *v
	out.inner = v.inner.clone()
	return &out
}

func (in *inner) clone() *inner {
	if in == nil {
		return nil
	}
	kids := make([]kid, len(in.kids), len(in.kids)+2)
	copy(kids, in.kids)
	for i := range kids {
		kids[i].val.inner = kids[i].val.inner.clone()
	}
	return &inner{kids: kids}
}
