package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/stream/durable"
)

const (
	runsDir     = "runs"
	spoolSuffix = ".failures.ndjson"
)

// The statuses of a segment and of a whole run (stac-manager §9.1).
const (
	completed    = "completed"
	withFailures = "completed_with_failures"
	failed       = "failed"
)

// segmentResult is the result that a segment leaves for stream.report.
type segmentResult struct {
	Segment    string       `json:"segment"` // the first step
	Entry      string       `json:"entry,omitempty"`
	Collection string       `json:"collection,omitempty"`
	Iteration  string       `json:"iteration,omitempty"` // of a for_each: its key
	Attempt    int          `json:"attempt"`
	Status     string       `json:"status"`
	Error      string       `json:"error,omitempty"`
	Processed  int64        `json:"items_processed"`
	Failures   int64        `json:"failures"`
	Steps      []stepResult `json:"steps"`
	Spool      string       `json:"failures_file,omitempty"` // in the same directory as this file
	Started    time.Time    `json:"started_at"`
	Ended      time.Time    `json:"ended_at"`
}

// stepResult is the reported result of one step.
type stepResult struct {
	ID     string `json:"id"`
	Module string `json:"module"`
	action.Counts
	Partly   int64   `json:"items_not_checked,omitempty"` // as the module says
	Missing  int64   `json:"items_not_found,omitempty"`   // of a source, in a retry
	Duration float64 `json:"duration_seconds"`
}

func (s *segment) resultBase() string {
	return filepath.Join(s.runs, entryName(s.params.Entry)+"."+s.name)
}

// result writes the result file and gives the outputs of the steps, or the error.
func (s *segment) result(ctx context.Context, err error) (any, error) {
	if werr := s.writeResult(ctx, err); werr != nil {
		return nil, errors.Join(err, fmt.Errorf("result of the segment: %w", werr))
	}
	switch {
	case err == nil || s.inParts():
		return s.members(), err
	case s.graph == nil:
		return nil, err
	}
	return action.Members{Counts: s.tallies(), Footprints: s.hasFootprints()}, err
}

// tallies are the counts of all steps.
func (s *segment) tallies() map[string]action.Counts {
	out := make(map[string]action.Counts, len(s.graph.nodes))
	for _, n := range s.graph.nodes {
		out[n.step.ID] = n.result().Counts
	}
	return out
}

func (n *node) result() stepResult {
	if n.done != nil {
		return n.done.Result
	}
	t := n.tally()
	t.Total = 0
	partly, err := strconv.ParseInt(string(n.outputs["items_not_checked"]), 10, 64)
	if err != nil {
		partly = 0 // it says nothing about that
	}
	return stepResult{ID: n.step.ID, Module: n.module.Spec.Name, Counts: t, Partly: partly, Missing: n.missing, Duration: float64(n.took.Milliseconds()) / 1000}
}

// keepOutputs stores the module's own outputs: an object, or null.
func (n *node) keepOutputs(outputs any) error {
	if outputs == nil {
		return nil
	}
	raw, err := json.Marshal(outputs)
	if err != nil {
		return fmt.Errorf("outputs: %w", err)
	}
	if err := json.Unmarshal(raw, &n.outputs); err != nil {
		return &stepwell.Error{Code: stepwell.CodeInternal, Message: "outputs of " + n.module.Spec.Name + " are not an object"}
	}
	return nil
}

