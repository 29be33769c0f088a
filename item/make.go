package item

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/expr"
)

// Of makes a value of the types of expr.Marshal: maps (their keys sorted), lists, texts, numbers, raw JSON. Values
// inside them are cloned, so that their numbers and the order of their keys stay. It fails for types without a JSON
// form, and nesting deeper than MaxDepth.
func Of(v any) (*Value, error) { return of(v, 0) }

// of is long because it is a table of types.
func of(v any, depth int) (*Value, error) {
	if depth > MaxDepth {
		return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: "a value nests deeper than " + strconv.Itoa(MaxDepth) + " levels"}
	}
	switch x := v.(type) {
	case nil:
		return &Value{}, nil
	case *Value:
		if x == nil {
			return &Value{}, nil
		}
		return x.Clone(), nil
	case string:
		return OfText(x), nil
	case bool:
		return &Value{text: strconv.AppendBool(nil, x), kind: Bool}, nil
	case int64:
		return &Value{text: strconv.AppendInt(nil, x, 10), kind: Number}, nil
	case []any:
		out := NewList()
		for _, e := range x {
			made, err := of(e, depth+1)
			if err != nil {
				return nil, err
			}
			out.Append(made)
		}
		return out, nil
	case map[string]any:
		out := NewObject()
		for _, key := range slices.Sorted(maps.Keys(x)) {
			made, err := of(x[key], depth+1)
			if err != nil {
				return nil, err
			}
			out.Set(key, made)
		}
		return out, nil
	case expr.Raw:
		return Parse(orNull(x))
	case json.RawMessage:
		return Parse(orNull(x))
	}
	text, err := expr.Marshal(v)
	if err != nil {
		return nil, err
	}
	return Parse(text)
}

func orNull(raw []byte) []byte {
	if len(raw) == 0 {
		return []byte("null")
	}
	return slices.Clone(raw)
}

// OfText makes a text value. Invalid UTF-8 in s becomes U+FFFD.
func OfText(s string) *Value {
	return &Value{text: quote(make([]byte, 0, len(s)+2), s), kind: Text}
}

func quote(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			dst, _ = jsontext.AppendQuote(dst, s) // its error is about invalid UTF-8, which it has replaced
			return dst
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"')
}

// NewObject makes an empty object.
func NewObject() *Value { return &Value{kind: Object, inner: &inner{}, own: true} }

// NewList makes a list of the given elements, which it takes over.
func NewList(elements ...*Value) *Value {
	v := &Value{kind: List, inner: &inner{kids: make([]kid, 0, len(elements))}, own: true}
	v.Append(elements...)
	return v
}
