package pipelinerun

import (
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

// The statuses of a run. Paused is ours: the specification has no pause.
const (
	Queued  = "queued"
	Running = "running"
	Paused  = "paused"
	Done    = "done"
	Failed  = "failed"
)

// Pending is the status of a step that has not begun, or begins again later. Steps are also Running, Done and Failed.
const Pending = "pending"

// runStatuses is the status of a run by that of its execution. A running one of which no step has begun is Queued.
var runStatuses = map[stepwell.ExecutionStatus]string{
	stepwell.ExecutionPending:               Queued,
	stepwell.ExecutionRunning:               Running,
	stepwell.ExecutionPaused:                Paused,
	stepwell.ExecutionCancelling:            Running,
	stepwell.ExecutionCompleted:             Done,
	stepwell.ExecutionCompletedWithFailures: Failed,
	stepwell.ExecutionFailed:                Failed,
	stepwell.ExecutionCancelled:             Failed,
	stepwell.ExecutionTimedOut:              Failed,
}

// stepStatuses is the status of a step by ours. A skipped one that a failure or a stop has kept from running is Pending, and so is a
// cancelled one that has not begun.
var stepStatuses = map[stepwell.StepStatus]string{
	stepwell.StepPending:   Pending,
	stepwell.StepQueued:    Pending,
	stepwell.StepRetrying:  Pending,
	stepwell.StepRunning:   Running,
	stepwell.StepWaiting:   Running,
	stepwell.StepCompleted: Done,
	stepwell.StepSkipped:   Done,
	stepwell.StepFailed:    Failed,
	stepwell.StepCancelled: Failed,
	stepwell.StepTimedOut:  Failed,
}

// runStatus is the status of a run; begun: one of its steps has.
func runStatus(s stepwell.ExecutionStatus, begun bool) string {
	if s == stepwell.ExecutionRunning && !begun {
		return Queued
	}
	return runStatuses[s]
}

// stepStatus is the status of a step.
func stepStatus(s *store.Step) string {
	if s.Status == stepwell.StepSkipped && !skippedByChoice(s) || s.Status == stepwell.StepCancelled && s.Attempt == 0 {
		return Pending
	}
	return stepStatuses[s.Status]
}

// skippedByChoice reports whether a skipped step did not have to run: its condition is false, or its action says so.
func skippedByChoice(s *store.Step) bool {
	return s.Attempt > 0 || s.Error != nil && (s.Error.Choice || oldChoice(s.Error.Message))
}

// oldChoice reads from the message what rows of before 2026-11-23 do not have (Failure.Choice).
func oldChoice(message string) bool {
	return strings.HasPrefix(message, "condition is false: ") || message == "none of the steps before it failed"
}

// selected are the statuses of executions whose runs may have a status.
func selected(status string) (list []stepwell.ExecutionStatus) {
	for s := stepwell.ExecutionPending; s <= stepwell.ExecutionTimedOut; s++ {
		if runStatuses[s] == status || s == stepwell.ExecutionRunning && status == Queued {
			list = append(list, s)
		}
	}
	return list
}
