package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/api/client"
	"github.com/stepwell/stepwell/view"
)

// maxFailures is how many errors a summary shows.
const maxFailures = 10

// result is the last line of `run -o json`.
type result struct {
	Type      string                `json:"type"`
	Execution string                `json:"execution_id"`
	Pipeline  string                `json:"pipeline"`
	Status    string                `json:"status"`
	Outputs   json.RawMessage       `json:"outputs"`
	Error     *api.Failure          `json:"error"`
	Progress  api.Progress          `json:"progress"`
	Duration  int64                 `json:"duration_ms"`
	Items     map[string]*api.Items `json:"items,omitempty"` // of stream steps, by their keys
}

// maxCounted is for how many stream steps a result has counts.
const maxCounted = 1000

// terminal are the statuses of steps that have ended.
var terminal = []string{"completed", "failed", "skipped", "cancelled", "timed_out"}

// addItems adds the counts of stream steps.
func (r *result) addItems(ctx context.Context, client *client.Client) error {
	steps, err := allSteps(ctx, client, api.ListSteps{ExecutionPath: api.ExecutionPath{ID: r.Execution}, Status: terminal, Limit: 1000})
	for i := range steps {
		if counts := steps[i].Items; counts != nil && len(r.Items) < maxCounted {
			if r.Items == nil {
				r.Items = map[string]*api.Items{}
			}
			r.Items[steps[i].ID] = counts
		}
	}
	return err
}

// summary says how the execution ended: status, outputs, what failed and what to do about it.
func (s *session) summary(ctx context.Context, x *api.ExecutionDetail) error {
	if p, shown := s.tracker.Counts(x.ID); shown && !over(x) {
		x.Progress = api.ProgressOf(p)
	}
	took := time.Duration(0)
	if x.DurationMS != nil {
		took = time.Duration(*x.DurationMS) * time.Millisecond
	}
	if s.output == "json" {
		r := result{Type: "result", Execution: x.ID, Pipeline: x.Pipeline, Status: x.Status, Outputs: x.Result, Error: x.Error,
			Progress: x.Progress, Duration: took.Milliseconds()}
		if len(r.Outputs) == 0 {
			r.Outputs = json.RawMessage("null")
		}
		if s.reportKey != "" {
			if err := r.addItems(ctx, s.client); err != nil {
				return err
			}
		}
		return view.NewEncoder(s.program.out).Encode(r)
	}
	w := s.program.out
	fmt.Fprintln(w)
	told, err := s.writeFailures(ctx, w, x)
	if err != nil {
		return err
	}
	view.WriteEnd(w, x, took, told)
	if err := s.writeReport(ctx, w, x); err != nil {
		return err
	}
	switch {
	case s.program.settings.memory:
	case x.Status == stepwell.ExecutionCompletedWithFailures.String() && s.reportKey != "" && x.Progress.Failed == 0:
		fmt.Fprintf(w, "again, for the items that failed:  stepwell executions retry %s%s\n", x.ID, s.where)
	case over(x) && x.Status != stepwell.ExecutionCompleted.String():
		fmt.Fprintf(w, "again, keeping what completed:  stepwell executions retry %s%s\n", x.ID, s.where)
		fmt.Fprintf(w, "what happened:                  stepwell executions show %s%s\n", x.ID, s.where)
	}
	return nil
}

// writeReport shows what the report on items says, if the execution has come to it.
func (s *session) writeReport(ctx context.Context, w io.Writer, x *api.ExecutionDetail) error {
	if s.reportKey == "" || !over(x) {
		return nil
	}
	var report struct {
		Summary string `json:"summary"`
	}
	if err := s.outputs(ctx, x.ID, s.reportKey, &report); stepwell.CodeOf(err) == stepwell.CodeNotFound {
		return nil // it has failed, which is told like any failure
	} else if err != nil {
		return fmt.Errorf("report on items: %w", err)
	}
	for line := range strings.Lines(report.Summary) {
		if strings.HasPrefix(line, x.Pipeline+": ") {
			continue // it has been said
		}
		fmt.Fprintln(w, view.Printable(strings.TrimRight(line, "\n")))
	}
	return nil
}

// writeFailures shows what failed, each error once, and reports which errors it has shown.
func (s *session) writeFailures(ctx context.Context, w io.Writer, x *api.ExecutionDetail) (told func(message string) bool, err error) {
	if x.Status == stepwell.ExecutionCompleted.String() && x.Progress.Failed == 0 {
		return func(string) bool { return false }, nil // listing steps reads the definition, which may be large
	}
	failed, err := s.client.Steps(ctx, api.ListSteps{ExecutionPath: api.ExecutionPath{ID: x.ID}, Status: []string{"failed", "timed_out"}, Limit: 1000})
	if err != nil {
		return nil, err
	}
	told, more := view.WriteFailures(w, failed.Steps, maxFailures)
	if (more || failed.Next != "") && !s.program.settings.memory {
		fmt.Fprintf(w, "… and more; all of them: stepwell executions show %s --status failed%s\n", x.ID, s.where)
	}
	return told, nil
}
