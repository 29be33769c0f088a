package api

import (
	"context"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/pipeline"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/trigger"
)

// The shapes of jobs.
type (
	NewJob   = trigger.Job
	Job      = trigger.Status
	JobList  = Page[Job]
	ListJobs = trigger.Filter
	Timing   = trigger.Timing
	After    = trigger.After
	Callback = trigger.Target
	Head     = trigger.Head // of webhooks and event triggers
)

// jobs are the jobs of the scheduler with their own operations (budpipeline §4.2).
type jobs struct {
	*kindOf[trigger.Job, trigger.Job, trigger.Status, trigger.Status, trigger.Filter]
	*server
	schedules *trigger.Schedules
}

// Jobs serves the jobs of the scheduler.
func Jobs(s *trigger.Schedules) Kind {
	j := &jobs{schedules: s, kindOf: &kindOf[trigger.Job, trigger.Job, trigger.Status, trigger.Status, trigger.Filter]{Resource: s}}
	j.completed = func(ctx context.Context, of any) error { return j.ownPipeline(ctx, of.(*trigger.Job)) }
	j.saved = func(ctx context.Context, of *trigger.Status) {
		of.Warnings = append(of.Warnings, j.absent(ctx, of.Target)...)
	}
	return j
}

// Work implements Kind: jobs fire only after recovery, which the server runs, not the API.
func (j *jobs) Work() (name string, run func(ctx context.Context) error) { return "jobs", nil }

func (j *jobs) serve(s *server) {
	j.server = s
	j.kindOf.serve(s)
	one := s.named("job_id")
	handle(s, "schedule.pause", j.pause, one)
	handle(s, "schedule.resume", j.resume, one)
	handle(s, "schedule.trigger", j.trigger, one)
	handle(s, "schedule.next", j.next, one)
	handle(s, "schedule.backfill", j.backfill, one)
	handle(s, "schedule.fires", j.fires)
	handle(s, "schedule.preview", j.preview)
	handle(s, "schedule.firings", j.listFirings, listed[Firing](s, "FiringList", "firings"))
}

// absent warns of a target that is not there: it may come before the job fires, or be a slip.
func (j *jobs) absent(ctx context.Context, c *trigger.Target) []Detail {
	warning := func(location, message string) []Detail {
		return []Detail{{Path: location, Message: message, Hint: "nothing can be started until there is", Warning: true}}
	}
	if c.Action != "" {
		if found, ok := j.o.Catalog.Spec(c.Action); !ok || found.Internal || found.Stream != nil {
			return warning("callback.action_type", "there is no action "+stepwell.Clip(c.Action, 60))
		}
		return nil
	}
	if _, err := j.o.Pipelines.Pipeline(ctx, c.Workflow); stepwell.CodeOf(err) == stepwell.CodeNotFound {
		return warning("callback.workflow_id", err.Error())
	}
	return nil
}

// ownPipeline lets a job that names nothing start the pipeline that has its id: in budpipeline a job is something
// that exists already.
func (j *jobs) ownPipeline(ctx context.Context, d *trigger.Job) error {
	if d.Target != nil {
		return nil
	}
	if d.ID == "" {
		return stepwell.Invalid("give callback: {workflow_id: …} or {action_type: …}; on the command line --pipeline NAME or --action NAME", "the job does not say what to start")
	}
	p, err := j.o.Pipelines.Pipeline(ctx, d.ID)
	if stepwell.CodeOf(err) == stepwell.CodeNotFound {
		return stepwell.Invalid("give callback: {workflow_id: …} or {action_type: …}, or as job_id the id of a stored pipeline", "the job has no callback, and no stored pipeline is called %q", stepwell.Clip(d.ID, 60))
	}
	if err == nil {
		d.Target = &trigger.Target{Type: trigger.TargetWorkflow, Workflow: p.ID, Authored: trigger.Authored{Author: access.Of(ctx).Actor()}}
		callOf(ctx).note("starts", p.ID)
	}
	return err
}

