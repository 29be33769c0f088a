package expr

import (
	"strconv"
	"strings"
)

// valueFilters convert values and work on mappings.
var valueFilters = map[string]*function{
	"default":  filterDefault,
	"d":        filterDefault,
	"tojson":   {types: typing{gives: TextKind}, call: filterToJSON, params: []param{opt("indent", nil)}},
	"fromjson": {types: typing{takes: TextKind, gives: AnyKind}, call: filterFromJSON},
	"attr":     {types: typing{gives: AnyKind}, call: filterAttr, params: []param{need("name")}},
	"items":    {types: typing{takes: MapKind, gives: ListKind}, call: methodItems},
	"keys":     {types: typing{takes: MapKind, like: texts}, call: methodKeys},
	"values":   {types: typing{takes: MapKind, gives: ListKind}, call: methodValues},
	"dictsort": {types: typing{takes: MapKind, gives: ListKind}, call: filterDictsort, params: []param{opt("case_sensitive", false), opt("by", "key"), opt("reverse", false)}},
}

// filterDefault is default(value, boolean): for undefined, and with boolean for any false value.
var filterDefault = &function{lax: true, types: typing{like: orDefault}, params: []param{opt("default_value", ""), opt("boolean", false)},
	call: func(_ *state, in any, a *args) any {
		if _, missing := in.(*undefined); missing || a.bool(1) && !truth(in) {
			return a.values[0]
		}
		return in
	}}

func filterToJSON(st *state, in any, a *args) any {
	indent := ""
	if a.values[0] != nil {
		width := a.int(0, 0)
		if width < 0 || width > 16 {
			panic(failf(CodeValue, "tojson: indent must be between 0 and 16"))
		}
		indent = strings.Repeat(" ", width)
	}
	return st.jsonText(in, indent)
}

func filterFromJSON(st *state, in any, _ *args) any {
	s, ok := in.(string)
	if !ok {
		panic(failf(CodeType, "fromjson needs a string, not %s", typeName(in)))
	}
	v, err := decode(s, st)
	if e, ok := err.(*Error); ok {
		e.Message += " at line " + strconv.Itoa(e.Line) + ", column " + strconv.Itoa(e.Column) + " of the input of fromjson"
		e.Line, e.Column = 0, 0 // these count in the data; the caller adds the place in the template
	}
	return mustOf(v, err)
}

func filterAttr(st *state, in any, a *args) any {
	key := pathKey{text: a.string(0)}
	item, ok := st.mustMember(in, &key)
	name := "…" + pathString("", []pathKey{key})
	if ok {
		return named(item, name, 0)
	}
	return &undefined{path: name, parent: in, key: key.text}
}

// entries returns a mapping and its sorted keys.
func (st *state) entries(name string, v any) (map[string]any, []string) {
	m, ok := st.mapping(v)
	if !ok {
		panic(failf(CodeType, "%s needs a mapping, not %s", name, typeName(v)))
	}
	st.growList(5 * len(m))
	return m, sortedKeys(m)
}

func methodItems(st *state, in any, _ *args) any {
	m, keys := st.entries("items", in)
	out := make([]any, len(keys))
	for i, k := range keys {
		out[i] = []any{k, m[k]}
	}
	return out
}

func methodKeys(st *state, in any, _ *args) any {
	_, keys := st.entries("keys", in)
	return anyList(keys)
}

func methodValues(st *state, in any, _ *args) any {
	m, keys := st.entries("values", in)
	out := make([]any, len(keys))
	for i, k := range keys {
		out[i] = m[k]
	}
	return out
}

func filterDictsort(st *state, in any, a *args) any {
	position := 0
	switch a.values[1] {
	case "key":
	case "value":
		position = 1
	default:
		panic(failf(CodeValue, `dictsort: by must be "key" or "value"`))
	}
	items := methodItems(st, in, nil)
	keys := make([]any, len(items.([]any)))
	for i, pair := range items.([]any) {
		keys[i] = foldCase(pair.([]any)[position], a.bool(0))
	}
	return st.sortBy(items.([]any), keys, a.bool(2))
}

var dictMethods = map[string]*function{
	"items":  {types: typing{gives: ListKind}, call: methodItems},
	"keys":   {types: typing{like: texts}, call: methodKeys},
	"values": {types: typing{gives: ListKind}, call: methodValues},
	"get": {types: typing{gives: AnyKind}, params: []param{need("key"), opt("default", nil)}, call: func(st *state, in any, a *args) any {
		key := dynamicKey(a.values[0])
		item, ok := st.mustMember(in, &key)
		if !ok || isUndefined(item) {
			return a.values[1]
		}
		return item
	}},
}
