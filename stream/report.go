package stream

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/stream/durable"
)

// keepRuns is how long the results of an execution are kept.
const keepRuns = 30 * 24 * time.Hour

// ReportAction writes the report on failed items at the end of an execution with streams.
const ReportAction = "stream.report"

// reportSpec describes stream.report.
func reportSpec() spec.Spec {
	return spec.Spec{
		Name: ReportAction, Internal: true, Summary: "Writes what has become of the items of an execution: failures.json and a summary.",
		Doc:    "Pipelines with stream steps end with it on their own; there is no need to write it down.",
		Params: spec.FieldsOf[reportParams](), Outputs: spec.FieldsOf[workflowResult](),
		Examples: []spec.Example{{Title: "At the end of a pipeline", YAML: "id: report\naction: stream.report\nparams:\n  failures: out/failures.json\n  summary: out/summary.json\n"}},
	}
}

// reporter is the action stream.report.
type reporter struct {
	*catalog
	now func() time.Time
}

// reportParams are the parameters of stream.report.
type reportParams struct {
	Failures string `json:"failures" doc:"Where the failed items are written, an empty list included; \x60failures.json\x60 when empty."`
	Always   bool   `json:"failures_always" doc:"Of older pipelines: the file is always written."`
	Summary  string `json:"summary" doc:"Where a summary is written; \x60summary.json\x60 beside the failures when empty."`
	Workflow string `json:"workflow" doc:"The pipeline's name."`
	Steps    int    `json:"steps" doc:"How many steps the pipeline has."`
}

// workflowResult is the outcome (stac-manager §9.1, WorkflowResult).
type workflowResult struct {
	Success  bool    `json:"success" doc:"No segment has failed; items may have."`
	Status   string  `json:"status" doc:"completed, completed_with_failures or failed."`
	Summary  string  `json:"summary" doc:"What happened, in a few lines."`
	Failures int64   `json:"failure_count" doc:"How many failures were recorded."`
	Path     string  `json:"failures_path,omitempty" doc:"The file with the failures."`
	Items    int64   `json:"total_items_processed" doc:"How many items came from the sources."`
	Partly   int64   `json:"items_not_fully_checked" doc:"Items of which a step says that it could not check all: a schema was missing, or the output is large or remote."`
	Duration float64 `json:"duration_seconds" doc:"From the first segment's begin to the last one's end."`
}

// summaryFile is the summary as it is written.
type summaryFile struct {
	Workflow   string `json:"workflow"`
	WorkflowID string `json:"workflow_id"`
	workflowResult
	TotalSteps int              `json:"total_steps"`
	Started    string           `json:"started_at"`
	Ended      string           `json:"ended_at"`
	Segments   []*segmentResult `json:"segments"`
}

// Run implements action.Handler.
func (r *reporter) Run(ctx context.Context, call *action.Call) (any, error) {
	var p reportParams
	if err := call.Bind(&p); err != nil {
		return nil, err
	}
	if p.Workflow == "" {
		p.Workflow = call.Pipeline
	}
	runs := filepath.Join(r.dir, fileName(p.Workflow), runsDir)
	folder := filepath.Join(runs, fileName(call.Execution))
	if err := r.fetchResults(ctx, folder); err != nil {
		return nil, err
	}
	results, err := readResults(folder)
	if err != nil {
		return nil, err
	}
	out, started, ended := conclude(results, r.now())
	sum := summaryFile{Workflow: p.Workflow, WorkflowID: call.Execution, TotalSteps: cmp.Or(p.Steps, stepsOf(results)), Segments: results,
		Started: started.UTC().Format(recordTime), Ended: ended.UTC().Format(recordTime)}
	out.Path, err = writeFile(call, "failure report", p.Failures, "failures.json", func(path string) error {
		return writeFailures(ctx, path, folder, &sum, results, out.Failures)
	})
	if err != nil {
		return nil, err
	}
	out.Summary = describeRun(&sum, &out)
	sum.workflowResult = out
	beside := filepath.Join(filepath.Dir(cmp.Or(p.Failures, ".")), "summary.json")
	if _, err := writeFile(call, "summary", p.Summary, beside, sum.write); err != nil {
		return nil, err
	}
	if err := r.sweep(ctx, runs); err != nil {
		call.Log("results of former executions are not removed: " + err.Error())
	}
	return out, nil
}

// writeFile writes a file of the report at the given path, else at another, and returns the path. When the step may not
// write at the other path, the file is left out and the path is "".
func writeFile(call *action.Call, what, given, other string, write func(path string) error) (string, error) {
	path := (&Env{Dir: call.Dir}).Path(cmp.Or(given, other))
	if err := call.May(path); err != nil && given == "" {
		call.Log("the report is not written: " + err.Error())
		return "", nil
	} else if err != nil {
		return "", err
	}
	if err := write(path); err != nil {
		return "", fmt.Errorf("%s: %w", what, err)
	}
	return path, nil
}

