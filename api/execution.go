package api

import (
	"encoding/json"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/estimate"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/store"
)

// Execution is an execution as lists show it: without its results (budpipeline §4.1).
type Execution struct {
	ID          string   `json:"execution_id" doc:"UUID."`
	Job         Ref      `json:"job_id" doc:"The schedule, webhook or event trigger that started it."`
	Workflow    Ref      `json:"workflow_id" doc:"The stored pipeline that it runs."`
	Version     int      `json:"workflow_version,omitempty" doc:"The version of the stored pipeline."`
	Pipeline    string   `json:"pipeline" doc:"Name of the pipeline."`
	Status      string   `json:"status" enum:"pending,running,paused,cancelling,completed,completed_with_failures,failed,cancelled,timed_out"`
	Created     Time     `json:"created_at"`
	Started     Time     `json:"started_at"`
	Completed   Time     `json:"completed_at"`
	DurationMS  *int64   `json:"duration_ms" doc:"From its start to its end, or until now."`
	Progress    Progress `json:"progress"`
	TriggerType string   `json:"trigger_type" doc:"manual, retry, scheduled, webhook or event."`
	TriggeredBy Ref      `json:"triggered_by" doc:"Who asked for it."`
	Parent      Ref      `json:"parent_id" doc:"The execution that this one retries."`
	Priority    int      `json:"priority,omitempty"`
	Project     string   `json:"project,omitempty" doc:"The project whose processed items it counts; of a retry, which counts none, that of the execution that it retries."`
	Lesson      string   `json:"lesson,omitempty" doc:"The lesson that it was started for; of a retry, that of the execution that it retries."`
	Usage
	Cost     Money      `json:"cost,omitempty" doc:"Money spent by all attempts of its steps, exact to a millionth; missing when there was none."`
	Used     *Resources `json:"resources,omitempty" doc:"What the programs and requests of its steps have used, in all attempts; missing when nothing is known."`
	Breached string     `json:"breached,omitempty" enum:"expected,maximum" doc:"Which promised duration has passed."`
	// Footprints is known from the first end of an attempt of a stream on.
	Footprints bool   `json:"footprints,omitempty" doc:"Its streams have items with a bbox, done or failed: /footprints says where, for 30 days. Set when an attempt of a stream ends; missing on executions of before 2026-11-29."`
	Warnings   int    `json:"warnings,omitempty" doc:"In lists that ask for it: log lines of level warning, among its first 500 lines that are not of level info."`
	Held       string `json:"held,omitempty" doc:"Why it does not continue, although it has not ended: no server can take it up."`
}

// Usage is what models have read and written in all attempts.
type Usage struct {
	InputTokens  int64   `json:"input_tokens,omitempty" doc:"Tokens that models have read, in all attempts; missing when there were none, as the other sums are."`
	OutputTokens int64   `json:"output_tokens,omitempty" doc:"Tokens that models have written."`
	AudioSeconds float64 `json:"audio_seconds,omitempty" doc:"Seconds of audio that models have read."`
}

// Resources are what the programs and requests of attempts have used of machine and network. What is not known, or nothing,
// is missing.
type Resources = stepwell.Resources

func usageOf(u stepwell.Usage) Usage {
	return Usage{u.InputTokens, u.OutputTokens, float64(u.AudioMillis) / 1000}
}

// Progress counts the steps of an execution.
type Progress = estimate.Progress

// ExecutionDetail is one execution with everything about it.
type ExecutionDetail struct {
	Execution
	CurrentStep Ref             `json:"current_step" doc:"The step that is running, or else the one that is next."`
	Steps       []Step          `json:"steps" nullable:"false" doc:"The first 1,000 steps, without outputs; /steps lists all."`
	MoreSteps   string          `json:"steps_cursor,omitempty" doc:"The cursor with which /steps continues behind steps; missing when they are all."`
	Params      json.RawMessage `json:"params" doc:"The parameters; secret ones are ***."`
	Result      json.RawMessage `json:"result" doc:"The pipeline's outputs, null before its end."`
	Error       *Failure        `json:"error" doc:"Why it failed; null if it did not."`
	Abandoned   int             `json:"abandoned" doc:"How much work of its steps continues outside although they have ended, and is still to be stopped there; at most 1,000 are counted."`
}

