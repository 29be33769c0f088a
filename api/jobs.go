package api

import (
	"cmp"
	"context"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/schedule"
	"github.com/stepwell/stepwell/trigger"
)

// jobs are the operations of the scheduler (budpipeline §4.2).
func (s *server) jobs() {
	handle(s, "schedule.create", s.createJob)
	handle(s, "schedule.list", s.listJobs)
	handle(s, "schedule.get", s.getJob)
	handle(s, "schedule.update", s.updateJob)
	handle(s, "schedule.delete", s.deleteJob)
	handle(s, "schedule.pause", s.pauseJob)
	handle(s, "schedule.resume", s.resumeJob)
	handle(s, "schedule.trigger", s.triggerJob)
	handle(s, "schedule.next", s.nextRuns)
	handle(s, "schedule.backfill", s.backfillJob)
	handle(s, "schedule.firings", s.listFirings)
}

// Timing says when a job fires.
type Timing struct {
	Type       string `json:"type" enum:"cron,interval,one_time,manual,webhook,event,after" example:"cron"`
	Expression string `json:"expression,omitempty" maxLength:"1000" doc:"A cron expression, an interval (@every 30m), a time, or the pattern of an event's type." example:"0 9 * * 1-5"`
	Timezone   string `json:"timezone,omitempty" maxLength:"100" doc:"IANA name. Defaults to UTC." example:"America/New_York"`
	RunAt      string `json:"run_at,omitempty" maxLength:"100" doc:"The same as expression, for one_time."`
	StartAt    *Time  `json:"start_at,omitempty" doc:"The first moment at which it fires; intervals count from it."`
	Skipped    string `json:"skipped,omitempty" enum:"run_after,skip" doc:"Times that a change of clocks leaves out."`
	Repeated   string `json:"repeated,omitempty" enum:"first,second,both" doc:"Times that a change of clocks brings twice."`
	After      *After `json:"after,omitempty" doc:"For type after."`
	Filters    Object `json:"filters,omitempty" doc:"For type event: values by their path in the event's data."`
}

// TransformSchema adds examples to the description.
func (Timing) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	s.Examples = []any{map[string]any{"type": "cron", "expression": "0 9 * * 1-5", "timezone": "America/New_York"}, map[string]any{"type": "interval", "expression": "@every 30m"}}
	return s
}

// After names the job that another one follows.
type After struct {
	Job string `json:"job_id" maxLength:"128"`
	On  string `json:"on,omitempty" enum:"success,failure,any"`
}

// Callback says what a trigger starts.
type Callback struct {
	Type     string `json:"type,omitempty" enum:"workflow,action" doc:"Defaults to the one whose field is given."`
	Workflow string `json:"workflow_id,omitempty" maxLength:"255" doc:"A stored pipeline, by id or name."`
	Version  *int   `json:"workflow_version,omitempty" minimum:"0" maximum:"1000000" doc:"Defaults to the newest when it fires, which 0 stands for too."`
	Action   string `json:"action_type,omitempty" maxLength:"200" example:"util.log"`
	Params   Object `json:"params,omitzero" doc:"Data from outside does not replace them. Those of an action may hold templates, in which {{ event }} is the data from outside."`
	// Overridable is for pipelines.
	Overridable []string `json:"overridable,omitzero" nullable:"false" maxItems:"100" doc:"Names of params of a pipeline that data from outside may replace."`
	Priority    *int     `json:"priority,omitempty" minimum:"-1000" maximum:"1000" doc:"Defaults to 0."`
}

// TransformSchema adds examples to the description.
func (Callback) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	s.Examples = []any{map[string]any{"type": "action", "action_type": "util.log", "params": map[string]any{"message": "Hello"}}}
	return s
}

