package trigger

import (
	"encoding/json"
	"fmt"
	"regexp"
	"time"

	"github.com/stepwell/stepwell"
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

// What an after-job waits for.
const (
	OnSuccess = "success" // completed, also with failures that the pipeline tolerates
	OnFailure = "failure" // failed or timed out
	OnAny     = "any"     // also cancelled
)

// Job is what people write.
type Job struct {
	ID          string   `json:"job_id"` // Defaults to a new UUID
	Name        string   `json:"name,omitempty"`
	Description string   `json:"description,omitempty"`
	Schedule    Timing   `json:"schedule"`
	Callback    Callback `json:"callback"`
	Enabled     *bool    `json:"enabled,omitempty"` // Defaults to true

	Misfire        schedule.Misfire `json:"misfire,omitempty"`          // what is made up for: run_once (default), skip, run_all
	CatchUpSeconds int64            `json:"catch_up_seconds,omitempty"` // nothing older is made up for. Defaults to 7 days, at most 366
	Overlap        schedule.Overlap `json:"overlap,omitempty"`          // while an execution of the job runs: skip (default), queue_one, queue_all (default for type after), cancel_running, allow
	JitterSeconds  int64            `json:"jitter_seconds,omitempty"`   // spreads firings; at most a day. Defaults to none
	MaxRuns        int              `json:"max_runs,omitempty"`         // firings of the schedule itself. Defaults to no limit
	ExpiresAt      time.Time        `json:"expires_at,omitzero"`        // the last moment at which it fires. Defaults to none
}

// Timing says when a job fires.
type Timing struct {
	Type string `json:"type"`
	// Expression is a cron expression, an interval (@every 30m, or 30m), a time (2026-05-01T09:00:00Z, or without a zone
	// in that of the schedule), or the pattern of an event's type.
	Expression string            `json:"expression,omitempty"`
	Timezone   string            `json:"timezone,omitempty"` // IANA name. Defaults to UTC
	RunAt      string            `json:"run_at,omitempty"`   // the same as Expression for one_time
	StartAt    time.Time         `json:"start_at,omitzero"`  // the first moment at which it fires; intervals count from it. Defaults to none
	Skipped    schedule.Skipped  `json:"skipped,omitempty"`  // times that a change of clocks leaves out, see schedule.Spec
	Repeated   schedule.Repeated `json:"repeated,omitempty"` // times that a change of clocks brings twice, see schedule.Spec
	After      *After            `json:"after,omitempty"`
	Filters    Values            `json:"filters,omitempty"` // of an event's data, see event.Trigger
}

// Keep takes over from what was before what a change leaves out: the zone, and for the same type all that says how
// times are meant.
func (t *Timing) Keep(was *Timing) {
	if t.Timezone == "" {
		t.Timezone = was.Timezone
	}
	if t.Type != was.Type {
		return
	}
	if t.Skipped == "" {
		t.Skipped = was.Skipped
	}
	if t.Repeated == "" {
		t.Repeated = was.Repeated
	}
	if t.StartAt.IsZero() {
		t.StartAt = was.StartAt
	}
	if t.After == nil {
		t.After = was.After
	}
	if t.Filters == nil {
		t.Filters = was.Filters
	}
}

// After names the job that another one follows.
type After struct {
	Job string `json:"job_id"`
	On  string `json:"on,omitempty"` // success (default), failure, any
}

// Bounds of what a job may say.
const (
	maxName    = 255
	maxText    = 4000
	maxParams  = 256 << 10 // bytes as JSON
	maxCatchUp = 366 * 24 * time.Hour
	maxJitter  = 24 * time.Hour
)

// defaultCatchUp bounds what is made up for after a long outage.
const defaultCatchUp = 7 * 24 * time.Hour

// validID leaves the length to ValidID: {0,127} would be compiled 127 times, at the start of every command.
var validID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]*$`)

// ValidID reports whether an id can be that of a job, webhook or event trigger: 1 to 128 letters, digits and ._:-
func ValidID(id string) bool { return len(id) <= 128 && validID.MatchString(id) }

func (j *Job) enabled() bool { return j.Enabled == nil || *j.Enabled }

// check completes a job and compiles its schedule, which is nil for one that knows no times. CodeInvalid.
func (j *Job) check() (*schedule.Schedule, error) {
	if !ValidID(j.ID) {
		return nil, stepwell.Invalid("1 to 128 letters, digits and . _ : -, beginning with a letter or digit", "job_id %q cannot be an id", stepwell.Clip(j.ID, 80))
	}
	if err := CheckText(j.Name, j.Description, j.Callback.Params); err != nil {
		return nil, err
	}
	if err := j.Callback.Check(); err != nil {
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
	if j.CatchUpSeconds < 0 || j.CatchUpSeconds > int64(maxCatchUp/time.Second) {
		return nil, stepwell.Invalid("at most 366 days", "catch_up_seconds is out of range")
	}
	if j.JitterSeconds < 0 || j.JitterSeconds > int64(maxJitter/time.Second) {
		return nil, stepwell.Invalid("at most a day", "jitter_seconds is out of range")
	}
	if j.MaxRuns < 0 {
		return nil, stepwell.Invalid("leave it out for no limit", "max_runs is negative")
	}
	enabled := j.enabled()
	j.Enabled = &enabled
	return j.Schedule.compile(j)
}

// CheckText bounds what is only kept: CodeInvalid.
func CheckText(name, description string, params Values) error {
	if len(name) > maxName {
		return stepwell.Invalid("at most 255 bytes", "the name is too long")
	}
	if len(description) > maxText {
		return stepwell.Invalid("at most 4,000 bytes", "the description is too long")
	}
	if raw, err := json.Marshal(params); err != nil || len(raw) > maxParams {
		return stepwell.Invalid("at most 256 KiB as JSON", "params are too large, or no JSON")
	}
	return nil
}

func (j *Job) catchUp() time.Duration {
	if j.CatchUpSeconds == 0 {
		return defaultCatchUp
	}
	return time.Duration(j.CatchUpSeconds) * time.Second
}

// compile checks what belongs to the type.
func (t *Timing) compile(j *Job) (*schedule.Schedule, error) {
	spec := schedule.Spec{Zone: t.Timezone, Skipped: t.Skipped, Repeated: t.Repeated, NotBefore: t.StartAt, NotAfter: j.ExpiresAt,
		MaxRuns: j.MaxRuns, Jitter: time.Duration(j.JitterSeconds) * time.Second}
	if t.Type != TypeAfter && t.After != nil {
		return nil, stepwell.Invalid("write type: after", "schedule.after is for jobs of type after")
	}
	if t.Type != TypeEvent && len(t.Filters) > 0 {
		return nil, stepwell.Invalid("write type: event", "schedule.filters are for jobs of type event")
	}
	if t.Type != TypeOneTime && t.RunAt != "" {
		return nil, stepwell.Invalid("write type: one_time", "schedule.run_at is for jobs of type one_time")
	}
	switch t.Type {
	case TypeCron:
		spec.Cron = t.Expression
	case TypeInterval:
		spec.Every = t.Expression
	case TypeOneTime:
		if t.Expression == "" {
			t.Expression, t.RunAt = t.RunAt, ""
		}
		if t.RunAt != "" && t.RunAt != t.Expression {
			return nil, stepwell.Invalid("leave one of them out", "schedule.run_at and schedule.expression differ")
		}
		spec.At = t.Expression
	case TypeManual, TypeWebhook:
		return nil, t.without(t.Expression)
	case TypeEvent:
		if t.Expression == "" || len(t.Expression) > maxName {
			return nil, stepwell.Invalid("such as model.onboarded or model.*", "schedule.expression has to be the type of an event")
		}
		return nil, nil
	case TypeAfter:
		return nil, t.after(j.ID)
	default:
		return nil, stepwell.Invalid("one of cron, interval, one_time, manual, webhook, event, after", "schedule.type %q is not known", stepwell.Clip(t.Type, 80))
	}
	return schedule.Parse(spec)
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
	switch t.After.On {
	case "":
		t.After.On = OnSuccess
	case OnSuccess, OnFailure, OnAny:
	default:
		return stepwell.Invalid("one of success, failure and any", "schedule.after.on %q is not known", stepwell.Clip(t.After.On, 80))
	}
	return t.without(t.Expression)
}

// Label names a job for people.
func (j *Job) Label() string {
	if j.Name == "" {
		return j.ID
	}
	return fmt.Sprintf("%s (%s)", j.Name, j.ID)
}
