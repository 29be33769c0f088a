package trigger

import (
	"cmp"
	"fmt"
	"regexp"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/schedule"
)

// The types of schedules (budpipeline §3.1).
const (
	TypeCron     = "cron"
	TypeInterval = "interval"
	TypeOneTime  = "one_time"
	TypeManual   = "manual"  // by the API alone
	TypeWebhook  = "webhook" // by the webhooks that name the job
	TypeEvent    = "event"   // by events of the type that the expression says
	TypeAfter    = "after"   // when another job's execution has ended
)

// Conditions of an after-job.
const (
	OnSuccess = "success" // completed, also with failures that the pipeline tolerates
	OnFailure = "failure" // failed or timed out
	OnAny     = "any"     // also cancelled
)

// Job is the part of a job that users write.
type Job struct {
	ID          string  `json:"job_id" required:"false" shown:"always" change:"never" maxLength:"128" doc:"Defaults to a new UUID."`
	Name        string  `json:"name" required:"false" shown:"always" maxLength:"255"`
	Description string  `json:"description" required:"false" shown:"always" maxLength:"4000"`
	Schedule    Timing  `json:"schedule"`
	Target      *Target `json:"callback,omitempty" shown:"always" doc:"What it starts. Defaults to the stored pipeline whose id is job_id. What a change leaves out stays as it was while it starts the same."`
	Enabled     *bool   `json:"enabled,omitempty" shown:"always" doc:"Defaults to true."`

	Misfire        schedule.Misfire `json:"misfire,omitempty" enum:"run_once,skip,run_all" doc:"Which missed firings run after downtime. Defaults to run_once."`
	CatchUpSeconds int64            `json:"catch_up_seconds,omitempty" minimum:"0" maximum:"31622400" doc:"The oldest missed firing that is caught up, at most 366 days. Defaults to 7 days."`
	Overlap        schedule.Overlap `json:"overlap,omitempty" enum:"skip,queue_one,queue_all,cancel_running,allow" doc:"While an execution of the job runs. Defaults to skip, and to queue_all for jobs of type after."`
	JitterSeconds  int64            `json:"jitter_seconds,omitempty" minimum:"0" maximum:"86400" doc:"Spreads firings."`
	MaxRuns        int              `json:"max_runs,omitempty" minimum:"0" doc:"Defaults to no limit."`
	ExpiresAt      *resource.Time   `json:"expires_at,omitempty" doc:"The last moment at which it fires."`
}

// Texts are the free texts: they must not hold secrets.
func (j *Job) Texts() map[string]*resource.Object {
	return map[string]*resource.Object{"schedule.filters": &j.Schedule.Filters}
}

// Starts gives access to the job's target, for changes. It starts no other job.
func (j *Job) Starts() (target **Target, job *resource.Ref) { return &j.Target, nil }

// Reset clears the fields that a change replaces as a whole; keep restores those that the change omits.
func (j *Job) Reset() (keep func()) {
	was := j.Schedule
	j.Schedule = Timing{}
	return func() {
		if j.Schedule.Type == "" {
			j.Schedule = was
		} else {
			j.Schedule.keep(&was)
		}
	}
}

// Timing says when a job fires.
type Timing struct {
	Type string `json:"type" enum:"cron,interval,one_time,manual,webhook,event,after" example:"cron"`
	// Expression of a time may leave out the zone: then it is that of the schedule.
	Expression string            `json:"expression,omitempty" maxLength:"1000" doc:"A cron expression, an interval (@every 30m), a time, or the pattern of an event's type." example:"0 9 * * 1-5"`
	Timezone   string            `json:"timezone,omitempty" maxLength:"100" doc:"IANA name. Defaults to UTC." example:"America/New_York"`
	RunAt      string            `json:"run_at,omitempty" maxLength:"100" doc:"The same as expression, for one_time."`
	StartAt    *resource.Time    `json:"start_at,omitempty" doc:"The first moment at which it fires; intervals count from it."`
	Skipped    schedule.Skipped  `json:"skipped,omitempty" enum:"run_after,skip" doc:"Times that a change of clocks leaves out."`
	Repeated   schedule.Repeated `json:"repeated,omitempty" enum:"first,second,both" doc:"Times that a change of clocks brings twice."`
	After      *After            `json:"after,omitempty" doc:"For type after."`
	Filters    resource.Object   `json:"filters,omitempty" doc:"For type event: values by their path in the event's data."`
	Condition  string            `json:"condition,omitempty" maxLength:"4000" doc:"For type event: a condition about the event, by the rules of conditions of steps; true always holds." example:"event.data.p99 > 200"`
}

// keep restores fields that a change omits: the zone, and for the same type all that says how times are meant.
func (t *Timing) keep(was *Timing) {
	if t.Timezone == "" {
		t.Timezone = was.Timezone
	}
	if t.Type != was.Type {
		return
	}
	t.Skipped, t.Repeated = cmp.Or(t.Skipped, was.Skipped), cmp.Or(t.Repeated, was.Repeated)
	t.StartAt, t.After = cmp.Or(t.StartAt, was.StartAt), cmp.Or(t.After, was.After)
	t.Condition = cmp.Or(t.Condition, was.Condition)
	if t.Filters == nil {
		t.Filters = was.Filters
	}
}

// After names the job that another one follows.
type After struct {
	Job string `json:"job_id" maxLength:"128"`
	On  string `json:"on,omitempty" enum:"success,failure,any"` // Defaults to success
}

// maxType is the length of the longest type of an event.
const maxType = 255