// callbackIn is what is to be stored in the place of another, nil when there is none. What it leaves out stays as it was
// while it starts the same; params are for one thing, so what starts another has to say them, if there were any.
func (s *server) callbackIn(ctx context.Context, c *Callback, stored *trigger.Callback) (*trigger.Callback, error) {
	if c == nil {
		return nil, nil
	}
	if stored == nil {
		stored = &trigger.Callback{}
	}
	author := access.Of(ctx).Role.String()
	out := *stored
	out.Role, out.Author = trigger.LowerRole(author, stored.Role), access.Of(ctx).Actor()
	if !c.startsAs(stored) {
		if c.Params == nil && len(stored.Params) > 0 {
			return nil, stepwell.Invalid("give the params of what it starts now, {} for none", "callback.params: those that are there are for something else")
		}
		out = trigger.Callback{Type: c.Type, Workflow: c.Workflow, Action: c.Action, Role: author, Author: access.Of(ctx).Actor()}
	}
	if c.Params != nil {
		params, err := s.written("callback.params", c.Params, Object(stored.Params))
		if err != nil {
			return nil, err
		}
		out.Params, out.Role = trigger.Values(params), author
	}
	if c.Overridable != nil {
		out.Overridable = c.Overridable
	}
	set(&out.Version, c.Version)
	set(&out.Priority, c.Priority)
	callOf(ctx).note("starts", cmp.Or(out.Action, out.Workflow))
	if out.Action == "" {
		return &out, nil
	}
	return &out, s.o.Pipelines.Allowed(out.Role, out.Action)
}

// startsAs reports whether it starts what another does: it says the same, or nothing.
func (c *Callback) startsAs(was *trigger.Callback) bool {
	if c.Type != "" && c.Type != was.Type {
		return false
	}
	return c.Workflow == "" && c.Action == "" || c.Workflow == was.Workflow && c.Action == was.Action
}

func (s *server) callbackOf(c *trigger.Callback) *Callback {
	if c == nil {
		return nil
	}
	out := &Callback{Type: c.Type, Workflow: c.Workflow, Action: c.Action, Params: s.shownObject(Object(c.Params)), Overridable: c.Overridable}
	if c.Version != 0 {
		out.Version = &c.Version
	}
	if c.Priority != 0 {
		out.Priority = &c.Priority
	}
	return out
}

// timingIn is what is to be stored in the place of another.
func (s *server) timingIn(t *Timing, stored *trigger.Timing) (trigger.Timing, error) {
	filters, err := s.written("schedule.filters", t.Filters, Object(stored.Filters))
	if err != nil {
		return trigger.Timing{}, err
	}
	out := trigger.Timing{Type: t.Type, Expression: t.Expression, Timezone: t.Timezone, RunAt: t.RunAt, Skipped: schedule.Skipped(t.Skipped),
		Repeated: schedule.Repeated(t.Repeated), Filters: trigger.Values(filters)}
	if t.StartAt != nil {
		out.StartAt = t.StartAt.Time
	}
	if t.After != nil {
		out.After = &trigger.After{Job: t.After.Job, On: t.After.On}
	}
	return out, nil
}

func (s *server) timingOf(t *trigger.Timing) Timing {
	out := Timing{Type: t.Type, Expression: t.Expression, Timezone: t.Timezone, RunAt: t.RunAt, Skipped: string(t.Skipped), Repeated: string(t.Repeated), Filters: s.shownObject(Object(t.Filters))}
	if !t.StartAt.IsZero() {
		out.StartAt = &Time{t.StartAt}
	}
	if t.After != nil {
		out.After = &After{t.After.Job, t.After.On}
	}
	return out
}

// NewJob is a job to be scheduled.
type NewJob struct {
	ID       string    `json:"job_id,omitempty" maxLength:"128" doc:"Defaults to a new UUID."`
	Name     string    `json:"name,omitempty" maxLength:"255"`
	About    string    `json:"description,omitempty" maxLength:"4000"`
	Schedule Timing    `json:"schedule"`
	Callback *Callback `json:"callback,omitempty" doc:"What it starts. Defaults to the stored pipeline whose id is job_id."`
	Enabled  *bool     `json:"enabled,omitempty" doc:"Defaults to true."`
	JobPolicy
}

// JobPolicy says what happens beside the schedule.
type JobPolicy struct {
	Misfire string `json:"misfire,omitempty" enum:"run_once,skip,run_all" doc:"What is made up for when nobody was there. Defaults to run_once."`
	CatchUp int64  `json:"catch_up_seconds,omitempty" minimum:"0" doc:"Nothing older is made up for. Defaults to 7 days."`
	Overlap string `json:"overlap,omitempty" enum:"skip,queue_one,queue_all,cancel_running,allow" doc:"While an execution of the job runs. Defaults to skip, and to queue_all for jobs of type after."`
	Jitter  int64  `json:"jitter_seconds,omitempty" minimum:"0" maximum:"86400" doc:"Spreads firings."`
	MaxRuns int    `json:"max_runs,omitempty" minimum:"0" doc:"Defaults to no limit."`
	Expires *Time  `json:"expires_at,omitempty" doc:"The last moment at which it fires."`
}

