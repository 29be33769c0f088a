package builtin

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"github.com/stepwell/stepwell/action"
)

// maxElements bounds the lists and objects that an action works on or makes.
const maxElements = 1_000_000

// typeName is the word for a value's type in outputs and messages: the names of spec.Type, and null.
func typeName(value any) string {
	switch number(value).(type) {
	case nil:
		return "null"
	case string:
		return "string"
	case bool:
		return "boolean"
	case int64, tooLarge:
		return "integer"
	case float64:
		return "number"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	}
	return "value of an unknown type"
}

// tooLarge is an integer beyond 64 bits, as it was written.
type tooLarge string

// number turns every kind of Go number into int64 or float64, so that the rest knows two; anything else
// comes back as it is. Integers stay integers.
func number(value any) any {
	switch v := value.(type) {
	case int:
		return int64(v)
	case int32:
		return int64(v)
	case uint32:
		return int64(v)
	case uint:
		return fromUint(uint64(v))
	case uint64:
		return fromUint(v)
	case float32:
		return float64(v)
	case json.Number:
		return parseNumber(string(v))
	}
	return value
}

func fromUint(v uint64) any {
	if v > math.MaxInt64 {
		return tooLarge(strconv.FormatUint(v, 10))
	}
	return int64(v)
}

func parseNumber(text string) any {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	if !strings.ContainsAny(text, ".eE") {
		return tooLarge(text)
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return tooLarge(text)
	}
	return f
}

// textOf is a value for people: a string as it is, nothing for null, other values as compact JSON.
func textOf(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		return v
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return "(" + err.Error() + ")"
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// checkSize refuses lists and objects of more than maxElements elements.
func checkSize(name string, value any) error {
	n := 0
	switch v := value.(type) {
	case []any:
		n = len(v)
	case map[string]any:
		n = len(v)
	}
	if n > maxElements {
		return action.Invalid("split the work with for_each", "%s has %d elements, more than %d", name, n, maxElements)
	}
	return nil
}
