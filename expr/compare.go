package expr

import (
	"cmp"
	"math"
	"strings"
)

// compare applies a comparison operator. In revision 1 equality accepts undefined, which equals only itself.
func (st *state) compare(op string, a, b any) (bool, error) {
	if !st.old() && (isUndefined(a) || isUndefined(b)) {
		return st.compareUndefined(op, a, b)
	}
	switch op {
	case "==":
		return st.equal(a, b, 0)
	case "!=":
		same, err := st.equal(a, b, 0)
		return !same && err == nil, err
	case "in":
		return st.contains(b, a)
	case "not in":
		found, err := st.contains(b, a)
		return !found && err == nil, err
	}
	c, err := st.order(a, b, 0)
	if err != nil || c == unordered {
		return false, err
	}
	switch op {
	case "<":
		return c < 0, nil
	case "<=":
		return c <= 0, nil
	case ">":
		return c > 0, nil
	}
	return c >= 0, nil
}

// equal is Python's ==, deep.
func (st *state) equal(a, b any, depth int) (bool, error) {
	if err := st.walk(); err != nil {
		return false, err
	}
	if x, ok := number(a); ok {
		y, ok := number(b)
		return ok && compareNumbers(x, y) == 0, nil
	}
	switch x := a.(type) {
	case nil:
		return b == nil, nil
	case string:
		y, ok := b.(string)
		return ok && x == y, st.spend(len(x) / scanned)
	case *undefined:
		_, ok := b.(*undefined)
		return ok, nil
	}
	if err := st.deeper(depth); err != nil {
		return false, err
	}
	return st.equalDeep(a, b, depth)
}

func (st *state) equalDeep(a, b any, depth int) (bool, error) {
	a, err := st.norm(a)
	if err != nil {
		return false, err
	}
	b, err = st.norm(b)
	if err != nil {
		return false, err
	}
	if x, ok := a.([]any); ok {
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			return false, nil
		}
		for i := range x {
			if same, err := st.equal(x[i], y[i], depth+1); err != nil || !same {
				return false, err
			}
		}
		return true, nil
	}
	x, okX, err := st.mapping(a)
	if err != nil {
		return false, err
	}
	y, okY, err := st.mapping(b)
	if err != nil {
		return false, err
	}
	if okX || okY {
		return st.equalMaps(x, y, okX && okY, depth)
	}
	switch a.(type) { // norm may have turned a Go number into one of ours
	case nil, bool, int64, float64, string:
		return st.equal(a, b, depth+1)
	}
	return a == b, nil
}

func (st *state) equalMaps(x, y map[string]any, both bool, depth int) (bool, error) {
	if !both || len(x) != len(y) {
		return false, nil
	}
	for _, k := range sortedKeys(x) {
		other, ok := y[k]
		if !ok {
			return false, nil
		}
		if same, err := st.equal(x[k], other, depth+1); err != nil || !same {
			return false, err
		}
	}
	return true, nil
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
func (st *state) order(a, b any, depth int) (int, error) {
	if err := st.walk(); err != nil {
		return 0, err
	}
	for _, v := range []any{a, b} {
		if u, ok := v.(*undefined); ok {
			return 0, u.err(st)
		}
	}
	if x, ok := number(a); ok {
		if y, ok := number(b); ok {
			return compareNumbers(x, y), nil
		}
	}
	switch x := a.(type) {
	case string:
		if y, ok := b.(string); ok {
			return cmp.Compare(x, y), st.spend(len(x) / scanned)
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
	return 0, e
}

func (st *state) orderLists(x, y []any, depth int) (int, error) {
	if err := st.deeper(depth); err != nil {
		return 0, err
	}
	for i := range min(len(x), len(y)) {
		same, err := st.equal(x[i], y[i], depth+1)
		if err != nil {
			return 0, err
		}
		if !same {
			return st.order(x[i], y[i], depth+1)
		}
	}
	return cmp.Compare(len(x), len(y)), nil
}

// contains is item in container.
func (st *state) contains(container, item any) (bool, error) {
	switch c := container.(type) {
	case string:
		switch s := item.(type) {
		case string:
			return strings.Contains(c, s), st.spend(len(c) / scanned)
		case *undefined:
			return false, s.err(st)
		}
		return false, failf(CodeType, "in needs a string to look for in a string, not %s", typeName(item))
	case map[string]any:
		key, err := keyString(item)
		_, found := c[key]
		return found && err == nil, nil
	case []any:
		for _, element := range c {
			if same, err := st.equal(element, item, 0); err != nil || same {
				return same, err
			}
		}
		return false, nil
	case *undefined:
		return false, c.err(st)
	case *loop:
	case Object:
		key, err := keyString(item)
		if err != nil {
			return false, nil
		}
		item, found := c.Attr(key)
		_, absent := item.(*Absent)
		return found && !absent, nil
	}
	return false, failf(CodeType, "in needs a list, a mapping or a string, not %s", typeName(container))
}