// JobChange is a change of a job. What is left out stays as it is.
type JobChange struct {
	Name     *string   `json:"name,omitempty" maxLength:"255"`
	About    *string   `json:"description,omitempty" maxLength:"4000"`
	Schedule *Timing   `json:"schedule,omitempty"`
	Callback *Callback `json:"callback,omitempty" doc:"What it leaves out stays as it was while it starts the same."`
	Enabled  *bool     `json:"enabled,omitempty"`
	Misfire  *string   `json:"misfire,omitempty" enum:"run_once,skip,run_all"`
	CatchUp  *int64    `json:"catch_up_seconds,omitempty" minimum:"0"`
	Overlap  *string   `json:"overlap,omitempty" enum:"skip,queue_one,queue_all,cancel_running,allow"`
	Jitter   *int64    `json:"jitter_seconds,omitempty" minimum:"0" maximum:"86400"`
	MaxRuns  *int      `json:"max_runs,omitempty" minimum:"0"`
	Expires  *Time     `json:"expires_at,omitempty"`
}

// Job is a scheduled job and what has become of it.
type Job struct {
	Schedule      string    `json:"schedule_id" doc:"The same as job_id."`
	ID            string    `json:"job_id"`
	Name          string    `json:"name"`
	About         string    `json:"description"`
	Timing        Timing    `json:"schedule"`
	Callback      *Callback `json:"callback"`
	Enabled       bool      `json:"enabled"`
	Status        string    `json:"status" enum:"active,paused,expired,completed"`
	Next          Time      `json:"next_run_at"`
	Last          Time      `json:"last_run_at"`
	LastExecution Ref       `json:"last_execution_id"`
	LastError     Ref       `json:"last_error" doc:"Why the latest firing could not be started."`
	RunCount      int       `json:"run_count"`
	Dropped       int       `json:"dropped_count" doc:"Firings left out because an execution was running."`
	Waiting       int       `json:"waiting_count" doc:"Firings that wait for an execution to end."`
	CreatedBy     Ref       `json:"created_by"`
	Created       Time      `json:"created_at"`
	Updated       Time      `json:"updated_at"`
	Warnings      []Detail  `json:"warnings,omitempty" nullable:"false" doc:"What its author may not have meant, told when it is stored."`
	JobPolicy
}

func (s *server) jobOf(j *trigger.Schedule, warnings trigger.Warnings) Job {
	v := Job{Schedule: j.ID, ID: j.ID, Name: j.Name, About: j.Description, Timing: s.timingOf(&j.Schedule), Callback: s.callbackOf(&j.Callback), Enabled: j.Enabled == nil || *j.Enabled,
		Status: j.Status, Next: Time{j.NextRunAt}, Last: Time{j.LastRunAt}, LastExecution: Ref(j.LastExecution), LastError: Ref(s.text("", j.LastError)), RunCount: j.RunCount,
		Dropped: j.Dropped, Waiting: j.Waiting, CreatedBy: Ref(j.CreatedBy), Created: Time{j.Created}, Updated: Time{j.Updated},
		JobPolicy: JobPolicy{Misfire: string(j.Misfire), CatchUp: j.CatchUpSeconds, Overlap: string(j.Overlap), Jitter: j.JitterSeconds, MaxRuns: j.MaxRuns}}
	if !j.ExpiresAt.IsZero() {
		v.Expires = &Time{j.ExpiresAt}
	}
	for _, w := range warnings {
		v.Warnings = append(v.Warnings, Detail{Location: "schedule", Message: w.Message, Hint: w.Hint, Warning: true})
	}
	return v
}

type createJobInput struct{ Body NewJob }

