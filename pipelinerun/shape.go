package pipelinerun

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/store"
)

// Run is a run.
type Run struct {
	ID      string        `json:"id" doc:"UUID; also that of the execution."`
	Status  string        `json:"status" enum:"queued,running,paused,done,failed"`
	State   State         `json:"state" doc:"Why it is in its status."`
	Lesson  LessonRef     `json:"lesson"`
	Version VersionRef    `json:"pipeline_version"`
	Steps   []Step        `json:"steps" nullable:"false" doc:"By position."`
	Created resource.Time `json:"created_at"`
	Updated resource.Time `json:"updated_at" doc:"When it ended, else when a step began or ended last."`
	Usage
}

// State says why a run is in its status. Fields without a value are missing.
type State struct {
	Reason        string `json:"reason,omitempty" doc:"How a failed run ended: failed, completed_with_failures, timed_out or cancelled; cancelling while it does." enum:"failed,completed_with_failures,timed_out,cancelled,cancelling"`
	Message       string `json:"message,omitempty"`
	StopRequested bool   `json:"stop_requested,omitempty" doc:"It was stopped: the step that was running starts over with start."`
	Held          string `json:"held,omitempty" doc:"Why it does not begin or continue, although it has not ended."`
}

// LessonRef names the lesson of a run.
type LessonRef struct {
	ID      string     `json:"id"`
	Name    string     `json:"name"`
	Project ProjectRef `json:"project"`
}

// ProjectRef names the project of a lesson.
type ProjectRef struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// VersionRef names the version of a pipeline that a run goes through.
type VersionRef struct {
	ID      string `json:"id" doc:"The pipeline's id, a colon and the number of the version."`
	Title   string `json:"title" doc:"The pipeline's name."`
	Version int    `json:"version"`
}

// Usage is the consumption of all attempts.
type Usage struct {
	InputTokens  int64   `json:"input_tokens"`
	OutputTokens int64   `json:"output_tokens"`
	AudioSeconds float64 `json:"audio_seconds"`
	Cost         Cost    `json:"cost" doc:"With four decimals."`
}

// Cost is money in millionths, in JSON a number with four decimals, rounded.
type Cost int64

// MarshalJSON writes the number.
func (c Cost) MarshalJSON() ([]byte, error) {
	n := (max(c, 0) + 50) / 100
	return fmt.Appendf(nil, "%d.%04d", n/10_000, n%10_000), nil
}

// UnmarshalJSON reads the number.
func (c *Cost) UnmarshalJSON(b []byte) error {
	var n float64
	err := json.Unmarshal(b, &n)
	*c = Cost(n*1e6 + 0.5)
	return err
}

// Step is a step of a run. Result and Error are those of one run alone: lists and the queue never have them.
type Step struct {
	ID       string        `json:"id" doc:"The run's id, a colon and the position."`
	Position int           `json:"position" doc:"From 1."`
	Status   string        `json:"status" enum:"pending,running,failed,done"`
	Key      string        `json:"step_id" doc:"Its id in the pipeline."`
	Name     string        `json:"name"`
	Type     string        `json:"type" doc:"Its action."`
	Started  resource.Time `json:"start_time"`
	Ended    resource.Time `json:"end_time"`
	Attempts int           `json:"attempts"`
	Usage
	Reused resource.Ref     `json:"reused_from" doc:"The run that gave its result, which was taken over; null: this one, or none. Lists and the queue leave it null."`
	Result *json.RawMessage `json:"result,omitempty" doc:"outputs.result, else the outputs; null while there are none."`
	Error  *RunError        `json:"error,omitempty" doc:"Why it failed; null if it did not."`
}

// RunError says why a step failed; the zero one is null.
type RunError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// MarshalJSON writes the object, or null.
func (e RunError) MarshalJSON() ([]byte, error) {
	if e == (RunError{}) {
		return []byte("null"), nil
	}
	type plain RunError
	return json.Marshal(plain(e))
}

// outline is what is shown of a definition.
type outline struct{ steps []definition.Step }

// outline finds that of an execution's snapshot.
func (r *Runs) outline(ctx context.Context, hash []byte) (*outline, error) {
	if o, ok := r.plans.get(string(hash)); ok {
		return o, nil
	}
	body, err := r.o.Store.Definition(ctx, hash)
	if err != nil {
		return nil, err
	}
	d, err := definition.Decode(body)
	if err != nil {
		return nil, err
	}
	o := &outline{d.Steps}
	r.plans.put(string(hash), o)
	return o, nil
}

// readers bounds the reads of the store for one list.
const readers = 4

// shown gives runs as lists show them, in the order of the rows.
func (r *Runs) shown(ctx context.Context, rows []store.Execution) ([]Run, error) {
	out := make([]Run, len(rows))
	var g errgroup.Group
	g.SetLimit(readers)
	for i := range rows {
		g.Go(func() (err error) {
			out[i], err = r.brief(ctx, &rows[i])
			return err
		})
	}
	return out, g.Wait()
}

