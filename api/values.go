package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/stepwell/stepwell/expr"
)

// timeLayout is RFC 3339 in UTC with milliseconds.
const timeLayout = "2006-01-02T15:04:05.000Z"

// Time is a moment in UTC, to the millisecond; null when it is zero.
type Time struct{ time.Time }

// MarshalJSON writes the moment, or null.
func (t Time) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	return []byte(`"` + t.UTC().Format(timeLayout) + `"`), nil
}

// UnmarshalJSON reads RFC 3339, or null.
func (t *Time) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*t = Time{}
		return nil
	}
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return err
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return fmt.Errorf("%.40q is no time: write it like 2026-01-31T09:00:00Z", text)
	}
	t.Time = at
	return nil
}

// Schema is for the description.
func (Time) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: "string", Format: "date-time", Nullable: true}
}

// micro is a moment in microseconds since 1970, 0 for none.
func micro(us int64) Time {
	if us == 0 {
		return Time{}
	}
	return Time{time.UnixMicro(us)}
}

// Ref names something that may be missing; null when it is "".
type Ref string

// MarshalJSON writes the name, or null.
func (r Ref) MarshalJSON() ([]byte, error) {
	if r == "" {
		return []byte("null"), nil
	}
	return json.Marshal(string(r))
}

// UnmarshalJSON reads a string, or null.
func (r *Ref) UnmarshalJSON(b []byte) error {
	*r = ""
	if string(b) == "null" {
		return nil
	}
	return json.Unmarshal(b, (*string)(r))
}

// Schema is for the description.
func (Ref) Schema(huma.Registry) *huma.Schema { return &huma.Schema{Type: "string", Nullable: true} }

// Money is an amount in millionths of a unit. It is written as a decimal in a string, such as "0.0125", so that nobody
// rounds it.
type Money int64

// MarshalText writes the decimal, without zeros at its end.
func (m Money) MarshalText() ([]byte, error) {
	sign, n := "", uint64(m)
	if m < 0 {
		sign, n = "-", -n
	}
	text := fmt.Sprintf("%s%d.%06d", sign, n/1e6, n%1e6)
	return []byte(strings.TrimSuffix(strings.TrimRight(text, "0"), ".")), nil
}

// UnmarshalText reads what MarshalText writes.
func (m *Money) UnmarshalText(text []byte) error {
	whole, part, _ := strings.Cut(string(text), ".")
	n, err := strconv.ParseInt(whole+(part + "000000")[:6], 10, 64)
	if err != nil || len(part) > 6 || whole == "" {
		return fmt.Errorf("%.40q is no amount: write it like 0.0125", text)
	}
	*m = Money(n)
	return nil
}

// Schema is for the description.
func (Money) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: "string", Pattern: `^-?[0-9]+(\.[0-9]{1,6})?$`, Examples: []any{"0.0125"}}
}

// Object is a JSON object whose numbers keep their kind: whole ones are int64.
type Object map[string]any

// UnmarshalJSON reads an object, or null.
func (o *Object) UnmarshalJSON(b []byte) error {
	*o = nil
	if string(bytes.TrimSpace(b)) == "null" {
		return nil
	}
	v, err := expr.Decode(b)
	if err != nil {
		return err
	}
	m, ok := v.(map[string]any)
	if !ok {
		return fmt.Errorf("an object is needed")
	}
	*o = m
	return nil
}

// MarshalJSON writes the object; {} when it is nil.
func (o Object) MarshalJSON() ([]byte, error) {
	if o == nil {
		return []byte("{}"), nil
	}
	return expr.Marshal(map[string]any(o))
}

// Schema is for the description.
func (Object) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: "object", AdditionalProperties: true, Examples: []any{map[string]any{"message": "Hello"}}}
}