func (s *server) createJob(ctx context.Context, in *createJobInput) (*made[Job], error) {
	b := &in.Body
	timing, err := s.timingIn(&b.Schedule, &trigger.Timing{})
	if err != nil {
		return nil, err
	}
	j := trigger.Job{ID: b.ID, Name: b.Name, Description: b.About, Schedule: timing, Enabled: b.Enabled, Misfire: schedule.Misfire(b.Misfire), CatchUpSeconds: b.CatchUp,
		Overlap: schedule.Overlap(b.Overlap), JitterSeconds: b.Jitter, MaxRuns: b.MaxRuns}
	if b.Expires != nil {
		j.ExpiresAt = b.Expires.Time
	}
	if err := s.starts(ctx, &j, b.Callback); err != nil {
		return nil, err
	}
	made1, warnings, err := s.o.Schedules.Create(ctx, j, access.Of(ctx).Actor())
	if err != nil {
		return nil, err
	}
	callOf(ctx).object = made1.ID
	body := s.jobOf(made1, warnings)
	body.Warnings = append(body.Warnings, s.absent(ctx, &made1.Callback)...)
	return &made[Job]{Status: statusOf(true), Location: prefix + "/scheduler/jobs/" + made1.ID, ETag: etag(made1.Revision), Body: body}, nil
}

// absent warns of a callback to something that is not there: it may come before the job fires, or be a slip.
func (s *server) absent(ctx context.Context, c *trigger.Callback) []Detail {
	warning := func(location, message string) []Detail {
		return []Detail{{Location: location, Message: message, Hint: "nothing can be started until there is", Warning: true}}
	}
	if c.Action != "" {
		if found, ok := s.o.Catalog.Spec(c.Action); !ok || found.Internal || found.Stream != nil {
			return warning("callback.action_type", "there is no action "+stepwell.Clip(c.Action, 60))
		}
		return nil
	}
	if _, err := s.o.Pipelines.Pipeline(ctx, c.Workflow); stepwell.CodeOf(err) == stepwell.CodeNotFound {
		return warning("callback.workflow_id", err.Error())
	}
	return nil
}

// starts says what a new job starts.
func (s *server) starts(ctx context.Context, j *trigger.Job, given *Callback) error {
	if given == nil {
		return s.ownPipeline(ctx, j)
	}
	c, err := s.callbackIn(ctx, given, nil)
	if err == nil {
		j.Callback = *c
	}
	return err
}

// ownPipeline lets a job that names nothing start the pipeline that has its id: in budpipeline a job is something
// that exists already.
func (s *server) ownPipeline(ctx context.Context, j *trigger.Job) error {
	if j.ID == "" {
		return stepwell.Invalid("give callback: {workflow_id: …} or {action_type: …}", "the job does not say what to start")
	}
	p, err := s.o.Pipelines.Pipeline(ctx, j.ID)
	if stepwell.CodeOf(err) == stepwell.CodeNotFound {
		return stepwell.Invalid("give callback: {workflow_id: …} or {action_type: …}, or as job_id the id of a stored pipeline", "the job has no callback, and no stored pipeline is called %q", stepwell.Clip(j.ID, 60))
	}
	if err == nil {
		j.Callback = trigger.Callback{Type: trigger.CallbackWorkflow, Workflow: p.ID, Author: access.Of(ctx).Actor()}
		callOf(ctx).note("starts", p.ID)
	}
	return err
}

// JobList is a page of jobs.
type JobList struct {
	Jobs []Job  `json:"jobs" nullable:"false"`
	Next string `json:"next_cursor,omitempty"`
}

