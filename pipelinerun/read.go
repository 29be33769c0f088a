package pipelinerun

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

const (
	completed  = stepwell.StepCompleted
	cancelling = stepwell.ExecutionCancelling
)

func missing(err error) bool { return stepwell.CodeOf(err) == stepwell.CodeNotFound }

// Limits of one answer.
const (
	maxResults = 8 << 20 // bytes of the results of one run
	maxSeen    = 20      // pages that one page of a list may look at
)

// Filter selects runs. Zero fields select all.
type Filter struct {
	Lesson  string `query:"lesson_id" maxLength:"200" doc:"Runs for the lesson."`
	Project string `query:"project_id" maxLength:"200" doc:"Runs for lessons of the project."`
	Version string `query:"pipeline_version_id" maxLength:"300" doc:"Runs of the version: the pipeline's id, a colon and the number."`
	Status  string `query:"status" enum:"queued,running,paused,done,failed"`
}

// find is the execution of a run.
func (r *Runs) find(ctx context.Context, id string) (*store.Execution, error) {
	x, err := r.o.Store.Execution(ctx, strings.ToLower(id))
	if err == nil && x.Lesson == "" {
		err = stepwell.Errorf(stepwell.CodeNotFound, "GET /api/v1/executions/"+x.ID+" shows it", "the execution %s is not a pipeline run: it has no lesson", x.ID)
	}
	return x, err
}

// Get is a run with the results and errors of its steps; CodeNotFound.
func (r *Runs) Get(ctx context.Context, id string) (*Run, error) {
	x, err := r.find(ctx, id)
	if err != nil {
		return nil, err
	}
	rows, err := r.rows(ctx, x)
	if err != nil {
		return nil, err
	}
	from, err := r.reused(ctx, x)
	if err != nil {
		return nil, err
	}
	steps, size := make([]Step, len(rows)), 0
	for i := range rows {
		s := stepOf(x, &rows[i])
		s.Reused = from.of(x, &rows[i])
		s.Result, s.Error = new(json.RawMessage), new(RunError)
		if f := rows[i].Error; f != nil && s.Status == Failed {
			*s.Error = RunError{string(f.Code), r.o.Redact.Text(x.ID, f.Message), r.o.Redact.Text(x.ID, f.Hint)}
		}
		if size < maxResults && rows[i].Status == completed {
			if *s.Result, err = r.result(ctx, x.ID, rows[i].Output); err != nil {
				return nil, err
			}
			size += len(*s.Result)
		}
		steps[i] = s
	}
	out, err := r.run(ctx, x, steps)
	if err == nil && x.Status == stepwell.ExecutionPaused {
		out.State.StopRequested, err = r.stopped(ctx, x)
	}
	return &out, err
}

// result is what a step gave: outputs.result, else its outputs.
func (r *Runs) result(ctx context.Context, run string, raw []byte) (json.RawMessage, error) {
	if engine.IsRef(raw) {
		if size, ok := store.RefSize(string(raw)); ok && size > maxResults {
			return json.Marshal(map[string]any{"_truncated": true, "_bytes": size, "_ref": string(raw)})
		}
		var err error
		if raw, err = r.o.Blobs.Load(ctx, string(raw)); err != nil {
			return nil, err
		}
	}
	var outputs map[string]json.RawMessage
	if json.Unmarshal(raw, &outputs) == nil && outputs["result"] != nil {
		raw = outputs["result"]
	}
	return r.o.Redact.JSON(run, raw), nil
}

// stopped reports whether a paused run was stopped: a step of it was reset after the pause.
func (r *Runs) stopped(ctx context.Context, x *store.Execution) (bool, error) {
	events, err := r.o.Store.Events(ctx, x.No, max(0, x.Version-4), 100)
	reset := false
	for i := range events {
		switch events[i].Type {
		case engine.Restart.HistoryType():
			reset = true
		case engine.Resume.HistoryType():
			reset = false
		}
	}
	return reset, err
}

// List lists runs without results and errors, newest first, from before the run with the id; next is the id to go on before, "" on
// the last page.
func (r *Runs) List(ctx context.Context, f Filter, before string, limit int) (list []Run, next string, err error) {
	q := store.Filter{Lesson: f.Lesson, Project: f.Project, Before: before, Limit: limit + 1}
	if f.Version != "" {
		if q.Workflow, q.WorkflowVersion, err = ParseVersion(f.Version); err != nil {
			return nil, "", err
		}
	}
	if f.Status != "" {
		q.Statuses = selected(f.Status)
	}
	list = []Run{}
	for range maxSeen { // queued and running are one status of executions
		rows, err := r.page(ctx, q)
		if err != nil {
			return nil, "", err
		}
		more := len(rows) > limit
		found, err := r.shown(ctx, rows[:min(len(rows), limit)])
		if err != nil {
			return nil, "", err
		}
		for i := range found {
			if found[i].Lesson.ID != "" && (f.Status == "" || found[i].Status == f.Status) {
				list = append(list, found[i])
			}
			if len(list) == limit && (more || i < len(found)-1) {
				return list, found[i].ID, nil
			}
		}
		if !more {
			return list, "", nil
		}
		q.Before = found[len(found)-1].ID
	}
	return list, q.Before, nil
}

// page lists executions. The one that the page begins before may be deleted by now: its id still has its creation time.
func (r *Runs) page(ctx context.Context, q store.Filter) ([]store.Execution, error) {
	rows, err := r.o.Store.Executions(ctx, q)
	if q.Before == "" || !missing(err) {
		return rows, err
	}
	id, perr := uuid.Parse(q.Before)
	if perr != nil || id.Version() != 7 {
		return nil, stepwell.Invalid("use next_cursor of the previous page unchanged", "the cursor is not one of this list")
	}
	q.Before, q.To = "", time.Unix(id.Time().UnixTime())
	return r.o.Store.Executions(ctx, q)
}

// Queue lists the runs that are queued or running, oldest first, without results and errors, from after the run with the id; next is
// the id to go on after, "" on the last page.
func (r *Runs) Queue(ctx context.Context, after string, limit int) (list []Run, next string, err error) {
	rows, err := r.o.Store.UnfinishedRuns(ctx, after, limit+1)
	if err != nil {
		return nil, "", err
	}
	if len(rows) > limit {
		rows, next = rows[:limit], rows[limit-1].ID
	}
	list, err = r.shown(ctx, rows)
	return list, next, err
}
