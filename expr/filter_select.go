package expr

// selectFilters apply another filter or test, given by name, to every element.
var selectFilters = map[string]*function{
	"map":        {types: typing{takes: sizedKinds, gives: ListKind}, call: filterMap, rest: true},
	"select":     {types: typing{takes: sizedKinds, gives: ListKind}, call: selector(true, false), rest: true},
	"reject":     {types: typing{takes: sizedKinds, gives: ListKind}, call: selector(false, false), rest: true},
	"selectattr": {types: typing{takes: sizedKinds, gives: ListKind}, call: selector(true, true), rest: true},
	"rejectattr": {types: typing{takes: sizedKinds, gives: ListKind}, call: selector(false, true), rest: true},
}

// filterMap is map(attribute=name, default=value) or map(filter, arguments…).
func filterMap(st *state, in any, a *args) any {
	items := st.elements(in)
	apply := mapper(st, a)
	st.growList(len(items))
	out := make([]any, len(items))
	for i, item := range items {
		st.spend(1)
		item = mustOf(st.norm(item))
		out[i] = apply(item)
	}
	return out
}

func mapper(st *state, a *args) func(any) any {
	attribute, ok := a.keyword("attribute")
	if !ok || len(a.rest) > 0 {
		return st.byName("filter", st.lib.filters, a.rest, a)
	}
	name := attributeName(attribute)
	for _, keyword := range a.names {
		if keyword != "attribute" && keyword != "default" {
			panic(failf(CodeType, "map has no argument named %s", clip(keyword)))
		}
	}
	fallback, hasFallback := a.keyword("default")
	return func(item any) any {
		v := st.attribute(item, name)
		if _, missing := v.(*undefined); missing && hasFallback {
			return fallback
		}
		return v
	}
}

// byName prepares the filter or test that names[0] is the name of; the rest are its arguments.
func (st *state) byName(kind string, table map[string]*function, names []any, a *args) func(any) any {
	if len(names) == 0 {
		panic(failf(CodeType, "%s needs the name of a %s", a.name, kind))
	}
	name, ok := names[0].(string)
	if !ok {
		panic(failf(CodeType, "%s needs the name of a %s, not %s", a.name, kind, typeName(names[0])))
	}
	fn := mustOf(lookupFunction(kind, table, name))
	values := append(append([]any{}, names[1:]...), a.named...)
	c := callArgs{nodes: make([]node, len(values)), names: a.names}
	plan := mustOf(c.match(name, fn))
	return func(item any) any {
		return st.call(name, fn, item, c, values, plan)
	}
}

// selector keeps the elements whose test, or whose attribute's test, gives want. Without a test the element's truth
// counts.
func selector(want, byAttribute bool) func(*state, any, *args) any {
	return func(st *state, in any, a *args) any {
		items := st.elements(in)
		names, attribute := a.rest, ""
		if byAttribute {
			if len(names) == 0 {
				panic(failf(CodeType, "%s needs an attribute", a.name))
			}
			attribute = attributeName(names[0])
			names = names[1:]
		}
		holds := func(v any) any { return v }
		if len(names) > 0 {
			holds = st.byName("test", st.lib.tests, names, a)
		}
		return st.filterItems(items, attribute, holds, want)
	}
}

func (st *state) filterItems(items []any, attribute string, test func(any) any, want bool) []any {
	st.growList(len(items))
	out := make([]any, 0, len(items))
	for _, item := range items {
		st.spend(1)
		v := mustOf(st.norm(item))
		if attribute != "" {
			v = st.attribute(item, attribute)
		}
		if st.truth(test(v)) == want {
			out = append(out, item)
		}
	}
	return out
}
