package store

import (
	"bytes"
	"encoding/json"

	"github.com/stepwell/stepwell/engine"
)

// Items are a stream step's counts, from its outputs if these have them; nil for other steps and before the end.
func (s *Step) Items() *engine.Items {
	if s.Counted != nil {
		return s.Counted
	}
	if !bytes.Contains(s.Output, []byte(`"items_skipped":`)) {
		return nil
	}
	var out struct {
		In       *int64   `json:"items_in"`
		Out      *int64   `json:"items_out"`
		Failed   *int64   `json:"items_failed"`
		Dropped  int64    `json:"items_dropped"` // since 2026-11-22
		Skipped  *int64   `json:"items_skipped"`
		Duration *float64 `json:"duration_seconds"`
	}
	if json.Unmarshal(s.Output, &out) != nil || out.In == nil || out.Out == nil || out.Failed == nil || out.Skipped == nil || out.Duration == nil {
		return nil // an action's outputs
	}
	return &engine.Items{In: *out.In, Out: *out.Out, Failed: *out.Failed, Dropped: out.Dropped, Skipped: *out.Skipped}
}
