package ingest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/stream"
)

// wait is a duration as configs have it.
type wait time.Duration

// UnmarshalJSON implements json.Unmarshaler.
func (w *wait) UnmarshalJSON(raw []byte) error {
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return err
	}
	d, err := spec.ParseDuration(v)
	*w = wait(d)
	return err
}

// filters are the conditions of both vocabularies.
type filters struct {
	Temporal *temporal       `json:"temporal"`
	Spatial  []float64       `json:"spatial"`
	Bbox     []float64       `json:"bbox"`
	Datetime any             `json:"datetime"`
	Query    json.RawMessage `json:"query"`
	IDs      []any           `json:"ids"`
}

type temporal struct {
	Start string `json:"start"`
	End   string `json:"end"`
}

// either takes the one of several spellings that is given.
type either struct {
	config map[string]any
	wrong  []error
}

// names reports which of the paths ("bbox", "filters.bbox") are given.
func (e *either) given(paths ...string) (found []string) {
	for _, path := range paths {
		at := any(e.config)
		for name := range strings.SplitSeq(path, ".") {
			m, _ := at.(map[string]any) // what is no object has no members
			at = m[name]
		}
		if at != nil {
			found = append(found, path)
		}
	}
	return found
}

func (e *either) one(paths ...string) {
	if found := e.given(paths...); len(found) > 1 {
		e.wrong = append(e.wrong, wrongConfig(fmt.Sprintf("%s are both given", strings.Join(found, " and ")), "they mean the same: keep one"))
	}
}

// wrongConfig is an error that keeps a segment from beginning.
func wrongConfig(message, hint string) error {
	return &stream.Error{Type: stream.ConfigurationError, Err: &stepwell.Error{Code: stepwell.CodeInvalid, Message: message, Hint: hint}}
}

// configured makes any error one of the configuration.
func configured(err error) error {
	if err == nil {
		return nil
	}
	return &stream.Error{Type: stream.ConfigurationError, Err: err}
}

// decode reads a config, which has been checked, into a struct.
func decode(config map[string]any, into any) error {
	raw, err := json.Marshal(config)
	if err == nil {
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.UseNumber() // ids may be long numbers
		err = dec.Decode(into)
	}
	if err != nil {
		return configured(&stepwell.Error{Code: stepwell.CodeInvalid, Message: "config", Err: err})
	}
	return nil
}

// templated reports whether something in v is only known later.
func templated(v any) bool {
	switch v := v.(type) {
	case string:
		return strings.Contains(v, "{{") || strings.Contains(v, "{%")
	case []any:
		for _, e := range v {
			if templated(e) {
				return true
			}
		}
	case map[string]any:
		for _, e := range v {
			if templated(e) {
				return true
			}
		}
	}
	return false
}

// texts makes texts of what people write as ids: numbers are ids too.
func texts(list []any) []string {
	out := make([]string, 0, len(list))
	for _, v := range list {
		switch v := v.(type) {
		case string:
			out = append(out, v)
		case json.Number:
			out = append(out, v.String())
		}
	}
	return out
}

// isWeb reports whether a source is a URL.
func isWeb(source string) bool {
	return strings.HasPrefix(source, "https://") || strings.HasPrefix(source, "http://")
}

func collectionMember(env *stream.Env, name string) string {
	text, _ := env.Collection[name].(string) // absent is ""
	return text
}