// defaultCatchUp limits catch-up after a long outage.
const defaultCatchUp = 7 * 24 * time.Hour

// validID leaves the length to ValidID: {0,127} would be compiled 127 times, at the start of every command.
var validID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]*$`)

// ValidID reports whether an id can be that of a job, webhook or event trigger: 1 to 128 letters, digits and ._:-
func ValidID(id string) bool { return len(id) <= 128 && validID.MatchString(id) }

func (j *Job) enabled() bool { return j.Enabled == nil || *j.Enabled }

// accept validates a job that somebody has written, and compiles its schedule. CodeInvalid.
func (e *entry) accept() (err error) {
	if err = resource.Check(&e.Job); err == nil {
		e.plan, err = e.check()
	}
	return err
}

// check completes a job and compiles its schedule, which is nil for a job without times. CodeInvalid.
func (j *Job) check() (*schedule.Schedule, error) {
	if err := CheckID("job_id", j.ID); err != nil {
		return nil, err
	}
	if err := checkParams(j.Schedule.Filters); err != nil {
		return nil, err
	}
	if j.Target == nil {
		j.Target = &Target{} // its check reports the missing field
	}
	if err := j.Target.Check(); err != nil {
		return nil, err
	}
	var err error
	if j.Misfire, err = schedule.ParseMisfire(string(j.Misfire)); err != nil {
		return nil, err
	}
	if j.Overlap == "" && j.Schedule.Type == TypeAfter {
		j.Overlap = schedule.OverlapQueueAll // each end that it follows counts
	}
	if j.Overlap, err = schedule.ParseOverlap(string(j.Overlap)); err != nil {
		return nil, err
	}
	enabled := j.enabled()
	j.Enabled = &enabled
	return j.Schedule.compile(j)
}

// CatchUp is how old a missed firing may be that runs after all; 0: none does.
func (j *Job) CatchUp() time.Duration {
	if j.Misfire == schedule.SkipMissed {
		return 0
	}
	return j.catchUp()
}

func (j *Job) catchUp() time.Duration {
	if j.CatchUpSeconds == 0 {
		return defaultCatchUp
	}
	return time.Duration(j.CatchUpSeconds) * time.Second
}

// compile checks the fields of the type.
func (t *Timing) compile(j *Job) (*schedule.Schedule, error) {
	t.StartAt, j.ExpiresAt = inUTC(t.StartAt), inUTC(j.ExpiresAt)
	if t.Type != TypeAfter && t.After != nil {
		return nil, stepwell.Invalid("write type: after", "schedule.after is for jobs of type after")
	}
	if t.Type != TypeEvent && (len(t.Filters) > 0 || t.Condition != "") {
		return nil, stepwell.Invalid("write type: event", "schedule.filters and schedule.condition are for jobs of type event")
	}
	if t.Type != TypeOneTime && t.RunAt != "" {
		return nil, stepwell.Invalid("write type: one_time", "schedule.run_at is for jobs of type one_time")
	}
	switch t.Type {
	case TypeOneTime:
		if t.Expression == "" {
			t.Expression, t.RunAt = t.RunAt, ""
		}
		if t.RunAt != "" && t.RunAt != t.Expression {
			return nil, stepwell.Invalid("leave one of them out", "schedule.run_at and schedule.expression differ")
		}
	case TypeManual, TypeWebhook:
		return nil, t.without(t.Expression)
	case TypeEvent:
		if t.Expression == "" || len(t.Expression) > maxType {
			return nil, stepwell.Invalid("such as model.onboarded or model.*", "schedule.expression has to be the type of an event")
		}
		_, err := ParseCondition(t.Condition)
		return nil, err
	case TypeAfter:
		return nil, t.after(j.ID)
	}
	spec, _ := j.Spec()
	return schedule.Parse(spec)
}

// Spec is when the job fires by itself; false: its time decides nothing.
func (j *Job) Spec() (spec schedule.Spec, timed bool) {
	t := &j.Schedule
	spec = schedule.Spec{Zone: t.Timezone, Skipped: t.Skipped, Repeated: t.Repeated, NotBefore: t.StartAt.Moment(), NotAfter: j.ExpiresAt.Moment(),
		MaxRuns: j.MaxRuns, Jitter: time.Duration(j.JitterSeconds) * time.Second}
	switch t.Type {
	case TypeCron:
		spec.Cron = t.Expression
	case TypeInterval:
		spec.Every = t.Expression
	case TypeOneTime:
		spec.At = cmp.Or(t.Expression, t.RunAt)
	default:
		return spec, false
	}
	return spec, true
}

// inUTC is a moment as it is stored, to the millisecond.
func inUTC(t *resource.Time) *resource.Time {
	if t.Moment().IsZero() {
		return nil
	}
	return &resource.Time{Time: t.UTC().Truncate(time.Millisecond)}
}

func (t *Timing) without(expression string) error {
	if expression != "" {
		return stepwell.Invalid("leave it out", "a job of type %s has no expression", t.Type)
	}
	return nil
}

func (t *Timing) after(id string) error {
	if t.After == nil || t.After.Job == "" {
		return stepwell.Invalid("write after: {job_id: …, on: success}", "a job of type after has to name the job it follows")
	}
	if t.After.Job == id {
		return stepwell.Invalid("name another job", "the job follows itself")
	}
	t.After.On = cmp.Or(t.After.On, OnSuccess)
	return t.without(t.Expression)
}

// Label names a job for people.
func (j *Job) Label() string {
	if j.Name == "" {
		return j.ID
	}
	return fmt.Sprintf("%s (%s)", j.Name, j.ID)
}
