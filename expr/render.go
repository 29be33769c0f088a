package expr

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// text is how v appears inside text: scalars as scalarText, lists and mappings as JSON.
// Strings are returned as they are and cost nothing.
func (st *state) text(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case nil, bool, int64, float64:
		return scalarText(v), nil
	case json.Number:
		return string(v), nil
	}
	n, err := st.norm(v)
	if err != nil {
		return "", err
	}
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
		return floatText(v)
	}
	return "none"
}

// floatText is Python's repr: the shortest digits that read back as f, always with a point or
// an exponent, so that a float never turns into an integer on its way through text.
func floatText(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	case math.IsNaN(f):
		return "nan"
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if strings.IndexByte(s, '.') < 0 {
		s += ".0"
	}
	return s
}

// join concatenates after charging the result.
func (st *state) join(texts []string, separator string) (string, error) {
	size := 0
	for _, s := range texts {
		size += len(s) + len(separator)
	}
	if err := st.grow(size); err != nil {
		return "", err
	}
	return strings.Join(texts, separator), nil
}
