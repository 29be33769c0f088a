package item

import "bytes"

// Member is the i-th member of an object, "" and nil when there is none; valid as long as the result of Get.
func (v *Value) Member(i int) (string, *Value) {
	if v.Kind() != Object || i < 0 || i >= v.Len() {
		return "", nil
	}
	k := &v.inner.kids[i]
	return k.key, &k.val
}

// Equal reports whether two values are the same JSON: objects with the same members in any order, numbers digit by
// digit (1.0 is not 1), texts by their content. Absent (nil) differs from null. Values that share their text, as
// clones do, are not looked into.
func (v *Value) Equal(other *Value) bool {
	if v == nil || other == nil {
		return v == other
	}
	v.settle()
	other.settle()
	return v.equal(other)
}

// equal needs own to be right in both, as settle leaves it.
func (v *Value) equal(other *Value) bool {
	switch {
	case v.kind != other.kind:
		return false
	case v.kind == Null:
		return true
	case !v.own && !other.own && bytes.Equal(v.text, other.text):
		return true
	}
	switch v.kind {
	case Text:
		return content(v.text) == content(other.text)
	case List, Object:
		return v.equalInside(other)
	}
	return bytes.Equal(v.text, other.text)
}

func (v *Value) equalInside(other *Value) bool {
	v.split()
	other.split()
	mine, theirs := v.inner.kids, other.inner.kids
	if len(mine) != len(theirs) {
		return false
	}
	for i := range mine {
		at := i
		if v.kind == Object && theirs[i].key != mine[i].key {
			if at = other.find(mine[i].key); at < 0 {
				return false
			}
		}
		if !mine[i].val.equal(&theirs[at].val) {
			return false
		}
	}
	return true
}
