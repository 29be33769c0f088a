package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sort"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/secret"
	"github.com/stepwell/stepwell/store"
)

// maxFailures is how many failed steps a summary shows.
const maxFailures = 10

// result is the last line of `run -o json`.
type result struct {
	Type      string                   `json:"type"`
	Execution string                   `json:"execution_id"`
	Pipeline  string                   `json:"pipeline"`
	Status    stepwell.ExecutionStatus `json:"status"`
	Outputs   json.RawMessage          `json:"outputs"`
	Error     *engine.Failure          `json:"error"`
	Progress  engine.Progress          `json:"progress"`
	Duration  int64                    `json:"duration_ms"`
	Items     map[string]*engine.Items `json:"items,omitempty"` // of stream steps, by their keys
}

// maxCounted is for how many stream steps a result has counts.
const maxCounted = 1000

// terminal are the statuses of steps that have ended.
var terminal = []stepwell.StepStatus{stepwell.StepCompleted, stepwell.StepFailed, stepwell.StepSkipped, stepwell.StepCancelled, stepwell.StepTimedOut}

// takeItems adds the counts of stream steps.
func (r *result) takeItems(ctx context.Context, from stepReader, x *store.Execution) error {
	for step, err := range allSteps(ctx, from, x.No, store.StepFilter{Statuses: terminal}) {
		if err != nil {
			return err
		}
		counts := step.Items()
		if counts == nil {
			continue
		}
		if r.Items == nil {
			r.Items = map[string]*engine.Items{}
		}
		if r.Items[step.Key] = counts; len(r.Items) == maxCounted {
			return nil
		}
	}
	return nil
}

// summary says how the execution ended: status, outputs, what failed and what to do about it.
func (s *session) summary(ctx context.Context, x *store.Execution) error {
	if s.tracker.no == x.No && !x.Status.Terminal() {
		x.Progress = s.tracker.progress
	}
	if s.output == "json" {
		r := result{Type: "result", Execution: x.ID, Pipeline: x.Pipeline, Status: x.Status, Outputs: secret.Mask(x.Outputs), Error: x.Failure,
			Progress: x.Progress, Duration: elapsed(x).Milliseconds()}
		if len(r.Outputs) == 0 {
			r.Outputs = json.RawMessage("null")
		}
		if err := r.takeItems(ctx, s.app.Store, x); err != nil {
			return err
		}
		return lineEncoder(s.program.out).Encode(r)
	}
	w := s.program.out
	fmt.Fprintln(w)
	if err := writeFailures(ctx, w, s.app.Store, x); err != nil {
		return err
	}
	fmt.Fprintf(w, "%s: %s in %s, %s\n", printable(x.Pipeline), plainStatus(x.Status), short(elapsed(x)), tally(x.Progress))
	if f := x.Failure; f != nil && x.Status != stepwell.ExecutionCompletedWithFailures {
		writeFailure(w, "  ", "because", f)
	}
	writeOutputs(w, x.Outputs)
	if err := s.writeReport(ctx, w, x); err != nil {
		return err
	}
	switch {
	case x.Status == stepwell.ExecutionCompletedWithFailures && s.reportKey != "" && x.Progress.Failed == 0:
		fmt.Fprintf(w, "again, for the items that failed:  stepwell executions retry %s\n", x.ID)
	case x.Status.Terminal() && x.Status != stepwell.ExecutionCompleted:
		fmt.Fprintf(w, "again, keeping what completed:  stepwell executions retry %s\n", x.ID)
		fmt.Fprintf(w, "what happened:                  stepwell executions show %s\n", x.ID)
	}
	return nil
}