// commonOutputs are the outputs of every stream step, besides its module's own.
var commonOutputs = []spec.Field{
	{Name: "items_in", Type: spec.Integer, Doc: "How many items came to the step in this run."},
	{Name: "items_out", Type: spec.Integer, Doc: "How many continued from it."},
	{Name: "items_failed", Type: spec.Integer, Doc: "How many failed in it."},
	{Name: "items_dropped", Type: spec.Integer, Doc: "How many it dropped: by its condition, or as duplicates."},
	{Name: "items_skipped", Type: spec.Integer, Doc: "How many it skipped because an earlier run had done them."},
	{Name: "items_resumed", Type: spec.Integer, Doc: "How many had reached it before a crash or a failed attempt, after which the stream continued; absent when there was none."},
	{Name: "items_not_found", Type: spec.Integer, Doc: "Of a source, in a retry: how many items that failed before it no longer has."},
	{Name: "not_found", Type: spec.Array, Doc: "The first ten of those items, with their place in the source, the step where they failed and the reason."},
	{Name: "busy_seconds", Type: spec.Number, Doc: "For how much of that time it worked, without waiting for the steps around it; looked at five times a second. Of a module that works on several items at once, the mean of its workers."},
	{Name: "duration_seconds", Type: spec.Number, Doc: "How long it ran."},
}

// describe returns the step's outputs: its counts and the module's own outputs.
func (n *node) describe() map[string]any {
	if n.done != nil {
		return n.done.Outputs
	}
	r := n.result()
	out := map[string]any{"items_in": r.In, "items_out": r.Out, "items_failed": r.Failed, "items_dropped": r.Dropped, "items_skipped": r.Skipped, "busy_seconds": float64(r.Busy) / 1000, "duration_seconds": r.Duration}
	if n.root != nil {
		out["items_not_found"] = n.missing
	}
	if before := n.before(); before > 0 {
		out["items_resumed"] = before
	}
	if len(n.sample) > 0 {
		out["not_found"] = n.sample
	}
	for key, value := range n.outputs {
		out[key] = value
	}
	return out
}

// processed counts the items of this run that reached a step other than a source.
func (s *segment) processed() int64 {
	var total int64
	for _, r := range s.graph.roots {
		if r.ends != 0 || r.node.done != nil {
			total += r.node.result().Out
		}
	}
	return total
}

// writeResult writes what stream.report reads: the segment's result, and beside it the failures so far.
func (s *segment) writeResult(ctx context.Context, err error) error {
	r := segmentResult{Segment: s.params.Steps[0].ID, Entry: s.params.Entry, Attempt: s.call.Attempt, Status: completed, Collection: s.collection,
		Started: s.began.UTC(), Ended: time.Now().UTC()}
	if at := strings.LastIndexByte(s.call.StepKey, '.'); s.collection == "" && at > 0 && strings.Contains(s.call.StepKey, "[") {
		r.Iteration = s.call.StepKey[:at]
	}
	if s.spool != nil {
		r.Failures = s.spool.failures()
	}
	if s.graph != nil {
		r.Processed = s.processed()
		for _, n := range s.graph.nodes {
			r.Steps = append(r.Steps, n.result())
		}
	}
	switch {
	case err != nil:
		r.Status, r.Error = failed, cut(s.hide(err.Error()))
	case r.Failures > 0:
		r.Status = withFailures
	}
	if err := os.MkdirAll(s.runs, 0o755); err != nil {
		return err
	}
	base := s.resultBase()
	if r.Failures > 0 {
		r.Spool = filepath.Base(base) + spoolSuffix
		if s.keyed {
			if err := share(s.spool.path, base+spoolSuffix); err != nil {
				return err
			}
		}
	} else if err == nil && s.keyed { // of an attempt before
		if err := remove(base + spoolSuffix); err != nil {
			return err
		}
	}
	werr := durable.WriteFile(base+".json", func(w *os.File) error {
		return json.NewEncoder(w).Encode(&r)
	})
	if werr = errors.Join(werr, remove(base+liveSuffix)); werr != nil {
		return werr
	}
	return s.tellAll(ctx, err)
}

// share links a file under a second name, replacing any file there; it copies where links do not work.
func share(from, to string) error {
	if err := remove(to); err != nil {
		return err
	}
	if os.Link(from, to) == nil {
		return nil
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	return durable.WriteFile(to, func(w *os.File) error {
		_, err := io.Copy(w, in)
		return err
	})
}