// brief gives a run without results and errors.
func (r *Runs) brief(ctx context.Context, x *store.Execution) (Run, error) {
	key := fmt.Sprintf("%s@%d", x.ID, x.Version)
	steps, ok := r.steps.get(key)
	if !ok {
		rows, err := r.rows(ctx, x)
		if err != nil {
			return Run{}, err
		}
		steps = make([]Step, len(rows))
		for i := range rows {
			steps[i] = stepOf(x, &rows[i])
		}
		r.steps.put(key, steps)
	}
	return r.run(ctx, x, steps)
}

// rows are the steps of a run by position.
func (r *Runs) rows(ctx context.Context, x *store.Execution) ([]store.Step, error) {
	o, err := r.outline(ctx, x.Definition)
	if err != nil {
		return nil, err
	}
	rows, err := r.o.Store.Steps(ctx, x.No, store.StepFilter{Limit: len(o.steps)})
	if err != nil {
		return nil, err
	}
	for i := range rows { // a loop and a group have no action of their own
		if int(rows[i].Idx) >= len(o.steps) {
			return rows[:i], nil
		}
		d := &o.steps[rows[i].Idx]
		rows[i].Name, rows[i].Action = d.Name, d.Action
		if d.Name == "" {
			rows[i].Name = d.ID
		}
	}
	return rows, nil
}

// stepOf is the view of a step, without result and error.
func stepOf(x *store.Execution, s *store.Step) Step {
	return Step{ID: stepID(x.ID, int(s.Idx)+1), Position: int(s.Idx) + 1, Status: stepStatus(s), Key: s.Key, Name: s.Name, Type: s.Action,
		Started: micro(s.Started), Ended: micro(endOf(s)), Attempts: s.Attempt, Usage: usageOf(s.StepRow.Usage, s.Cost)}
}

// endOf is when a step ended, 0 for one that is yet to run.
func endOf(s *store.Step) int64 {
	if stepStatus(s) == Pending {
		return 0
	}
	return s.Ended
}

// UsageOf is a sum as runs show it.
func UsageOf(s stepwell.Spending) Usage { return usageOf(s.Usage, s.Cost) }

func usageOf(u stepwell.Usage, cost int64) Usage {
	return Usage{InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, AudioSeconds: float64(u.AudioMillis) / 1000, Cost: Cost(cost)}
}

func micro(at int64) resource.Time {
	if at == 0 {
		return resource.Time{}
	}
	return resource.At(time.UnixMicro(at))
}

// run is the view of an execution with its steps.
func (r *Runs) run(ctx context.Context, x *store.Execution, steps []Step) (Run, error) {
	out := Run{ID: x.ID, Steps: steps, Version: VersionRef{versionID(x.Workflow, x.WorkflowVersion), x.Pipeline, x.WorkflowVersion},
		Created: resource.At(x.Created), Updated: resource.At(x.Created), Usage: usageOf(x.Progress.Usage, x.Progress.Cost)}
	any := false
	for i := range steps {
		s := &steps[i]
		any = any || s.Attempts > 0 && !s.Started.IsZero() || s.Status != Pending
		for _, at := range []time.Time{s.Started.Time, s.Ended.Time} {
			if at.After(out.Updated.Time) {
				out.Updated.Time = at
			}
		}
	}
	if x.Ended.After(out.Updated.Time) {
		out.Updated = resource.At(x.Ended)
	}
	out.Status = runStatus(x.Status, any)
	out.State = r.state(x, out.Status)
	var err error
	out.Lesson, err = r.lesson(ctx, x)
	return out, err
}

// state says why a run is in its status.
func (r *Runs) state(x *store.Execution, status string) (s State) {
	if status == Failed || x.Status == cancelling {
		s.Reason = x.Status.String()
	}
	if x.Held() {
		s.Held = "nothing of it has run: it waits for its turn"
		if x.Status == stepwell.ExecutionPaused {
			s.Held = "nothing of it has run: it was paused before its turn"
		}
	}
	if x.Failure != nil {
		message := r.o.Redact.Text(x.ID, x.Failure.Message)
		if !x.Status.Terminal() && x.Failure.Held() {
			s.Held = message
		} else if status == Failed {
			s.Message = message
		}
	}
	return s
}

// seenLesson is a lesson as it was a moment ago.
type seenLesson struct {
	LessonRef
	at time.Time
}

// lessonAge is for how long the names of a lesson and its project are taken as they were.
const lessonAge = time.Second

// lesson names the lesson of an execution; one that is deleted has its id alone.
func (r *Runs) lesson(ctx context.Context, x *store.Execution) (LessonRef, error) {
	if seen, ok := r.lessons.get(x.Lesson); ok && time.Since(seen.at) < lessonAge {
		return seen.LessonRef, nil
	}
	ref := LessonRef{ID: x.Lesson, Project: ProjectRef{ID: x.Project}}
	if l, err := r.o.Lessons.Get(ctx, x.Lesson); err == nil {
		ref.Name, ref.Project.ID = l.Name, l.Project
	} else if !missing(err) {
		return ref, err
	}
	if p, err := r.o.Projects.Get(ctx, ref.Project.ID); err == nil {
		ref.Project.Name = p.Name
	} else if !missing(err) {
		return ref, err
	}
	r.lessons.put(x.Lesson, seenLesson{ref, time.Now()})
	return ref, nil
}
