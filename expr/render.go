package expr

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/stepwell/stepwell/expr/jsonvalue"
)

// text is how v appears inside text: scalars as scalarText, lists and mappings as JSON.
// Strings are returned as they are and cost nothing.
func (st *state) text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case nil, bool, int64, float64:
		return scalarText(v)
	case json.Number:
		return string(v)
	}
	n := mustOf(st.norm(v))
	switch n.(type) {
	case string, nil, bool, int64, float64, json.Number:
		return st.text(n)
	}
	return st.jsonText(n, "")
}

// scalarText: none, true and false in lower case, numbers as Python writes them.
func scalarText(v any) string {
	switch v := v.(type) {
	case bool:
		return strconv.FormatBool(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return jsonvalue.FloatText(v)
	}
	return "none"
}

// join concatenates after charging the result.
func (st *state) join(texts []string, separator string) string {
	size := 0
	for _, s := range texts {
		size += len(s) + len(separator)
	}
	st.grow(size)
	return strings.Join(texts, separator)
}