// Step is one step of an execution.
type Step struct {
	ID         string   `json:"step_id" doc:"Its key: the id in the pipeline, or that of an iteration or a spawned step."`
	Index      int32    `json:"index" doc:"Its number within the execution, and its row in /field."`
	Name       string   `json:"name,omitempty"`
	Action     string   `json:"action,omitempty"`
	Kind       string   `json:"kind,omitempty" enum:"step,group,for_each,pipeline,stream,spawned" doc:"In /steps only, as parent, depends_on and attempts."`
	Parent     string   `json:"parent,omitempty" doc:"The step that it is inside of."`
	DependsOn  []string `json:"depends_on,omitempty" doc:"Steps beside it that it waits for."`
	Attempts   int      `json:"attempts,omitempty" doc:"How many attempts it may have."`
	Status     string   `json:"status" enum:"pending,queued,running,retrying,waiting,completed,failed,skipped,cancelled,timed_out"`
	Attempt    int      `json:"attempt"`
	Worker     string   `json:"worker_id,omitempty"`
	Queued     Time     `json:"queued_at"`
	Started    Time     `json:"started_at"`
	Completed  Time     `json:"completed_at"`
	DurationMS *int64   `json:"duration_ms"`
	Until      *Time    `json:"until,omitempty" doc:"When a step that waits or retries continues."`
	Usage
	Cost    Money           `json:"cost,omitempty" doc:"Of all its attempts."`
	Used    *Resources      `json:"resources,omitempty" doc:"What the programs and requests of all its attempts have used; missing when nothing is known."`
	Params  json.RawMessage `json:"params,omitempty" doc:"The rendered parameters, when they were asked for and are not those of the definition."`
	Outputs json.RawMessage `json:"outputs,omitempty" doc:"When they were asked for."`
	Error   *Failure        `json:"error" doc:"Why it failed or was skipped; null if it was not."`
	Items   *Items          `json:"items,omitempty" doc:"What became of the items of a stream step that has ended."`
}

// Items are the counts of a stream step.
type Items struct {
	In      int64 `json:"in" doc:"Items that came to it; of a source, those that it made."`
	Out     int64 `json:"out" doc:"Items that it passed on or wrote."`
	Failed  int64 `json:"failed"`
	Dropped int64 `json:"dropped" doc:"By the step, or by a branch before it."`
	Skipped int64 `json:"skipped" doc:"Done in an earlier run."`
}

// Failure says why something failed.
type Failure struct {
	Code    stepwell.Code `json:"code"`
	Message string        `json:"message"`
	Hint    string        `json:"hint,omitempty"`
	Step    string        `json:"step_id,omitempty"`
}

// Schema is for the description: huma has no nullable references.
func (Failure) Schema(huma.Registry) *huma.Schema {
	text := func(doc string) *huma.Schema { return &huma.Schema{Type: "string", Description: doc} }
	return &huma.Schema{Type: "object", Nullable: true, Required: []string{"code", "message"}, AdditionalProperties: false, Properties: map[string]*huma.Schema{
		"code": text("What kind of failure it is."), "message": text("What happened."), "hint": text("What to do about it."), "step_id": text("The step that is the cause.")}}
}

// executionOf is the view of a row.
func (s *server) executionOf(x *store.Execution) Execution {
	held := ""
	if !x.Status.Terminal() && x.Failure.Held() {
		held = x.Failure.Message
	}
	return Execution{ID: x.ID, Held: held, Job: Ref(x.Job), Workflow: Ref(x.Workflow), Version: x.WorkflowVersion, Pipeline: x.Pipeline, Status: x.Status.String(),
		Created: resource.At(x.Created), Started: resource.At(x.Started), Completed: resource.At(x.Ended), DurationMS: durationOf(x.Started, x.Ended),
		Progress:    s.o.Estimates.Progress(x, counts(&x.Progress)),
		TriggerType: x.Trigger, TriggeredBy: Ref(x.Actor), Parent: Ref(x.Parent), Priority: x.Priority, Project: x.Project, Lesson: x.Lesson, Usage: usageOf(x.Progress.Usage), Cost: Money(x.Progress.Cost),
		Used: x.Progress.Resources, Breached: x.Progress.Breached, Footprints: x.Progress.Footprints}
}

// ProgressOf returns an execution's counts without cost and breach, which have their own fields.
func ProgressOf(p *engine.Progress) Progress { return Progress{Progress: *counts(p)} }

func counts(p *engine.Progress) *engine.Progress {
	shown := *p
	shown.Cost, shown.Usage, shown.Breached = 0, stepwell.Usage{}, ""
	return &shown
}

// durationOf is nil before the start.
func durationOf(started, ended time.Time) *int64 {
	if started.IsZero() {
		return nil
	}
	if ended.IsZero() {
		ended = time.Now()
	}
	ms := max(0, ended.Sub(started).Milliseconds())
	return &ms
}

// stepOf is the view of a step, without params and outputs.
func (s *server) stepOf(execution string, r *store.Step) Step {
	v := Step{ID: r.Key, Index: r.Idx, Name: r.Name, Action: r.Action, Status: r.Status.String(), Attempt: r.Attempt, Worker: r.Worker,
		Queued: micro(r.Queued), Started: micro(r.Started), Completed: micro(r.Ended), Error: s.failure(execution, r.Error), Usage: usageOf(r.Usage), Cost: Money(r.Cost), Used: r.Resources}
	if r.Started > 0 {
		v.DurationMS = durationOf(v.Started.Time, v.Completed.Time)
	}
	if counts := r.Items(); counts != nil {
		items := Items(*counts)
		v.Items = &items
	}
	if r.Wake > 0 {
		until := micro(r.Wake)
		v.Until = &until
	}
	return v
}

// currentStep is the running step, else a waiting one, else a queued one.
func currentStep(x *store.Execution, steps []Step) Ref {
	if x.Status.Terminal() {
		return ""
	}
	for _, wanted := range []string{"running", "retrying", "waiting", "queued", "pending"} {
		for i := range steps {
			if steps[i].Status == wanted {
				return Ref(steps[i].ID)
			}
		}
	}
	return ""
}