func (s *summaryFile) write(path string) error {
	return durable.WriteFile(path, func(w *os.File) error {
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		return enc.Encode(s)
	})
}

// readResults reads the results of the segments, by name.
func readResults(folder string) ([]*segmentResult, error) {
	entries, err := os.ReadDir(folder)
	if unlessAbsent(err) != nil {
		return nil, fmt.Errorf("results of the segments: %w", err)
	}
	var results []*segmentResult
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".json") || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err != nil {
			return nil, err
		}
		r := new(segmentResult)
		if err := json.Unmarshal(raw, r); err != nil {
			return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: "result " + e.Name(), Err: err}
		}
		results = append(results, r)
	}
	return results, nil
}

// conclude sums up the results, and returns when the first segment began and the last one ended: now, if there is none.
func conclude(results []*segmentResult, now time.Time) (out workflowResult, first, last time.Time) {
	out, first, last = workflowResult{Success: true, Status: completed}, now, now
	for i, r := range results {
		out.Items += r.Processed
		out.Failures += r.Failures
		var partly int64 // the items are the same ones in all steps
		for _, s := range r.Steps {
			partly = max(partly, s.Partly)
		}
		out.Partly += partly
		out.Success = out.Success && r.Status != failed
		if i == 0 || r.Started.Before(first) {
			first = r.Started
		}
		if i == 0 || r.Ended.After(last) {
			last = r.Ended
		}
	}
	out.Duration = float64(last.Sub(first).Milliseconds()) / 1000
	switch {
	case !out.Success:
		out.Status = failed
	case out.Failures > 0:
		out.Status = withFailures
	}
	return out, first, last
}

func stepsOf(results []*segmentResult) int {
	n := 0
	for _, r := range results {
		n += len(r.Steps)
	}
	return n
}

// describeRun is the summary as a text.
func describeRun(sum *summaryFile, out *workflowResult) string {
	var b strings.Builder
	broken := 0
	for _, s := range sum.Segments {
		if s.Status == failed {
			broken++
		}
	}
	fmt.Fprintf(&b, "%s: %s\n", sum.Workflow, strings.ReplaceAll(out.Status, "_", " "))
	fmt.Fprintf(&b, "%s in %.1f s", counted(out.Items, "item"), out.Duration)
	if out.Failures > 0 {
		b.WriteString(", " + counted(out.Failures, "failure"))
	}
	if broken > 0 {
		fmt.Fprintf(&b, ", %d of %s failed", broken, counted(int64(len(sum.Segments)), "stream"))
	}
	if out.Partly > 0 {
		fmt.Fprintf(&b, ", %d of %s not fully checked", out.Partly, counted(out.Items, "item"))
	}
	b.WriteByte('\n')
	lines := 0
	for _, s := range sum.Segments {
		for _, st := range s.Steps {
			if lines++; lines <= 20 {
				b.WriteString("  " + prefix(s) + st.ID + ": " + st.text() + "\n")
			}
		}
	}
	if lines > 20 {
		fmt.Fprintf(&b, "  and %d more steps\n", lines-20)
	}
	if out.Failures > 0 {
		fmt.Fprintf(&b, "failures: %s\n", out.Path)
	}
	return b.String()
}

// text formats a step's counts, without zeros.
func (r *stepResult) text() string {
	text := counted(max(r.In, r.Out), "item")
	if r.In > 0 && r.Out != r.In {
		text += fmt.Sprintf(", %d passed on", r.Out)
	}
	if r.Failed > 0 {
		text += fmt.Sprintf(", %d failed", r.Failed)
	}
	if r.Dropped > 0 {
		text += fmt.Sprintf(", %d dropped", r.Dropped)
	}
	if r.Missing > 0 {
		text += fmt.Sprintf(", %d not found again", r.Missing)
	}
	if r.Skipped > 0 {
		text += fmt.Sprintf(", %d done before", r.Skipped)
	}
	return text
}

// counted returns a number with its noun: "1 item", "2 items".
func counted(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func prefix(s *segmentResult) string {
	var parts []string
	for _, p := range []string{s.Entry, s.Collection, s.Iteration} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return strings.Join(parts, "/") + " "
}

// sweep removes the results of old executions.
func (r *reporter) sweep(ctx context.Context, all string) error {
	entries, err := os.ReadDir(all)
	prefix := r.sharedName(all) + "/"
	err = errors.Join(unlessAbsent(err), r.sweepShared(ctx, prefix, r.now().Add(-keepRuns), func(name string) string {
		execution, _, _ := strings.Cut(strings.TrimPrefix(name, prefix), "/")
		return prefix + execution
	}, ""))
	for _, e := range entries {
		info, ierr := e.Info()
		if ierr != nil || !e.IsDir() || r.now().Sub(info.ModTime()) < keepRuns {
			continue
		}
		err = errors.Join(err, os.RemoveAll(filepath.Join(all, e.Name())))
	}
	return err
}
