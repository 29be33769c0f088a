package trigger

import (
	"fmt"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/schedule"
)

// state is the stored state of a job. It is written before the actions that it describes.
type state struct {
	Last      int64     `json:"last"`           // Unix time of the latest firing that was dealt with, or of when the job began to count
	Outbox    int64     `json:"outbox"`         // number of the latest entry of the outbox that was dealt with
	Fired     int       `json:"fired"`          // firings of the schedule itself, for max_runs
	Runs      int       `json:"runs"`           // executions
	Dropped   int       `json:"dropped"`        // firings left out because of an execution that ran
	Active    []string  `json:"active"`         // executions that may still run
	Pending   []firing  `json:"pending"`        // firings to start, in order
	LastRun   time.Time `json:"last_run"`       // when the latest execution was started
	Execution string    `json:"last_execution"` // which that was
	Failed    string    `json:"last_error"`     // why the latest firing could not be started
	FailedAt  time.Time `json:"last_error_at"`
	Ledger    int64     `json:"ledger,omitempty"` // number of the latest row of the ledger
	Rows      []row     `json:"rows,omitempty"`   // the latest rows; those before are in chunks

	plan *schedule.Schedule // the job's, which orders its times; nil: it has no times
}

// firing is one start that has been decided.
type firing struct {
	At    int64  `json:"at"`              // the Unix time it stands for
	From  string `json:"from,omitempty"`  // the execution it follows
	Ended string `json:"ended,omitempty"` // the status of that
	Again string `json:"again,omitempty"` // the backfill that repeats past firings
	Held  bool   `json:"held,omitempty"`  // waits for an earlier execution
	Late  bool   `json:"late,omitempty"`  // a catch-up run or a backfill: it is not dropped for an execution that runs
	Fill  bool   `json:"fill,omitempty"`  // backfilled: the execution may be older than the wish
	By    string `json:"by,omitempty"`    // the author of the backfill
}

// key makes the start happen once.
func (f firing) key(job string) string {
	switch {
	case f.From != "":
		return "after:" + job + ":" + f.From
	case f.Again != "":
		return fmt.Sprintf("backfill:%s:%s:%d", f.Again, job, f.At)
	}
	return fmt.Sprintf("schedule:%s:%d", job, f.At)
}

func (f firing) time() time.Time { return time.Unix(f.At, 0).UTC() }

// The most executions of a job that are remembered as running.
const maxActive = 100

// ran counts a started execution.
func (s *state) ran(now time.Time, execution string) {
	s.Runs++
	s.LastRun, s.Execution = now, execution
	s.Failed, s.FailedAt = "", time.Time{}
}

// failed takes in that a firing cannot be started.
func (s *state) failed(why string, now time.Time) {
	s.Failed, s.FailedAt = stepwell.Clip(why, 80), now
}

// The states of a job.
const (
	StatusActive    = "active"
	StatusPaused    = "paused"
	StatusExpired   = "expired"
	StatusCompleted = "completed" // it does not fire any more: max_runs, or its time has come
)

// Status is a job and its last outcomes.
type Status struct {
	Job
	ScheduleID    string            `json:"schedule_id" doc:"The same as job_id."`
	Status        string            `json:"status" enum:"active,paused,expired,completed"`
	NextRunAt     resource.Time     `json:"next_run_at"` // with jitter left out
	LastRunAt     resource.Time     `json:"last_run_at"`
	LastExecution resource.Ref      `json:"last_execution_id"`
	LastError     resource.Ref      `json:"last_error" doc:"Why the latest firing could not be started."`
	LastErrorAt   time.Time         `json:"-"`
	RunCount      int               `json:"run_count"`
	Dropped       int               `json:"dropped_count" doc:"Firings left out because an execution was running."`
	Waiting       int               `json:"waiting_count" doc:"Firings that wait for an execution to end."`
	CreatedBy     resource.Ref      `json:"created_by"`
	Warnings      []resource.Detail `json:"warnings,omitempty" nullable:"false" doc:"What its author may not have meant, told when it is stored."`
	resource.Meta
}

// Errors gives access to the error's text, to hide secrets in it.
func (s *Status) Errors() *resource.Ref { return &s.LastError }

// Identity is the id.
func (s *Status) Identity() string { return s.ID }

// Shown is the status itself: a new job is shown as any other.
func (s *Status) Shown() *Status { return s }
