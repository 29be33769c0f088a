package expr

import (
	"slices"
	"strings"
)

// foldCase is the key that sorting compares: text in lower case unless case counts.
func foldCase(v any, caseSensitive bool) any {
	if s, ok := v.(string); ok && !caseSensitive {
		return strings.ToLower(s)
	}
	return v
}

// sortBy returns items in the stable order of keys.
func (st *state) sortBy(items, keys []any, reverse bool) any {
	st.growList(2 * len(items))
	index := make([]int, len(items))
	for i := range index {
		index[i] = i
	}
	slices.SortStableFunc(index, func(i, j int) int {
		c := st.order(keys[i], keys[j], 0)
		if c == unordered {
			c = 0
		}
		if reverse {
			return -c
		}
		return c
	})
	out := make([]any, len(items))
	for i, j := range index {
		out[i] = items[j]
	}
	return out
}
