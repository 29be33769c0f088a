// Package trigger starts executions when it is time: jobs with a schedule, jobs that follow others, and jobs that are
// started by hand, by a webhook or by an event (budpipeline §3.1 and §4.2, docs/semantics §4).
//
// The guarantee is that a firing happens once, whatever crashes when. What a job is to fire is written down before it is
// started (schedule_state), every start carries a key made of the job and the time it stands for, and a start whose key
// has been used finds the execution that there is. So after a crash what was written down is started again, and
// nothing runs twice. Clocks, zones and the policy for missed firings are those of package schedule.
//
// A Schedules holds all jobs in memory, and its loop is Run; what another process changes is seen after Refresh. A Relay hands what the store's
// outbox holds to those who wait for the ends of executions. Webhooks are in package webhook, events in package event.
// Stability: experimental until version 1.
package trigger

import (
	"context"
	"time"
	_ "time/tzdata" // schedules mean the same on every machine

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/pipeline"
	"github.com/stepwell/stepwell/store"
)

// Launcher starts executions; a pipeline.Library is one.
type Launcher interface {
	Launch(ctx context.Context, in pipeline.Launch) (*pipeline.Launched, error)
}

// Executions finds executions; a store is one.
type Executions interface {
	Execution(ctx context.Context, id string) (*store.Execution, error)
}

// Canceler stops executions; a conductor.Conductor is one.
type Canceler interface {
	Cancel(ctx context.Context, id, reason string) error
}

// Keys finds the execution started under a key; implemented by a store.
type Keys interface {
	StartKey(ctx context.Context, key string) (*store.StartKey, error)
}

// Permanent reports whether starting again later would fail in the same way.
func Permanent(err error) bool {
	switch stepwell.CodeOf(err) {
	case stepwell.CodeInvalid, stepwell.CodeNotFound, stepwell.CodeConflict, stepwell.CodeForbidden, stepwell.CodeDenied:
		return true
	}
	return false
}

// stamp is how times are written into parameters: UTC with milliseconds.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

// LowerRole is the lower one of two roles of authors; unknown roles count as an editor's.
func LowerRole(a, b string) string {
	if a == "admin" {
		return b
	}
	return a
}
