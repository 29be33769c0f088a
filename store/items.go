package store

import (
	"bytes"
	"encoding/json"
)

// Items are the counts of a stream step.
type Items struct {
	In      int64 `json:"in"`
	Out     int64 `json:"out"`
	Failed  int64 `json:"failed"`
	Dropped int64 `json:"dropped"`
	Skipped int64 `json:"skipped"` // done in an earlier run
}

// Items reads a stream step's counts from its outputs; nil for other steps, for those that have not completed, and for
// outputs that are kept in a blob.
func (s *Step) Items() *Items {
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
	return &Items{In: *out.In, Out: *out.Out, Failed: *out.Failed, Dropped: out.Dropped, Skipped: *out.Skipped}
}
