package view

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// valueText is a value for people, in a line: a text without quotes, a list with commas between its elements, an object as
// {name: value}, a number without the digits of its binary form. Programs read -o json.
func valueText(raw json.RawMessage) string {
	const longest = 500
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		return OneLine(string(raw), longest)
	}
	if list, ok := v.([]any); ok && len(list) > 0 && flat(list) {
		return OneLine(joined(list), longest)
	}
	return OneLine(plainValue(v), longest)
}

// flat reports whether a list reads well without brackets: no element has others inside, or a comma.
func flat(list []any) bool {
	return !slices.ContainsFunc(list, func(v any) bool {
		switch v := v.(type) {
		case string:
			return v == "" || strings.ContainsAny(v, ",\n")
		case []any, map[string]any:
			return true
		}
		return false
	})
}

func joined(list []any) string {
	parts := make([]string, len(list))
	for i, v := range list {
		parts[i] = quotedValue(v)
	}
	return strings.Join(parts, ", ")
}

func plainValue(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(v)
	case json.Number:
		return Number(v.String())
	case []any:
		return "[" + joined(v) + "]"
	case map[string]any:
		parts := make([]string, 0, len(v))
		for _, name := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, name+": "+quotedValue(v[name]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case string:
		return v
	}
	return ""
}

// quotedValue is a value inside another one: a text that could be taken for something else is in quotes.
func quotedValue(v any) string {
	s, ok := v.(string)
	if !ok {
		return plainValue(v)
	}
	if _, err := strconv.ParseFloat(s, 64); err == nil || s == "" || s == "true" || s == "false" || s == "null" || strings.ContainsAny(s, `,[]{}"`+"\n") {
		quoted, _ := json.Marshal(s) // a text always can be
		return string(quoted)
	}
	return s
}

// decimals is how many digits behind the point people are shown, and precise how many digits of a number that is all but zero.
const (
	decimals = 6
	precise  = 6
)

// Number writes a number of JSON for people: 16.666666666666668 as 16.666667, whole numbers as they are.
func Number(text string) string {
	f, err := strconv.ParseFloat(text, 64)
	_, fraction, broken := strings.Cut(text, ".")
	switch {
	case err != nil || !broken || len(fraction) <= decimals && !strings.ContainsAny(text, "eE"):
		return text
	case f != 0 && math.Abs(f) < 1e-4 || math.Abs(f) >= 1e15:
		return strconv.FormatFloat(f, 'g', precise, 64)
	}
	return strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(f, 'f', decimals, 64), "0"), ".")
}
