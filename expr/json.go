package expr

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/stepwell/stepwell/expr/jsonvalue"
)

// Decode reads one JSON value (RFC 8259): integers as int64, other numbers as float64. An
// integer beyond 64 bits is a float64 when that is exact, else a json.Number. The last of
// duplicate keys wins. Deeper than 256 levels is CodeBudget; anything else that is wrong is
// CodeValue with the line and column in raw.
func Decode(raw []byte) (any, error) { return decode(string(raw), nil) }

func decode(src string, b jsonvalue.Budget) (any, error) {
	v, err := jsonvalue.Decode(src, b)
	return v, decodeError(err, src)
}

// Check returns the error of Decode. It makes no value, and keeps nothing of src.
func Check(src string) error { return decodeError(jsonvalue.Check(src), src) }

func decodeError(err error, src string) error {
	e, ok := err.(*jsonvalue.Error)
	switch {
	case !ok:
		return err
	case e.Err != nil:
		err = e.Err
	case e.TooDeep:
		err = failf(CodeBudget, "%s", e.Message)
	default:
		err = failf(CodeValue, "%s", e.Message)
	}
	return located(err, src, e.Off)
}

// Pay implements jsonvalue.Budget.
func (st *state) Pay(elements, entries int) (err error) {
	defer recovered(nil, &err) // the place is in the JSON
	st.growList(elements)
	st.grow(entries * entrySize)
	return nil
}

// Marshal writes v as compact JSON: mapping keys sorted, floats with a point or an exponent so
// that Decode gives a float again, no HTML escapes. Raw and json.RawMessage are compacted, but keep
// their own key order; types outside the value model go through encoding/json. NaN, infinities
// and values nested deeper than 256 are errors.
func Marshal(v any) ([]byte, error) {
	raw, _, err := MarshalPlain(v)
	return raw, err
}

// MarshalPlain is Marshal that reports whether v is of the value model alone: then Decode reads the result.
func MarshalPlain(v any) (raw []byte, plain bool, err error) {
	w := jsonWriter{}
	defer recovered(nil, &err)
	w.value(v, 0)
	return w.out, !w.foreign, nil
}

// jsonText is Marshal within the budget, with an indent for each level or "".
func (st *state) jsonText(v any, indent string) string {
	w := jsonWriter{st: st, indent: indent}
	w.value(v, 0)
	return string(w.out)
}

type jsonWriter struct {
	st      *state // nil without a budget
	out     []byte
	paid    int
	indent  string
	foreign bool // something was not of the value model
}

// pay charges the bytes written since the last call, and the visit.
func (w *jsonWriter) pay(depth int) {
	if w.st == nil {
		if depth > jsonvalue.MaxDepth {
			panic(failf(CodeBudget, "a value nests deeper than %d levels", jsonvalue.MaxDepth))
		}
		return
	}
	w.st.deeper(depth)
	w.st.walk()
	n := len(w.out) - w.paid
	w.paid = len(w.out)
	if cap(w.out)-len(w.out) < 64 {
		w.out = slices.Grow(w.out, max(64, len(w.out)))
	}
	w.st.grow(3 * n) // twice in the growing buffer, once in the string made of it
}

func (w *jsonWriter) value(v any, depth int) {
	w.pay(depth)
	switch v := v.(type) {
	case nil:
		w.out = append(w.out, "null"...)
	case bool:
		w.out = strconv.AppendBool(w.out, v)
	case int64:
		w.out = strconv.AppendInt(w.out, v, 10)
	case int:
		w.out = strconv.AppendInt(w.out, int64(v), 10)
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			panic(failf(CodeValue, "%s has no form in JSON", jsonvalue.FloatText(v)))
		}
		w.out = append(w.out, jsonvalue.FloatText(v)...)
	case string:
		if w.st != nil {
			w.st.spend(len(v) / scanned)
		}
		w.out = jsonvalue.AppendQuoted(w.out, v)
	case []any:
		w.list(v, depth)
	case map[string]any:
		w.mapping(v, depth)
	case Vars:
		w.mapping(v, depth)
	default:
		w.other(v, depth)
	}
}

func (w *jsonWriter) newline(depth int) {
	if w.indent == "" {
		return
	}
	w.out = append(w.out, '\n')
	for range depth {
		w.out = append(w.out, w.indent...)
	}
}

func (w *jsonWriter) list(v []any, depth int) {
	w.out = append(w.out, '[')
	for i, item := range v {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		w.newline(depth + 1)
		w.value(item, depth+1)
	}
	if len(v) > 0 {
		w.newline(depth)
	}
	w.out = append(w.out, ']')
}

func (w *jsonWriter) mapping(v map[string]any, depth int) {
	w.out = append(w.out, '{')
	var few [8]string // on the stack
	keys := few[:0]
	for k := range v {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for i, k := range keys {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		w.newline(depth + 1)
		w.out = append(jsonvalue.AppendQuoted(w.out, k), ':')
		if w.indent != "" {
			w.out = append(w.out, ' ')
		}
		w.value(v[k], depth+1)
	}
	if len(v) > 0 {
		w.newline(depth)
	}
	w.out = append(w.out, '}')
}

// other writes a value outside the value model as it is.
func (w *jsonWriter) other(v any, depth int) {
	w.foreign = true
	switch v := v.(type) {
	case Raw:
		if w.st != nil {
			break // decoded below, so that the text is the same as for a decoded value
		}
		w.raw(v)
		return
	case *undefined:
		panic(v.err(w.st))
	}
	if w.st == nil {
		if _, ok := v.(Object); !ok {
			var b bytes.Buffer
			e := json.NewEncoder(&b)
			e.SetEscapeHTML(false)
			if err := e.Encode(v); err != nil {
				panic(failf(CodeType, "%T has no form in JSON: %v", v, err))
			}
			w.out = append(w.out, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...)
			return
		}
	}
	st := w.st
	if st == nil {
		st = &state{limits: Limits{}.withDefaults(), ops: math.MaxInt, bytes: math.MaxInt}
	}
	p, _, err := st.plain(v, depth)
	must(err)
	w.value(p, depth)
}

func (w *jsonWriter) raw(v Raw) {
	if len(v) == 0 {
		w.out = append(w.out, "null"...)
		return
	}
	b := bytes.NewBuffer(w.out)
	if err := json.Compact(b, v); err != nil {
		panic(failf(CodeValue, "a raw value is not JSON: %v", err))
	}
	w.out = b.Bytes()
}

// numberValue is a json.Number of a Scope as int64 or float64. A whole number beyond both stays as it is: it is
// passed on digit by digit, and calculated with as a float64.
func numberValue(n json.Number) (any, error) {
	text := string(n)
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return nil, failf(CodeValue, "the number %s is out of range", clip(text))
	}
	if strings.Trim(text, "-0123456789") != "" {
		return f, nil
	}
	return jsonvalue.Integer(text), nil
}
