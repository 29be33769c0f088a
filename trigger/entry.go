package trigger

import (
	"encoding/json"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/schedule"
	"github.com/stepwell/stepwell/store"
)

// The kinds of objects.
const (
	kindSchedule = "schedule"
	kindState    = "schedule_state"
)

// stored is the body of a schedule's object.
type stored struct {
	Job
	By string `json:"created_by,omitempty"`
}

// entry is a job in memory.
type entry struct {
	stored
	resource.Meta
	stateRevision int64
	plan          *schedule.Schedule // nil: it knows no times
	broken        error              // why the stored schedule cannot be read
	state         state
	dirty         bool      // the state is ahead of the store
	gone          bool      // deleted
	nominal       time.Time // of its next firing, without jitter; zero: it fires no more by itself
	due           time.Time // when the loop has to look at it; zero: never
	pos           int       // in the heap, -1: not in it
	tries         int       // starts that failed for a while, in a row
	retry         time.Time // nothing is started before
	recheck       time.Time // when to check whether the execution that blocks its firings has ended
}

// readEntry makes an entry of a stored job; a job with an unreadable schedule does not fire, and shows the error.
func readEntry(o *store.Object) (*entry, error) {
	e := &entry{Meta: resource.MetaOf(o), pos: -1}
	if err := json.Unmarshal(o.Body, &e.stored); err != nil {
		return nil, &stepwell.Error{Code: stepwell.CodeInternal, Message: "the stored schedule " + o.ID + " cannot be read", Err: err}
	}
	e.plan, e.broken = e.check()
	e.state.plan = e.plan
	return e, nil
}

func (e *entry) readState(o *store.Object) error {
	e.stateRevision, e.dirty = o.Revision, false
	e.state = state{plan: e.plan}
	if err := json.Unmarshal(o.Body, &e.state); err != nil {
		return &stepwell.Error{Code: stepwell.CodeInternal, Message: "the stored state of schedule " + o.ID + " cannot be read", Err: err}
	}
	return nil
}

func (e *entry) object() (store.Object, error) {
	body, err := json.Marshal(e.stored)
	return store.Object{Kind: kindSchedule, ID: e.ID, Revision: e.Revision, Body: body}, err
}

func (e *entry) stateObject(s state) (store.Object, error) {
	body, err := json.Marshal(s)
	return store.Object{Kind: kindState, ID: e.ID, Revision: e.stateRevision, Body: body}, err
}

// ended says whether it will not fire by itself any more, and why.
func (e *entry) ended(now time.Time) (string, bool) {
	switch {
	case e.over(now):
		return StatusExpired, true
	case e.MaxRuns > 0 && e.state.Fired >= e.MaxRuns:
		return StatusCompleted, true
	}
	return "", false
}

// next is the next time at which it fires by itself, without jitter; zero: never.
func (e *entry) next(now time.Time) time.Time {
	if e.plan == nil || !e.enabled() {
		return time.Time{}
	}
	if _, over := e.ended(now); over {
		return time.Time{}
	}
	at, _ := e.plan.Next(time.Unix(e.state.Last, 0))
	return at
}

// over reports whether the last moment at which it fires has passed.
func (j *Job) over(now time.Time) bool { return j.ExpiresAt != nil && now.After(j.ExpiresAt.Time) }

// view is the job as people see it.
func (e *entry) view(now time.Time) *Status {
	st := &e.state
	v := &Status{Job: e.Job, ScheduleID: e.ID, Status: StatusActive, NextRunAt: resource.At(e.nominal), LastRunAt: resource.At(st.LastRun),
		LastExecution: resource.Ref(st.Execution), LastError: resource.Ref(st.Failed), LastErrorAt: st.FailedAt, RunCount: st.Runs, Dropped: st.Dropped,
		Waiting: len(st.Pending), CreatedBy: resource.Ref(e.By), Meta: e.Meta}
	status, over := e.ended(now)
	switch {
	case over:
		v.Status = status
	case !e.enabled():
		v.Status = StatusPaused
	case e.plan != nil && e.nominal.IsZero() && len(e.state.Pending) == 0:
		v.Status = StatusCompleted
	}
	if e.broken != nil {
		v.LastError = resource.Ref(e.broken.Error())
	}
	return v
}

// begin returns the state of a job that counts from now. A single time that has only just passed still counts: "now"
// must fire.
func (e *entry) begin(now time.Time, grace time.Duration) {
	e.state.Last, e.state.plan = now.Unix(), e.plan
	if e.Schedule.Type == TypeOneTime {
		e.state.Last = now.Add(-grace).Unix()
	}
}
