package expr

// selectFilters apply another filter or test, given by name, to every element.
var selectFilters = map[string]*function{
	"map":        {call: filterMap, rest: true},
	"select":     {call: selector(true, false), rest: true},
	"reject":     {call: selector(false, false), rest: true},
	"selectattr": {call: selector(true, true), rest: true},
	"rejectattr": {call: selector(false, true), rest: true},
}

// filterMap is map(attribute=name, default=value) or map(filter, arguments…).
func filterMap(st *state, in any, a *args) (any, error) {
	items, err := st.elements(in)
	if err != nil {
		return nil, err
	}
	apply, err := mapper(st, a)
	if err != nil {
		return nil, err
	}
	if err := st.growList(len(items)); err != nil {
		return nil, err
	}
	out := make([]any, len(items))
	for i, item := range items {
		if err := st.spend(1); err != nil {
			return nil, err
		}
		if item, err = st.norm(item); err != nil {
			return nil, err
		}
		if out[i], err = apply(item); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func mapper(st *state, a *args) (func(any) (any, error), error) {
	attribute, ok := a.keyword("attribute")
	if !ok || len(a.rest) > 0 {
		return st.byName("filter", st.lib.filters, a.rest, a)
	}
	name, err := attributeName(attribute)
	if err != nil {
		return nil, err
	}
	for _, keyword := range a.names {
		if keyword != "attribute" && keyword != "default" {
			return nil, failf(CodeType, "map has no argument named %s", clip(keyword))
		}
	}
	fallback, hasFallback := a.keyword("default")
	return func(item any) (any, error) {
		v, err := st.attribute(item, name)
		if _, missing := v.(*undefined); missing && hasFallback {
			return fallback, err
		}
		return v, err
	}, nil
}

// byName prepares the filter or test that names[0] is the name of; the rest are its arguments.
func (st *state) byName(kind string, table map[string]*function, names []any, a *args) (func(any) (any, error), error) {
	if len(names) == 0 {
		return nil, failf(CodeType, "%s needs the name of a %s", a.name, kind)
	}
	name, ok := names[0].(string)
	if !ok {
		return nil, failf(CodeType, "%s needs the name of a %s, not %s", a.name, kind, typeName(names[0]))
	}
	fn, err := lookupFunction(kind, table, name)
	if err != nil {
		return nil, err
	}
	values := append(append([]any{}, names[1:]...), a.named...)
	c := callArgs{nodes: make([]node, len(values)), names: a.names}
	plan, err := c.match(name, fn)
	if err != nil {
		return nil, err
	}
	return func(item any) (any, error) {
		return st.call(name, fn, item, c, values, plan)
	}, nil
}

// selector keeps the elements whose test, or whose attribute's test, turns out as want.
// Without a test it is the element's truth that counts.
func selector(want, byAttribute bool) func(*state, any, *args) (any, error) {
	return func(st *state, in any, a *args) (any, error) {
		items, err := st.elements(in)
		if err != nil {
			return nil, err
		}
		names, attribute := a.rest, ""
		if byAttribute {
			if len(names) == 0 {
				return nil, failf(CodeType, "%s needs an attribute", a.name)
			}
			if attribute, err = attributeName(names[0]); err != nil {
				return nil, err
			}
			names = names[1:]
		}
		holds := func(v any) (any, error) { return v, nil }
		if len(names) > 0 {
			if holds, err = st.byName("test", st.lib.tests, names, a); err != nil {
				return nil, err
			}
		}
		return listOf(st.filterItems(items, attribute, holds, want))
	}
}

func (st *state) filterItems(items []any, attribute string, test func(any) (any, error), want bool) ([]any, error) {
	if err := st.growList(len(items)); err != nil {
		return nil, err
	}
	out := make([]any, 0, len(items))
	for _, item := range items {
		if err := st.spend(1); err != nil {
			return nil, err
		}
		v, err := st.norm(item)
		if err == nil && attribute != "" {
			v, err = st.attribute(item, attribute)
		}
		if err == nil {
			v, err = test(v)
		}
		if err != nil {
			return nil, err
		}
		holds, err := st.truth(v)
		if err != nil {
			return nil, err
		}
		if holds == want {
			out = append(out, item)
		}
	}
	return out, nil
}