// writeReport shows what the report on items says, if the execution has come to it.
func (s *session) writeReport(ctx context.Context, w io.Writer, x *store.Execution) error {
	if s.reportKey == "" || !x.Status.Terminal() {
		return nil
	}
	raw, err := s.app.Store.Output(ctx, x.No, s.reportKey)
	if stepwell.CodeOf(err) == stepwell.CodeNotFound {
		return nil // it has failed, which is told like any failure
	}
	if err != nil {
		return err
	}
	var report struct {
		Summary string `json:"summary"`
	}
	if err := json.Unmarshal(raw, &report); err != nil {
		return fmt.Errorf("report on items: %w", err)
	}
	for line := range strings.Lines(report.Summary) {
		if strings.HasPrefix(line, x.Pipeline+": ") {
			continue // it has been said
		}
		fmt.Fprintln(w, printable(strings.TrimRight(line, "\n")))
	}
	return nil
}

func plainStatus(s stepwell.ExecutionStatus) string {
	if !s.Terminal() {
		return "unfinished (" + s.String() + ")"
	}
	return strings.ReplaceAll(s.String(), "_", " ")
}

func elapsed(x *store.Execution) time.Duration {
	switch {
	case x.Started.IsZero():
		return 0
	case x.Ended.IsZero():
		return max(0, time.Since(x.Started))
	}
	return max(0, x.Ended.Sub(x.Started))
}

// tally is the counts of a progress that are not zero.
func tally(p engine.Progress) string {
	parts := []string{fmt.Sprintf("%d of %d steps completed", p.Completed, p.Total)}
	for _, part := range []struct {
		n    int
		what string
	}{{p.Failed, "failed"}, {p.Skipped, "skipped"}, {p.Cancelled, "cancelled"}} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.what))
		}
	}
	return strings.Join(parts, ", ")
}

// stepReader is what summaries read of a store.
type stepReader interface {
	Steps(ctx context.Context, execution int64, f store.StepFilter) ([]store.Step, error)
}

func writeFailures(ctx context.Context, w io.Writer, r stepReader, x *store.Execution) error {
	failed, err := r.Steps(ctx, x.No, store.StepFilter{Statuses: []stepwell.StepStatus{stepwell.StepFailed, stepwell.StepTimedOut}, Limit: maxFailures + 1})
	if err != nil {
		return err
	}
	for i := range failed {
		if i == maxFailures {
			fmt.Fprintf(w, "… and more; all of them: stepwell executions show %s --status failed\n", x.ID)
			break
		}
		step := &failed[i]
		f := step.Error
		if f == nil {
			f = &engine.Failure{Message: step.Status.String()}
		}
		writeFailure(w, "✘ ", step.Key, f)
	}
	return nil
}

func writeFailure(w io.Writer, indent, what string, f *engine.Failure) {
	lines := strings.Split(strings.TrimSpace(printable(f.Message)), "\n")
	const most = 12
	if len(lines) > most {
		lines = append(lines[:most], "…")
	}
	fmt.Fprintf(w, "%s%s: %s\n", indent, printable(what), strings.Join(lines, "\n    "))
	if f.Hint != "" {
		fmt.Fprintf(w, "    hint: %s\n", printable(f.Hint))
	}
}

// writeOutputs shows outputs for people: one line for each, and large values cut.
func writeOutputs(w io.Writer, raw json.RawMessage) {
	raw = secret.Mask(raw)
	var outputs map[string]json.RawMessage
	if len(raw) == 0 || json.Unmarshal(raw, &outputs) != nil || len(outputs) == 0 {
		return
	}
	names := make([]string, 0, len(outputs))
	width := 0
	for name := range outputs {
		names = append(names, name)
		width = max(width, len(name))
	}
	sort.Strings(names)
	fmt.Fprintln(w, "outputs:")
	for _, name := range names {
		fmt.Fprintf(w, "  %-*s  %s\n", width, printable(name), valueText(outputs[name]))
	}
}

// valueText is a value for people: a text without quotes, anything else as JSON.
func valueText(raw json.RawMessage) string {
	const longest = 500
	var text string
	if json.Unmarshal(raw, &text) == nil && string(raw) != "null" {
		return oneLine(text, longest)
	}
	return oneLine(string(raw), longest)
}
