package expr

// loop is the value named loop inside a for block.
type loop struct {
	items   []any
	index   int
	changed any // last argument of loop.changed; nil before its first call
}

// Attr implements Object.
func (l *loop) Attr(name string) (any, bool) {
	i, n := int64(l.index), int64(len(l.items))
	switch name {
	case "index":
		return i + 1, true
	case "index0":
		return i, true
	case "revindex":
		return n - i, true
	case "revindex0":
		return n - i - 1, true
	case "first":
		return i == 0, true
	case "last":
		return i == n-1, true
	case "length":
		return n, true
	case "depth":
		return int64(1), true // more only in recursive loops, which there are not
	case "depth0":
		return int64(0), true
	case "previtem":
		if i > 0 {
			return l.items[i-1], true
		}
	case "nextitem":
		if i < n-1 {
			return l.items[i+1], true
		}
	}
	return nil, false
}

var loopMethods = map[string]*function{
	"cycle": {rest: true, call: func(_ *state, in any, a *args) any {
		if len(a.rest) == 0 {
			panic(failf(CodeType, "loop.cycle needs at least one value"))
		}
		return a.rest[in.(*loop).index%len(a.rest)]
	}},
	"changed": {rest: true, call: func(st *state, in any, a *args) any {
		l := in.(*loop)
		if seen, ok := l.changed.([]any); ok {
			if st.equal(seen, a.rest, 0) {
				return false
			}
		}
		l.changed = append([]any{}, a.rest...)
		st.growList(len(a.rest))
		return true
	}},
}
