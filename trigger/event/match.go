package event

import (
	"encoding/json"
	"math/big"
	"reflect"
	"strconv"
	"strings"

	"github.com/stepwell/stepwell/resource"
)

// fits reports whether an event matches a pattern and its filters.
func fits(pattern string, filters map[string]any, e *Event) bool {
	if strings.HasPrefix(e.Type, internal) && !strings.HasPrefix(pattern, internal) || !glob(pattern, e.Type) {
		return false
	}
	for path, want := range filters {
		got, ok := dig(map[string]any(e.Data), path)
		if !ok || !anyOf(want, got) {
			return false
		}
	}
	return true
}

// glob matches a text with a pattern of * and ?, byte by byte, in a time that is at most the product of both lengths.
func glob(pattern, text string) bool {
	p, t, star, mark := 0, 0, -1, 0
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, t
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == text[t]):
			p++
			t++
		case star >= 0:
			mark++
			p, t = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// Value finds a value in the data of an event by its path, such as model.size or labels.0.
func Value(data resource.Object, path string) (any, bool) { return dig(map[string]any(data), path) }

// dig finds a value by its path. A key that holds dots itself is found too.
func dig(v any, path string) (any, bool) {
	if path == "" {
		return v, true
	}
	switch v := v.(type) {
	case map[string]any:
		for cut := len(path); cut > 0; cut = strings.LastIndexByte(path[:cut], '.') {
			if inner, ok := v[path[:cut]]; ok {
				if found, ok := dig(inner, strings.TrimPrefix(path[cut:], ".")); ok {
					return found, true
				}
			}
		}
	case []any:
		first, rest, _ := strings.Cut(path, ".")
		if i, err := strconv.Atoi(first); err == nil && i >= 0 && i < len(v) {
			return dig(v[i], rest)
		}
	}
	return nil, false
}

// anyOf compares a filter's value with the event's. A list matches any of its elements, or the list itself.
func anyOf(want, got any) bool {
	if same(want, got) {
		return true
	}
	list, ok := want.([]any)
	for _, one := range list {
		if ok && same(one, got) {
			return true
		}
	}
	return false
}

// same compares JSON values; numbers by value.
func same(a, b any) bool {
	if x, ok := number(a); ok {
		y, ok := number(b)
		return ok && x.Cmp(y) == 0
	}
	switch a := a.(type) {
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !same(a[i], b[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for k := range a {
			if other, ok := b[k]; !ok || !same(a[k], other) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(a, b)
}

// number is a value's exact amount. Numbers with huge exponents are none: to write them out would take for ever.
func number(v any) (*big.Rat, bool) {
	switch n := v.(type) {
	case int:
		return new(big.Rat).SetInt64(int64(n)), true
	case int64:
		return new(big.Rat).SetInt64(n), true
	case float64:
		r := new(big.Rat).SetFloat64(n)
		return r, r != nil
	case json.Number:
		if len(n) > 100 || strings.ContainsAny(string(n), "eE") {
			return nil, false
		}
		return new(big.Rat).SetString(string(n))
	}
	return nil, false
}
