package expr

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// listFilters work on lists; a string counts as its characters, a mapping as its keys.
var listFilters = map[string]*function{
	"length":  {types: typing{takes: sizedKinds, gives: IntKind}, call: filterLength},
	"count":   {types: typing{takes: sizedKinds, gives: IntKind}, call: filterLength},
	"first":   {types: typing{takes: sizedKinds, like: elementOf}, call: filterFirst},
	"last":    {types: typing{takes: sizedKinds, like: elementOf}, call: filterLast},
	"list":    {types: typing{takes: sizedKinds, like: listOf}, call: func(st *state, in any, _ *args) any { return st.elements(in) }},
	"reverse": {types: typing{takes: sizedKinds, like: reversed}, call: filterReverse},
	"join":    {types: typing{takes: sizedKinds, gives: TextKind}, call: filterJoin, params: []param{opt("d", ""), opt("attribute", nil)}},
	"batch":   {types: typing{takes: sizedKinds, gives: ListKind}, call: filterBatch, params: []param{need("linecount"), opt("fill_with", nil)}},
	"slice":   {types: typing{takes: sizedKinds, gives: ListKind}, call: filterSlice, params: []param{need("slices"), opt("fill_with", nil)}},
	"flatten": {types: typing{takes: ListKind, gives: ListKind}, call: filterFlatten, params: []param{opt("levels", nil)}},
	"sort": {types: typing{takes: sizedKinds, like: listOf}, call: filterSort, params: []param{opt("reverse", false), opt("case_sensitive", false),
		opt("attribute", nil)}},
	"unique":  {types: typing{takes: sizedKinds, like: listOf}, call: filterUnique, params: []param{opt("case_sensitive", false), opt("attribute", nil)}},
	"groupby": {types: typing{takes: sizedKinds, gives: ListKind}, call: filterGroupby, params: []param{need("attribute"), opt("default", nil), opt("case_sensitive", false)}},
	"min":     {types: typing{takes: sizedKinds, like: elementOf}, call: extreme(-1), params: []param{opt("case_sensitive", false), opt("attribute", nil)}},
	"max":     {types: typing{takes: sizedKinds, like: elementOf}, call: extreme(1), params: []param{opt("case_sensitive", false), opt("attribute", nil)}},
	"sum":     {types: typing{takes: sizedKinds, gives: AnyKind}, call: filterSum, params: []param{opt("attribute", nil), opt("start", int64(0))}},
}

func filterLength(_ *state, in any, _ *args) any {
	if n, ok := Length(in); ok {
		return n
	}
	panic(failf(CodeType, "%s has no length", typeName(in)))
}

// Length is the number of a text's characters, a list's elements or an object's members; other values have none.
func Length(value any) (int64, bool) {
	switch v := value.(type) {
	case string:
		return int64(utf8.RuneCountInString(v)), true
	case []any:
		return int64(len(v)), true
	case map[string]any:
		return int64(len(v)), true
	case keyed:
		return int64(len(v.Keys())), true
	}
	return 0, false
}

func filterFirst(st *state, in any, _ *args) any { return st.end(in, 0, "first") }
func filterLast(st *state, in any, _ *args) any  { return st.end(in, -1, "last") }

func (st *state) end(in any, i int, name string) any {
	if s, ok := in.(string); ok {
		if c, ok := stringItem(s, i); ok {
			return c
		}
		return &undefined{path: "the " + name + " element of an empty string"}
	}
	items := st.elements(in)
	item, ok := listItem(items, i)
	if !ok {
		return &undefined{path: "the " + name + " element of an empty list"}
	}
	return mustOf(st.norm(item))
}

func filterReverse(st *state, in any, _ *args) any {
	items := st.elements(in)
	st.growList(len(items))
	items = slices.Clone(items)
	slices.Reverse(items)
	if _, ok := in.(string); ok {
		return st.joinValues(items, "", "")
	}
	return items
}

func filterJoin(st *state, in any, a *args) any {
	separator := st.text(a.values[0])
	attribute := ""
	if a.values[1] != nil {
		attribute = attributeName(a.values[1])
	}
	return st.joinValues(in, separator, attribute)
}

func (st *state) joinValues(in any, separator, attribute string) any {
	items := st.elements(in)
	st.growList(len(items))
	texts := make([]string, len(items))
	for i, item := range items {
		if attribute != "" {
			item = st.attribute(item, attribute)
		}
		texts[i] = st.text(item)
	}
	return st.join(texts, separator)
}

// attributeName accepts the number of an element as well as a dotted name.
func attributeName(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case int64:
		return strconv.FormatInt(v, 10)
	}
	panic(failf(CodeType, "an attribute is a name or a number, not %s", typeName(v)))
}

// attribute reads a dotted path of item; a missing one is undefined.
func (st *state) attribute(item any, path string) any {
	v := mustOf(st.norm(item))
	for part := range strings.SplitSeq(path, ".") {
		st.spend(1)
		key := pathKey{text: part, dotted: true}
		if i, err := strconv.Atoi(part); err == nil {
			key.index, key.isIndex = i, true
		}
		next, ok := st.mustMember(v, &key)
		if !ok {
			return &undefined{path: "the element's " + path, parent: v, key: part}
		}
		v = named(next, "the element's "+path, 0)
	}
	return v
}

// keysFor computes the keys that sort, unique, min and max compare.
func (st *state) keysFor(items []any, attribute any, caseSensitive bool) []any {
	st.growList(len(items))
	keys := make([]any, len(items))
	for i, item := range items {
		v := mustOf(st.norm(item))
		if attribute != nil {
			name := attributeName(attribute)
			v = st.attribute(item, name)
		}
		if s, ok := v.(string); ok {
			st.growText(s)
		}
		keys[i] = foldCase(v, caseSensitive)
	}
	return keys
}

func filterSort(st *state, in any, a *args) any {
	items := st.elements(in)
	name, several := a.values[2].(string)
	if !several || !strings.Contains(name, ",") {
		keys := st.keysFor(items, a.values[2], a.bool(1))
		return st.sortBy(items, keys, a.bool(0))
	}
	names := strings.Split(name, ",")
	keys := make([]any, len(items))
	columns := make([][]any, len(names))
	for c, name := range names {
		columns[c] = st.keysFor(items, name, a.bool(1))
	}
	st.growList(len(items) * len(names))
	for i := range keys {
		row := make([]any, len(names))
		for c := range names {
			row[c] = columns[c][i]
		}
		keys[i] = row
	}
	return st.sortBy(items, keys, a.bool(0))
}

// extreme finds the first smallest (-1) or first largest (1) element.
func extreme(sign int) func(*state, any, *args) any {
	return func(st *state, in any, a *args) any {
		items := st.elements(in)
		if len(items) == 0 {
			return &undefined{path: "the smallest or largest element of an empty list"}
		}
		keys := st.keysFor(items, a.values[1], a.bool(0))
		best := 0
		for i := range keys {
			c := st.order(keys[i], keys[best], 0)
			if c != unordered && c*sign > 0 {
				best = i
			}
		}
		return mustOf(st.norm(items[best]))
	}
}

func filterSum(st *state, in any, a *args) any {
	items := st.elements(in)
	total := a.values[1]
	for _, item := range items {
		st.spend(1)
		v := mustOf(st.norm(item))
		if a.values[0] != nil {
			name := attributeName(a.values[0])
			v = st.attribute(item, name)
		}
		if u, ok := v.(*undefined); ok {
			panic(u.err(st))
		}
		total = st.arithmetic("+", total, v)
	}
	return total
}
