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
func (st *state) sortBy(items, keys []any, reverse bool) (any, error) {
	must(st.growList(2 * len(items)))
	index := make([]int, len(items))
	for i := range index {
		index[i] = i
	}
	var failed error
	slices.SortStableFunc(index, func(i, j int) int {
		if failed != nil {
			return 0
		}
		c, err := st.order(keys[i], keys[j], 0)
		failed = err
		if c == unordered {
			c = 0
		}
		if reverse {
			return -c
		}
		return c
	})
	if failed != nil {
		return nil, failed
	}
	out := make([]any, len(items))
	for i, j := range index {
		out[i] = items[j]
	}
	return out, nil
}
