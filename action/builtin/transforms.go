package builtin

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/stepwell/stepwell/expr"
)

// transforms are the operations of util.transform.
var transforms = map[string]operation{
	"passthrough": func(input any, _ operands) (any, error) { return input, nil },
	"uppercase":   func(input any, _ operands) (any, error) { return mapStrings(input, strings.ToUpper) },
	"lowercase":   func(input any, _ operands) (any, error) { return mapStrings(input, strings.ToLower) },
	"keys":        onObject(func(object map[string]any) any { return anyList(slices.Sorted(maps.Keys(object))) }),
	"values": onObject(func(object map[string]any) any {
		list := make([]any, 0, len(object))
		for _, key := range slices.Sorted(maps.Keys(object)) {
			list = append(list, object[key])
		}
		return list
	}),
	"count":   func(input any, _ operands) (any, error) { return count(input) },
	"flatten": onList(flatten),
	"unique":  onList(unique),
	"sort":    onList(sorted),
	"reverse": func(input any, _ operands) (any, error) { return reverse(input) },
	"pick":    func(input any, p operands) (any, error) { return selectKeys(input, p.keys, true) },
	"omit":    func(input any, p operands) (any, error) { return selectKeys(input, p.keys, false) },
	"merge":   onList(merge),
}

func onObject(f func(map[string]any) any) operation {
	return func(input any, _ operands) (any, error) {
		object, ok := input.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("the input is %s, not an object", typeName(input))
		}
		return f(object), nil
	}
}

func onList(f func([]any) (any, error)) operation {
	return func(input any, _ operands) (any, error) {
		list, ok := input.([]any)
		if !ok {
			return nil, fmt.Errorf("the input is %s, not a list", typeName(input))
		}
		return f(list)
	}
}

func anyList(texts []string) []any {
	list := make([]any, len(texts))
	for i, text := range texts {
		list[i] = text
	}
	return list
}

func mapStrings(input any, f func(string) string) (any, error) {
	switch v := input.(type) {
	case string:
		return f(v), nil
	case []any:
		list := make([]any, len(v))
		for i, element := range v {
			text, ok := element.(string)
			if !ok {
				return nil, fmt.Errorf("element %d is %s, not a string", i, typeName(element))
			}
			list[i] = f(text)
		}
		return list, nil
	}
	return nil, fmt.Errorf("the input is %s, neither a string nor a list of strings", typeName(input))
}

func count(input any) (any, error) {
	if n, ok := expr.Length(input); ok || input == nil {
		return n, nil
	}
	return nil, fmt.Errorf("the input is %s, which has no elements", typeName(input))
}

// flatten replaces lists in the list by their elements, one level deep.
func flatten(list []any) (any, error) {
	flat := make([]any, 0, len(list))
	for _, element := range list {
		if inner, ok := element.([]any); ok {
			flat = append(flat, inner...)
		} else {
			flat = append(flat, element)
		}
		if len(flat) > maxElements {
			return nil, fmt.Errorf("the result has more than %d elements", maxElements)
		}
	}
	return flat, nil
}

// unique keeps the first of equal elements; values are equal when their JSON is.
func unique(list []any) (any, error) {
	kept := make([]any, 0, len(list))
	seen := make(map[string]bool, len(list))
	for i, element := range list {
		raw, err := json.Marshal(element)
		if err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
		if !seen[string(raw)] {
			seen[string(raw)] = true
			kept = append(kept, element)
		}
	}
	return kept, nil
}

// sorted sorts numbers or strings; equal elements keep their order.
func sorted(list []any) (any, error) {
	for i, element := range list {
		if _, err := compare(list[0], element); err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b any) int {
		order, _ := compare(a, b) // checked above: all are of one kind
		return order
	})
	return list, nil
}

// compare orders two numbers or two strings.
func compare(a, b any) (int, error) {
	left, right := number(a), number(b)
	switch l := left.(type) {
	case string:
		if r, ok := right.(string); ok {
			return strings.Compare(l, r), nil
		}
	case int64:
		switch r := right.(type) {
		case int64:
			return cmp.Compare(l, r), nil
		case float64:
			return compareMixed(l, r), nil
		}
	case float64:
		switch r := right.(type) {
		case int64:
			return -compareMixed(r, l), nil
		case float64:
			return cmp.Compare(l, r), nil
		}
	}
	if typeName(a) == typeName(b) {
		return 0, fmt.Errorf("is %s; only numbers of 64 bits and strings have an order", typeName(a))
	}
	return 0, fmt.Errorf("%s cannot be ordered with %s", typeName(b), typeName(a))
}

// compareMixed orders an integer and a float exactly: above 2⁵³ a conversion to float64 would make
// different integers equal and the order inconsistent.
func compareMixed(i int64, f float64) int {
	switch {
	case math.IsNaN(f):
		return 1 // as cmp.Compare: below every number
	case f >= 1<<63:
		return -1
	case f < -1<<63:
		return 1
	}
	whole := math.Trunc(f)
	if order := cmp.Compare(i, int64(whole)); order != 0 {
		return order
	}
	return cmp.Compare(whole, f)
}

func reverse(input any) (any, error) {
	switch v := input.(type) {
	case string:
		runes := []rune(v)
		slices.Reverse(runes)
		return string(runes), nil
	case []any:
		list := slices.Clone(v)
		slices.Reverse(list)
		return list, nil
	}
	return nil, fmt.Errorf("the input is %s, neither a list nor a string", typeName(input))
}

// merge makes one object of a list of objects; of equal keys the last value wins.
func merge(list []any) (any, error) {
	merged := map[string]any{}
	for i, element := range list {
		object, ok := element.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("element %d is %s, not an object", i, typeName(element))
		}
		maps.Copy(merged, object)
	}
	if len(merged) > maxElements {
		return nil, fmt.Errorf("the result has more than %d members", maxElements)
	}
	return merged, nil
}

// selectKeys keeps, or drops, the members that the parameter keys names.
func selectKeys(input any, keys []string, keep bool) (any, error) {
	if keys == nil {
		return nil, errors.New("the parameter keys is missing")
	}
	named := make(map[string]bool, len(keys))
	for _, key := range keys {
		named[key] = true
	}
	if object, ok := input.(map[string]any); ok {
		return selected(object, named, keep), nil
	}
	elements, ok := input.([]any)
	if !ok {
		return nil, fmt.Errorf("the input is %s, neither an object nor a list of objects", typeName(input))
	}
	out := make([]any, len(elements))
	for i, element := range elements {
		object, ok := element.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("element %d is %s, not an object", i, typeName(element))
		}
		out[i] = selected(object, named, keep)
	}
	return out, nil
}

func selected(object map[string]any, named map[string]bool, keep bool) map[string]any {
	out := make(map[string]any)
	for key, value := range object {
		if named[key] == keep {
			out[key] = value
		}
	}
	return out
}
