package item

import "strconv"

// Find is the first place of a path that exists, nil when none does. It is part of v, as with Get.
func (v *Value) Find(p Path) *Value {
	for i, step := range p {
		switch {
		case step.Any:
			return v.findAny(p[i:])
		case step.IsIndex:
			v = v.At(step.Index)
		default:
			v = v.Get(step.Key)
		}
		if v == nil {
			return nil
		}
	}
	return v
}

func (v *Value) findAny(p Path) (found *Value) {
	v.Walk(p, func(_ []string, at *Value) bool {
		found = at
		return false
	})
	return found
}

// Walk calls f for every existing place of a path, with the keys matched by each *, which are valid during the call
// only, until f returns false. f may change only the place itself.
func (v *Value) Walk(p Path, f func(any []string, at *Value) bool) {
	v.walk(p, nil, f)
}

func (v *Value) walk(p Path, stars []string, f func([]string, *Value) bool) bool {
	switch {
	case v == nil:
		return true
	case len(p) == 0:
		return f(stars, v)
	case p[0].IsIndex:
		return v.At(p[0].Index).walk(p[1:], stars, f)
	case !p[0].Any:
		return v.Get(p[0].Key).walk(p[1:], stars, f)
	}
	for i := range v.Len() {
		if !v.inner.kids[i].val.walk(p[1:], append(stars, v.star(i)), f) {
			return false
		}
	}
	return true
}

// star is the match of a * at a kid.
func (v *Value) star(i int) string {
	if v.kind == List {
		return strconv.Itoa(i)
	}
	return v.inner.kids[i].key
}

// Put sets every place of a path to the result of make (nil: leave it): its arguments are the matches of each * and the
// existing value (nil: none), both valid during the call only. With create, missing objects on the way are made, also
// in place of a null; without, only existing places are set. A * matches existing values. Errors are those of make and
// CodeInvalid: a name under a value that is neither object nor null, and with create an index beyond the list. Places
// before the error have been set.
func (v *Value) Put(p Path, create bool, make func(stars []string, old *Value) (*Value, error)) error {
	_, err := v.put(p, 0, nil, create, make)
	return err
}

// put reports whether something below v was set.
func (v *Value) put(p Path, at int, stars []string, create bool, make func([]string, *Value) (*Value, error)) (bool, error) {
	if at == len(p) {
		val, err := make(stars, v)
		if err == nil && val != nil {
			v.Replace(val)
		}
		return val != nil, err
	}
	step := p[at]
	var next *Value
	switch {
	case step.Any:
		return v.putAll(p, at, stars, create, make)
	case step.IsIndex:
		if next = v.At(step.Index); next == nil {
			if create {
				return false, badPath(p.String(), p[:at+1].String()+" is not there")
			}
			return false, nil
		}
	case v.kind != Object && v.kind != Null:
		return false, badPath(p.String(), p.before(at)+" is "+v.kind.String()+", not an object")
	default:
		if next = v.Get(step.Key); next == nil {
			return v.putNew(p, at, stars, create, make)
		}
	}
	set, err := next.put(p, at+1, stars, create, make)
	v.own = v.own || set
	return set, err
}

// before names the parent of the step at `at`.
func (p Path) before(at int) string {
	if at == 0 {
		return "the value"
	}
	return p[:at].String()
}

// putNew makes the rest of a path where nothing is, when make has something to put there.
func (v *Value) putNew(p Path, at int, stars []string, create bool, make func([]string, *Value) (*Value, error)) (bool, error) {
	if !create {
		return false, nil
	}
	for i, step := range p[at:] {
		switch {
		case step.Any: // stands for nothing here
			return false, nil
		case step.IsIndex:
			return false, badPath(p.String(), p[:at+i+1].String()+" is not there")
		}
	}
	val, err := make(stars, nil)
	if err != nil || val == nil {
		return false, err
	}
	for i := len(p) - 1; i > at; i-- {
		outer := NewObject()
		outer.Set(p[i].Key, val)
		val = outer
	}
	v.Set(p[at].Key, val) // makes a null an object
	return true, nil
}

func (v *Value) putAll(p Path, at int, stars []string, create bool, make func([]string, *Value) (*Value, error)) (bool, error) {
	any := false
	for i := range v.Len() {
		set, err := v.inner.kids[i].val.put(p, at+1, append(stars, v.star(i)), create, make)
		any = any || set
		v.own = v.own || set
		if err != nil {
			return any, err
		}
	}
	return any, nil
}

// Drop removes every place of a path and returns their number.
func (v *Value) Drop(p Path) int {
	if len(p) == 0 || v.Len() == 0 {
		return 0
	}
	first, last := 0, v.Len()
	switch step := p[0]; {
	case step.Any:
	case step.IsIndex:
		if first, last = step.Index, step.Index+1; v.kind != List || last > v.Len() {
			return 0
		}
	default:
		if first = v.find(step.Key); first < 0 {
			return 0
		}
		last = first + 1
	}
	if len(p) == 1 {
		v.cut(first, last)
		return last - first
	}
	n := 0
	for i := first; i < last; i++ {
		n += v.inner.kids[i].val.Drop(p[1:])
	}
	v.own = v.own || n > 0
	return n
}
