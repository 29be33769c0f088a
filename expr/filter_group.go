package expr

import "github.com/stepwell/stepwell/expr/jsonvalue"

func filterUnique(st *state, in any, a *args) any {
	items := st.elements(in)
	keys := st.keysFor(items, a.values[1], a.bool(0))
	out := []any{}
	seen := newValueSet(st)
	for i, key := range keys {
		fresh := seen.add(key)
		if fresh {
			out = jsonvalue.AppendDoubling(out, items[i])
		}
	}
	st.growList(len(out))
	return out
}

// valueSet holds values that are equal as the template compares them: 1, 1.0 and true are one.
type valueSet struct {
	st      *state
	scalars map[any]bool
	others  []any // lists and mappings, compared one by one
}

func newValueSet(st *state) *valueSet { return &valueSet{st: st, scalars: map[any]bool{}} }

func (s *valueSet) add(v any) bool {
	s.st.grow(entrySize)
	if n, ok := number(v); ok {
		v = n.i
		if n.isFloat {
			v = n.f
			if i := int64(n.f); n.f >= -1<<53 && n.f <= 1<<53 && float64(i) == n.f {
				v = i
			}
		}
	}
	switch v := v.(type) {
	case *undefined:
		panic(v.err(s.st))
	case nil, int64, float64, string:
		if s.scalars[v] {
			return false
		}
		s.scalars[v] = true
		return true
	}
	found := s.st.contains(s.others, v)
	if !found {
		s.others = append(s.others, v)
	}
	return !found
}

// filterGroupby sorts by an attribute and returns [value, elements] for each of its values.
func filterGroupby(st *state, in any, a *args) any {
	items := st.elements(in)
	name := attributeName(a.values[0])
	st.growList(6 * len(items))
	values := make([]any, len(items))
	pairs := make([]any, len(items))
	for i, item := range items {
		v := st.attribute(item, name)
		if u, missing := v.(*undefined); missing {
			if a.values[1] == nil {
				panic(u.err(st))
			}
			v = a.values[1]
		}
		values[i] = foldCase(v, a.bool(2))
		pairs[i] = []any{values[i], item, v}
	}
	sorted := st.sortBy(pairs, values, false)
	return st.groups(sorted.([]any))
}

// groups gathers sorted triples of folded value, element and value into [value, elements].
func (st *state) groups(sorted []any) any {
	out := []any{}
	for i, triple := range sorted {
		p := triple.([]any)
		if i > 0 {
			same := st.equal(p[0], sorted[i-1].([]any)[0], 0)
			if same {
				group := out[len(out)-1].([]any)
				group[1] = jsonvalue.AppendDoubling(group[1].([]any), p[1])
				continue
			}
		}
		out = jsonvalue.AppendDoubling(out, []any{p[2], []any{p[1]}})
	}
	return out
}
