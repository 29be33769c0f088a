package resource

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/stepwell/stepwell/expr"
)

// TimeLayout is RFC 3339 in UTC with milliseconds.
const TimeLayout = "2006-01-02T15:04:05.000Z"

// Time is a moment in UTC, in JSON to the millisecond; null when it is zero.
type Time struct{ time.Time }

// Moment is the time, zero when there is none.
func (t *Time) Moment() time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}

// MarshalJSON writes the moment, or null.
func (t Time) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	return []byte(`"` + t.UTC().Format(TimeLayout) + `"`), nil
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
		return fmt.Errorf("%.40q is not a time: write it like 2026-01-31T09:00:00Z", text)
	}
	t.Time = at
	return nil
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

// Object is a JSON object whose numbers keep their kind: whole ones are int64, and fractions stay fractions.
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

// Detail is one of several things that are wrong, or that somebody may not have meant.
type Detail struct {
	File    string `json:"-"`
	Line    int    `json:"line,omitempty" doc:"Line in a document, from 1."`
	Column  int    `json:"column,omitempty" doc:"Column in a document, from 1."`
	Path    string `json:"location,omitempty" doc:"Where: body.params.url, query.limit, or the path in a pipeline."`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
	Warning bool   `json:"warning,omitempty" doc:"It does not stand in the way."`
	Code    string `json:"code,omitempty" doc:"Of a rule of lint, such as SW504 (docs/lint.md)."`
}

// At is a moment.
func At(t time.Time) Time { return Time{Time: t} }
