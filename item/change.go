package item

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// indexed is from how many members on an object has an index.
const indexed = 64

func (v *Value) find(key string) int {
	if v.Kind() != Object {
		return -1
	}
	v.split()
	if in := v.inner; len(in.kids) >= indexed {
		return in.lookup(key)
	}
	for i := range v.inner.kids {
		if v.inner.kids[i].key == key {
			return i
		}
	}
	return -1
}

func (in *inner) lookup(key string) int {
	if in.index == nil {
		in.index = make(map[string]int, len(in.kids))
		for i := range in.kids {
			in.index[in.kids[i].key] = i
		}
	}
	if i, ok := in.index[key]; ok {
		return i
	}
	return -1
}

// become makes v an empty list or object, unless it is one of that kind.
func (v *Value) become(kind Kind) {
	if v.kind != kind {
		*v = Value{kind: kind, inner: &inner{}, own: true}
	}
	v.split()
}

// Set sets a member of an object, in the place of the same name or behind the last. It takes val over; the caller must
// not use it any more; nil is null. A Value that is no object becomes one. Invalid UTF-8 in key becomes U+FFFD.
func (v *Value) Set(key string, val *Value) {
	if !utf8.ValidString(key) {
		key = strings.ToValidUTF8(key, "\ufffd")
	}
	if val == nil {
		val = &Value{}
	}
	v.become(Object)
	i := v.find(key)
	v.own = true
	if i >= 0 {
		v.inner.kids[i].val = *val
		return
	}
	v.inner.kids = append(v.inner.kids, kid{key, *val})
	if v.inner.index != nil {
		v.inner.index[key] = len(v.inner.kids) - 1
	}
}

// Delete takes a member away and reports whether there was one.
func (v *Value) Delete(key string) bool {
	i := v.find(key)
	if i >= 0 {
		v.cut(i, i+1)
	}
	return i >= 0
}

// cut takes kids away, from first to before last.
func (v *Value) cut(first, last int) {
	v.inner.kids = slices.Delete(v.inner.kids, first, last)
	v.inner.index = nil
	v.own = true
}

// Append adds elements to a list, which it takes over; nil is null. A Value that is no list becomes one.
func (v *Value) Append(elements ...*Value) {
	v.become(List)
	for _, e := range elements {
		if e == nil {
			e = &Value{}
		}
		v.inner.kids = append(v.inner.kids, kid{val: *e})
	}
	v.own = true
}

// Replace makes v equal to val, which it takes over; nil is null.
func (v *Value) Replace(val *Value) {
	if val == nil {
		val = &Value{}
	}
	*v = *val
	v.new = true
}

// Merge puts the members of from over those of v: objects are merged in depth, everything else is
// replaced, by a null too. from must not be part of v; it stays as it is, but is
// looked into, so that a from which goroutines share must be cloned by each.
func (v *Value) Merge(from *Value) {
	if v.kind != Object || from.Kind() != Object {
		v.Replace(from.Clone())
		return
	}
	for key, val := range from.Members() {
		if mine := v.Get(key); mine != nil && mine.kind == Object && val.kind == Object {
			mine.Merge(val)
			continue
		}
		v.Set(key, val.Clone())
	}
}

// Patch applies a merge patch (RFC 7386): like Merge, but a null takes the member away, and a patch that is
// no object takes the value's place. Keys are names, dots in them mean nothing.
func (v *Value) Patch(patch *Value) {
	if patch.Kind() != Object {
		v.Replace(patch.Clone())
		return
	}
	v.become(Object)
	gone := false
	for key, val := range patch.Members() {
		mine := v.Get(key)
		switch {
		case val.kind == Null && mine != nil:
			mine.gone, gone = true, true
		case val.kind == Null:
		case val.kind != Object:
			v.Set(key, val.Clone())
		case mine != nil:
			mine.Patch(val)
		default: // nulls inside leave nothing behind
			made := NewObject()
			made.Patch(val)
			v.Set(key, made)
		}
	}
	if gone {
		v.sweep()
	}
}

// sweep takes away, at once, the kids that are gone.
func (v *Value) sweep() {
	v.inner.kids = slices.DeleteFunc(v.inner.kids, func(k kid) bool { return k.val.gone })
	v.inner.index = nil
	v.own = true
}