func (j *jobs) pause(ctx context.Context, _ *struct{}) (*answer[Job], error) {
	return j.enable(ctx, j.schedules.Pause)
}

func (j *jobs) resume(ctx context.Context, _ *struct{}) (*answer[Job], error) {
	return j.enable(ctx, j.schedules.Resume)
}

func (j *jobs) enable(ctx context.Context, do func(context.Context, string) (*trigger.Status, error)) (*answer[Job], error) {
	id, err := j.nameIn(ctx, "job_id")
	if err != nil {
		return nil, err
	}
	of, err := do(ctx, id)
	if err != nil {
		return nil, err
	}
	j.show(of)
	return reply(*of, nil)
}

// TriggerRequest is the body of a start by hand; it may be left out.
type TriggerRequest struct {
	Params Object `json:"params,omitempty" doc:"Values of parameters that the pipeline declares and the job does not set, or lists as overridable; those of an action read them as {{ event }}."`
}

type triggerJobInput struct {
	Key  string `header:"Idempotency-Key" maxLength:"257"`
	Body *TriggerRequest
}

func (j *jobs) trigger(ctx context.Context, in *triggerJobInput) (*made[Started], error) {
	id, err := j.nameIn(ctx, "job_id")
	if err != nil {
		return nil, err
	}
	var launch pipeline.Launch
	if launch.Key, launch.KeyHash, err = j.once(ctx, in.Key); err != nil {
		return nil, err
	}
	if in.Body != nil {
		launch.Outside = &pipeline.Outside{Values: in.Body.Params}
	}
	launch.Actor = access.Of(ctx).Actor()
	return j.started(ctx)(j.schedules.Trigger(ctx, id, launch))
}

// NextRuns are the next times of a job.
type NextRuns struct {
	NextRuns []Time `json:"next_runs" nullable:"false"`
}

type nextRunsInput struct {
	Count int `query:"count" minimum:"1" maximum:"100" default:"10"`
}

func (j *jobs) next(ctx context.Context, in *nextRunsInput) (*answer[NextRuns], error) {
	id, err := j.nameIn(ctx, "job_id")
	if err != nil {
		return nil, err
	}
	times, err := j.schedules.NextRuns(id, in.Count)
	if err != nil {
		return nil, err
	}
	out := NextRuns{make([]Time, len(times))}
	for i, at := range times {
		out.NextRuns[i] = resource.At(at)
	}
	return reply(out, nil)
}

// The shapes of firings.
type (
	BackfillRequest = trigger.BackfillRange
	Backfill        = trigger.Backfill
	Firing          = trigger.Firing
	FiringList      = Page[Firing]
)

func (j *jobs) backfill(ctx context.Context, in *bodyInput[BackfillRequest]) (*answer[Backfill], error) {
	id, err := j.nameIn(ctx, "job_id")
	if err != nil {
		return nil, err
	}
	b, err := j.schedules.Backfill(ctx, id, in.Body, access.Of(ctx).Actor())
	if err != nil {
		return nil, err
	}
	return reply(*b, nil)
}

// ListFirings selects firings of a job.
type ListFirings struct {
	ID     string `path:"job_id" maxLength:"255" doc:"Its id, or its name."`
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"50"`
	Cursor string `query:"cursor" maxLength:"600"`
}

func (j *jobs) listFirings(ctx context.Context, in *ListFirings) (*answer[FiringList], error) {
	before, err := cursorOf("firings", in.Cursor)
	if err != nil {
		return nil, err
	}
	rows, next, err := j.schedules.Firings(ctx, in.ID, before, in.Limit)
	if err != nil {
		return nil, err
	}
	for i := range rows {
		rows[i].Error = Ref(j.text("", string(rows[i].Error)))
	}
	return reply(FiringList{Items: rows, Next: cursorTo("firings", next), name: "firings"}, nil)
}
