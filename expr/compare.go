package expr

import (
	"cmp"
	"math"
	"strings"
)

// compare applies a comparison operator. In revision 1 equality accepts undefined, which equals only itself.
func (st *state) compare(op string, a, b any) bool {
	if !st.old() && (isUndefined(a) || isUndefined(b)) {
		return st.compareUndefined(op, a, b)
	}
	switch op {
	case "==":
		return st.equal(a, b, 0)
	case "!=":
		return !st.equal(a, b, 0)
	case "in":
		return st.contains(b, a)
	case "not in":
		return !st.contains(b, a)
	}
	c := st.order(a, b, 0)
	if c == unordered {
		return false
	}
	switch op {
	case "<":
		return c < 0
	case "<=":
		return c <= 0
	case ">":
		return c > 0
	}
	return c >= 0
}

// equal is Python's ==, deep.
func (st *state) equal(a, b any, depth int) bool {
	st.walk()
	if x, ok := number(a); ok {
		y, ok := number(b)
		return ok && compareNumbers(x, y) == 0
	}
	switch x := a.(type) {
	case nil:
		return b == nil
	case string:
		y, ok := b.(string)
		st.spend(len(x) / scanned)
		return ok && x == y
	case *undefined:
		_, ok := b.(*undefined)
		return ok
	}
	st.deeper(depth)
	return st.equalDeep(a, b, depth)
}

func (st *state) equalDeep(a, b any, depth int) bool {
	a = mustOf(st.norm(a))
	b = mustOf(st.norm(b))
	if x, ok := a.([]any); ok {
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for i := range x {
			if !st.equal(x[i], y[i], depth+1) {
				return false
			}
		}
		return true
	}
	x, okX := st.mapping(a)
	y, okY := st.mapping(b)
	if okX || okY {
		return st.equalMaps(x, y, okX && okY, depth)
	}
	switch a.(type) { // norm may have turned a Go number into one of ours
	case nil, bool, int64, float64, string:
		return st.equal(a, b, depth+1)
	}
	return a == b
}

func (st *state) equalMaps(x, y map[string]any, both bool, depth int) bool {
	if !both || len(x) != len(y) {
		return false
	}
	for _, k := range sortedKeys(x) {
		if other, ok := y[k]; !ok || !st.equal(x[k], other, depth+1) {
			return false
		}
	}
	return true
}

func compareNumbers(x, y num) int {
	switch {
	case !x.isFloat && !y.isFloat:
		return cmp.Compare(x.i, y.i)
	case math.IsNaN(x.float()) || math.IsNaN(y.float()):
		return unordered
	case x.isFloat && y.isFloat:
		return cmp.Compare(x.f, y.f)
	case x.isFloat:
		return -compareIntFloat(y.i, x.f)
	}
	return compareIntFloat(x.i, y.f)
}

// compareIntFloat is exact where a conversion to float would round.
func compareIntFloat(i int64, f float64) int {
	switch {
	case f >= 1<<63:
		return -1
	case f < -1<<63:
		return 1
	}
	whole := math.Floor(f)
	if c := cmp.Compare(i, int64(whole)); c != 0 {
		return c
	}
	return cmp.Compare(0, f-whole)
}

const unordered = 2 // the order of NaN and anything

// order is Python's <=> where it has one: numbers, strings, lists of such.
func (st *state) order(a, b any, depth int) int {
	st.walk()
	for _, v := range []any{a, b} {
		if u, ok := v.(*undefined); ok {
			panic(u.err(st))
		}
	}
	if x, ok := number(a); ok {
		if y, ok := number(b); ok {
			return compareNumbers(x, y)
		}
	}
	switch x := a.(type) {
	case string:
		if y, ok := b.(string); ok {
			st.spend(len(x) / scanned)
			return cmp.Compare(x, y)
		}
	case []any:
		if y, ok := b.([]any); ok {
			return st.orderLists(x, y, depth)
		}
	}
	e := failf(CodeType, "%s and %s have no order", typeName(a), typeName(b))
	if _, ok := a.(string); ok {
		if _, ok := number(b); ok {
			e.Hint = "convert the text with | int or | float"
		}
	}
	panic(e)
}

func (st *state) orderLists(x, y []any, depth int) int {
	st.deeper(depth)
	for i := range min(len(x), len(y)) {
		if !st.equal(x[i], y[i], depth+1) {
			return st.order(x[i], y[i], depth+1)
		}
	}
	return cmp.Compare(len(x), len(y))
}

// contains is item in container.
func (st *state) contains(container, item any) bool {
	switch c := container.(type) {
	case string:
		switch s := item.(type) {
		case string:
			st.spend(len(c) / scanned)
			return strings.Contains(c, s)
		case *undefined:
			panic(s.err(st))
		}
		panic(failf(CodeType, "in needs a string to look for in a string, not %s", typeName(item)))
	case map[string]any:
		key, err := keyString(item)
		_, found := c[key]
		return found && err == nil
	case []any:
		for _, element := range c {
			if st.equal(element, item, 0) {
				return true
			}
		}
		return false
	case *undefined:
		panic(c.err(st))
	case *loop:
	case Object:
		key, err := keyString(item)
		if err != nil {
			return false
		}
		item, found := c.Attr(key)
		_, absent := item.(*Absent)
		return found && !absent
	}
	panic(failf(CodeType, "in needs a list, a mapping or a string, not %s", typeName(container)))
}
