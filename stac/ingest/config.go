package ingest

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/stream"
)

// filters are the conditions in the older vocabulary.
type filters struct {
	Temporal *temporal      `json:"temporal" doc:"The same as datetime, as start and end."`
	Spatial  []float64      `json:"spatial" doc:"The same as bbox."`
	Bbox     []float64      `json:"bbox" doc:"The same as bbox beside filters."`
	Datetime any            `json:"datetime" doc:"Time: an instant, a year, month or day, an interval a/b with .. for an open end, [a, b], or {start, end}."`
	Query    map[string]any `json:"query" doc:"Query extension."`
	IDs      []any          `json:"ids" doc:"Ids of items."`
}

type temporal struct {
	Start string `json:"start" doc:"First moment, open when absent."`
	End   string `json:"end" doc:"Last moment, open when absent."`
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
			m, _ := at.(map[string]any) // other values have no members
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

// texts makes texts of user-written ids: numbers are ids too.
func texts(list []any) []string {
	out := make([]string, 0, len(list))
	for _, v := range list {
		switch v := v.(type) {
		case string:
			out = append(out, v)
		case int64, float64, int:
			if raw, err := json.Marshal(v); err == nil {
				out = append(out, string(raw))
			}
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