// ListJobs selects jobs.
type ListJobs struct {
	Type   string `query:"type" enum:"cron,interval,one_time,manual,webhook,event,after"`
	Status string `query:"status" enum:"active,paused,expired,completed"`
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"50"`
	Cursor string `query:"cursor" maxLength:"600"`
}

func (s *server) listJobs(_ context.Context, in *ListJobs) (*answer[JobList], error) {
	after, err := cursorOf("jobs", in.Cursor)
	if err != nil {
		return nil, err
	}
	rows, next := page(s.o.Schedules.List(trigger.Filter{Type: in.Type, Status: in.Status, After: after, Limit: in.Limit + 1}), in.Limit, func(j *trigger.Schedule) string { return j.ID })
	out := JobList{Jobs: make([]Job, 0, len(rows)), Next: cursorTo("jobs", next)}
	for i := range rows {
		out.Jobs = append(out.Jobs, s.jobOf(&rows[i], nil))
	}
	return reply(out, nil)
}

// JobPath is the parameter of operations on one.
type JobPath struct {
	ID string `path:"job_id" maxLength:"255" doc:"Its id, or its name."`
}

type getJobInput struct {
	JobPath
	IfNoneMatch string `header:"If-None-Match" maxLength:"2000"`
}

func (s *server) getJob(_ context.Context, in *getJobInput) (*tagged[Job], error) {
	j, err := s.o.Schedules.Job(in.ID)
	if err != nil {
		return nil, err
	}
	if unchanged(in.IfNoneMatch, j.Revision) {
		return nil, notModified(j.Revision)
	}
	return &tagged[Job]{etag(j.Revision), s.jobOf(j, nil)}, nil
}

type updateJobInput struct {
	JobPath
	IfMatch string `header:"If-Match" maxLength:"2000"`
	Body    JobChange
}

func (s *server) updateJob(ctx context.Context, in *updateJobInput) (*tagged[Job], error) {
	j, err := s.o.Schedules.Job(in.ID)
	if err != nil {
		return nil, err
	}
	callOf(ctx).object = j.ID
	var warnings trigger.Warnings
	j, err = change(in.IfMatch, j, func(j *trigger.Schedule) int64 { return j.Revision }, func(revision int64) (changed *trigger.Schedule, err error) {
		changed, warnings, err = s.o.Schedules.Update(ctx, j.ID, revision, func(job *trigger.Job) error { return s.changeJob(ctx, job, &in.Body) })
		return changed, err
	}, func() (*trigger.Schedule, error) { return s.o.Schedules.Job(j.ID) })
	if err != nil {
		return nil, err
	}
	body := s.jobOf(j, warnings)
	body.Warnings = append(body.Warnings, s.absent(ctx, &j.Callback)...)
	return &tagged[Job]{etag(j.Revision), body}, nil
}

// changeJob changes what is given.
func (s *server) changeJob(ctx context.Context, j *trigger.Job, c *JobChange) (err error) {
	set(&j.Name, c.Name)
	set(&j.Description, c.About)
	set(&j.CatchUpSeconds, c.CatchUp)
	set(&j.JitterSeconds, c.Jitter)
	set(&j.MaxRuns, c.MaxRuns)
	if c.Schedule != nil {
		was := j.Schedule
		if j.Schedule, err = s.timingIn(c.Schedule, &was); err != nil {
			return err
		}
		j.Schedule.Keep(&was)
	}
	if c.Callback != nil {
		to, err := s.callbackIn(ctx, c.Callback, &j.Callback)
		if err != nil {
			return err
		}
		j.Callback = *to
	}
	if c.Enabled != nil {
		j.Enabled = c.Enabled
	}
	if c.Misfire != nil {
		j.Misfire = schedule.Misfire(*c.Misfire)
	}
	if c.Overlap != nil {
		j.Overlap = schedule.Overlap(*c.Overlap)
	}
	if c.Expires != nil {
		j.ExpiresAt = c.Expires.Time
	}
	return nil
}

// set takes over what is given.
func set[T any](to, given *T) {
	if given != nil {
		*to = *given
	}
}

type deleteJobInput struct {
	JobPath
	IfMatch string `header:"If-Match" maxLength:"2000"`
}

func (s *server) deleteJob(ctx context.Context, in *deleteJobInput) (*struct{}, error) {
	j, err := s.o.Schedules.Job(in.ID)
	if err != nil {
		return nil, err
	}
	callOf(ctx).object = j.ID
	return remove(in.IfMatch, j.Revision, func(revision int64) error { return s.o.Schedules.Delete(ctx, j.ID, revision) })
}

func (s *server) pauseJob(ctx context.Context, in *JobPath) (*answer[Job], error) {
	return s.jobAnswer(s.o.Schedules.Pause(ctx, in.ID))
}

func (s *server) resumeJob(ctx context.Context, in *JobPath) (*answer[Job], error) {
	return s.jobAnswer(s.o.Schedules.Resume(ctx, in.ID))
}

func (s *server) jobAnswer(j *trigger.Schedule, err error) (*answer[Job], error) {
	if err != nil {
		return nil, err
	}
	return reply(s.jobOf(j, nil), nil)
}

// TriggerRequest is the body of a start by hand; it may be left out.
type TriggerRequest struct {
	Params Object `json:"params,omitempty" doc:"Values of parameters that the pipeline declares and the job does not set, or lists as overridable; those of an action read them as {{ event }}."`
}

type triggerJobInput struct {
	JobPath
	Key  string `header:"Idempotency-Key" maxLength:"257"`
	Body *TriggerRequest
}

func (s *server) triggerJob(ctx context.Context, in *triggerJobInput) (*made[Started], error) {
	key, hash, err := s.once(ctx, in.Key)
	if err != nil {
		return nil, err
	}
	var params Object
	if in.Body != nil {
		params = in.Body.Params
	}
	return s.started(ctx)(s.o.Schedules.Trigger(ctx, in.ID, trigger.Run{Values: params, Actor: access.Of(ctx).Actor(), Key: key, KeyHash: hash}))
}

// NextRuns are the next times of a job.
type NextRuns struct {
	NextRuns []Time `json:"next_runs" nullable:"false"`
}

type nextRunsInput struct {
	JobPath
	Count int `query:"count" minimum:"1" maximum:"100" default:"10"`
}

func (s *server) nextRuns(_ context.Context, in *nextRunsInput) (*answer[NextRuns], error) {
	times, err := s.o.Schedules.NextRuns(in.ID, in.Count)
	if err != nil {
		return nil, err
	}
	out := NextRuns{make([]Time, len(times))}
	for i, at := range times {
		out.NextRuns[i] = Time{at}
	}
	return reply(out, nil)
}

// BackfillRequest asks for the firings of a range.
type BackfillRequest struct {
	From  time.Time `json:"from" doc:"The range begins here."`
	To    time.Time `json:"to" doc:"The range ends before this, which must not lie in the future."`
	Again bool      `json:"again,omitempty" doc:"Repeats times for which the job has fired before."`
}

// Backfill is what will be started.
type Backfill struct {
	Count   int  `json:"count" doc:"How many firings will be started."`
	Skipped int  `json:"skipped" doc:"How many times of the range have fired before, or wait already."`
	First   Time `json:"first"`
	Last    Time `json:"last"`
}

type backfillInput struct {
	JobPath
	Body BackfillRequest
}

func (s *server) backfillJob(ctx context.Context, in *backfillInput) (*answer[Backfill], error) {
	b, err := s.o.Schedules.Backfill(ctx, in.ID, trigger.BackfillRange{From: in.Body.From, To: in.Body.To, Again: in.Body.Again, Actor: access.Of(ctx).Actor()})
	if err != nil {
		return nil, err
	}
	return reply(Backfill{b.Count, b.Skipped, Time{b.First}, Time{b.Last}}, nil)
}

// Firing is a time of a job and what became of it.
type Firing struct {
	At        Time   `json:"scheduled_at" doc:"The time that it stands for; of several, the first."`
	To        Time   `json:"to" doc:"The last of several that were dropped in a row for one reason; otherwise the same as scheduled_at."`
	Count     int    `json:"count" doc:"How many times they are."`
	Status    string `json:"status" enum:"waiting,ran,caught_up,dropped,refused"`
	Reason    Ref    `json:"reason" doc:"Why it was dropped: overlap (an execution was running), misfire (missed, and not made up for), paused, limit (too many were waiting), changed (the job was given another schedule)."`
	Execution Ref    `json:"execution_id"`
	Error     Ref    `json:"error" doc:"Why it was refused."`
	After     Ref    `json:"after" doc:"The execution that it follows."`
	Backfill  bool   `json:"backfill,omitempty" doc:"Somebody asked for it."`
	Decided   Time   `json:"decided_at"`
}

// FiringList is a page of firings.
type FiringList struct {
	Firings []Firing `json:"firings" nullable:"false"`
	Next    string   `json:"next_cursor,omitempty"`
}

// ListFirings selects firings of a job.
type ListFirings struct {
	JobPath
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"50"`
	Cursor string `query:"cursor" maxLength:"600"`
}

func (s *server) listFirings(ctx context.Context, in *ListFirings) (*answer[FiringList], error) {
	before, err := cursorOf("firings", in.Cursor)
	if err != nil {
		return nil, err
	}
	rows, next, err := s.o.Schedules.Firings(ctx, in.ID, before, in.Limit)
	if err != nil {
		return nil, err
	}
	out := FiringList{Firings: make([]Firing, 0, len(rows)), Next: cursorTo("firings", next)}
	for _, f := range rows {
		out.Firings = append(out.Firings, Firing{At: Time{f.At}, To: Time{f.To}, Count: f.Count, Status: f.Status, Reason: Ref(f.Reason), Execution: Ref(f.Execution),
			Error: Ref(s.text("", f.Error)), After: Ref(f.After), Backfill: f.Backfill, Decided: Time{f.Decided}})
	}
	return reply(out, nil)
}
