package expr

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// listFilters work on lists; a string counts as its characters, a mapping as its keys.
var listFilters = map[string]*function{
	"length":  {call: filterLength},
	"count":   {call: filterLength},
	"first":   {call: filterFirst},
	"last":    {call: filterLast},
	"list":    {call: func(st *state, in any, _ *args) (any, error) { return listOf(st.elements(in)) }},
	"reverse": {call: filterReverse},
	"join":    {call: filterJoin, params: []param{opt("d", ""), opt("attribute", nil)}},
	"batch":   {call: filterBatch, params: []param{need("linecount"), opt("fill_with", nil)}},
	"slice":   {call: filterSlice, params: []param{need("slices"), opt("fill_with", nil)}},
	"flatten": {call: filterFlatten, params: []param{opt("levels", nil)}},
	"sort": {call: filterSort, params: []param{opt("reverse", false), opt("case_sensitive", false),
		opt("attribute", nil)}},
	"unique":  {call: filterUnique, params: []param{opt("case_sensitive", false), opt("attribute", nil)}},
	"groupby": {call: filterGroupby, params: []param{need("attribute"), opt("default", nil), opt("case_sensitive", false)}},
	"min":     {call: extreme(-1), params: []param{opt("case_sensitive", false), opt("attribute", nil)}},
	"max":     {call: extreme(1), params: []param{opt("case_sensitive", false), opt("attribute", nil)}},
	"sum":     {call: filterSum, params: []param{opt("attribute", nil), opt("start", int64(0))}},
}

// listOf makes an any of a list, so that an error does not carry a typed nil.
func listOf(list []any, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return list, nil
}

func filterLength(_ *state, in any, _ *args) (any, error) {
	if n, ok := Length(in); ok {
		return n, nil
	}
	return nil, failf(CodeType, "%s has no length", typeName(in))
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

func filterFirst(st *state, in any, _ *args) (any, error) { return st.end(in, 0, "first") }
func filterLast(st *state, in any, _ *args) (any, error)  { return st.end(in, -1, "last") }

func (st *state) end(in any, i int, name string) (any, error) {
	if s, ok := in.(string); ok {
		if c, ok, err := stringItem(s, i); ok {
			return c, err
		}
		return &undefined{path: "the " + name + " element of an empty string"}, nil
	}
	items, err := st.elements(in)
	if err != nil {
		return nil, err
	}
	item, ok := listItem(items, i)
	if !ok {
		return &undefined{path: "the " + name + " element of an empty list"}, nil
	}
	return st.norm(item)
}

func filterReverse(st *state, in any, _ *args) (any, error) {
	items, err := st.elements(in)
	if err != nil {
		return nil, err
	}
	if err := st.growList(len(items)); err != nil {
		return nil, err
	}
	items = slices.Clone(items)
	slices.Reverse(items)
	if _, ok := in.(string); ok {
		return st.joinValues(items, "", "")
	}
	return items, nil
}

func filterJoin(st *state, in any, a *args) (any, error) {
	separator, err := st.text(a.values[0])
	if err != nil {
		return nil, err
	}
	attribute := ""
	if a.values[1] != nil {
		if attribute, err = attributeName(a.values[1]); err != nil {
			return nil, err
		}
	}
	return st.joinValues(in, separator, attribute)
}

func (st *state) joinValues(in any, separator, attribute string) (any, error) {
	items, err := st.elements(in)
	if err != nil {
		return nil, err
	}
	if err := st.growList(len(items)); err != nil {
		return nil, err
	}
	texts := make([]string, len(items))
	for i, item := range items {
		if attribute != "" {
			if item, err = st.attribute(item, attribute); err != nil {
				return nil, err
			}
		}
		if texts[i], err = st.text(item); err != nil {
			return nil, err
		}
	}
	return st.join(texts, separator)
}

// attributeName accepts the number of an element as well as a dotted name.
func attributeName(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	}
	return "", failf(CodeType, "an attribute is a name or a number, not %s", typeName(v))
}

// attribute reads a dotted path of item; what is missing is undefined.
func (st *state) attribute(item any, path string) (any, error) {
	v, err := st.norm(item)
	if err != nil {
		return nil, err
	}
	for part := range strings.SplitSeq(path, ".") {
		if err := st.spend(1); err != nil {
			return nil, err
		}
		key := pathKey{text: part, dotted: true}
		if i, err := strconv.Atoi(part); err == nil {
			key.index, key.isIndex = i, true
		}
		next, ok, err := st.member(v, &key)
		if err != nil {
			return nil, err
		}
		if !ok {
			return &undefined{path: "the element's " + path, parent: v, key: part}, nil
		}
		v = named(next, "the element's "+path, 0)
	}
	return v, nil
}

// keysFor computes what sort, unique, min and max compare.
func (st *state) keysFor(items []any, attribute any, caseSensitive bool) ([]any, error) {
	if err := st.growList(len(items)); err != nil {
		return nil, err
	}
	keys := make([]any, len(items))
	for i, item := range items {
		v, err := st.norm(item)
		if err != nil {
			return nil, err
		}
		if attribute != nil {
			name, err := attributeName(attribute)
			if err != nil {
				return nil, err
			}
			if v, err = st.attribute(item, name); err != nil {
				return nil, err
			}
		}
		if s, ok := v.(string); ok {
			if err := st.growText(s); err != nil {
				return nil, err
			}
		}
		keys[i] = foldCase(v, caseSensitive)
	}
	return keys, nil
}

func filterSort(st *state, in any, a *args) (any, error) {
	items, err := st.elements(in)
	if err != nil {
		return nil, err
	}
	name, several := a.values[2].(string)
	if !several || !strings.Contains(name, ",") {
		keys, err := st.keysFor(items, a.values[2], a.bool(1))
		if err != nil {
			return nil, err
		}
		return st.sortBy(items, keys, a.bool(0))
	}
	names := strings.Split(name, ",")
	keys := make([]any, len(items))
	columns := make([][]any, len(names))
	for c, name := range names {
		if columns[c], err = st.keysFor(items, name, a.bool(1)); err != nil {
			return nil, err
		}
	}
	if err := st.growList(len(items) * len(names)); err != nil {
		return nil, err
	}
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
func extreme(sign int) func(*state, any, *args) (any, error) {
	return func(st *state, in any, a *args) (any, error) {
		items, err := st.elements(in)
		if err != nil {
			return nil, err
		}
		if len(items) == 0 {
			return &undefined{path: "the smallest or largest element of an empty list"}, nil
		}
		keys, err := st.keysFor(items, a.values[1], a.bool(0))
		if err != nil {
			return nil, err
		}
		best := 0
		for i := range keys {
			c, err := st.order(keys[i], keys[best], 0)
			if err != nil {
				return nil, err
			}
			if c != unordered && c*sign > 0 {
				best = i
			}
		}
		return st.norm(items[best])
	}
}

func filterSum(st *state, in any, a *args) (any, error) {
	items, err := st.elements(in)
	if err != nil {
		return nil, err
	}
	total := a.values[1]
	for _, item := range items {
		if err := st.spend(1); err != nil {
			return nil, err
		}
		v, err := st.norm(item)
		if err != nil {
			return nil, err
		}
		if a.values[0] != nil {
			name, err := attributeName(a.values[0])
			if err != nil {
				return nil, err
			}
			if v, err = st.attribute(item, name); err != nil {
				return nil, err
			}
		}
		if u, ok := v.(*undefined); ok {
			return nil, u.err(st)
		}
		if total, err = st.arithmetic("+", total, v); err != nil {
			return nil, err
		}
	}
	return total, nil
}
