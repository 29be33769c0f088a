// Package stepwell holds the words that every other package shares: statuses of executions and
// steps, the coded error and how it is made, the retry policy, the ids of attempts in traces, and how a text
// from outside is shortened.
//
// It imports nothing of the project. Statuses follow docs/semantics: terminal ones absorb, only an
// explicit restart leaves them. The numbers of the statuses are stored; never renumber them.
package stepwell

import "fmt"

// ExecutionStatus is the state of one execution of a pipeline.
type ExecutionStatus uint8

// The states of an execution. Terminal ones are Completed and those after it, except Cancelling.
const (
	ExecutionPending ExecutionStatus = iota
	ExecutionRunning
	ExecutionPaused
	ExecutionCancelling
	ExecutionCompleted
	ExecutionCompletedWithFailures
	ExecutionFailed
	ExecutionCancelled
	ExecutionTimedOut
)

var executionNames = [...]string{"pending", "running", "paused", "cancelling", "completed",
	"completed_with_failures", "failed", "cancelled", "timed_out"}

func (s ExecutionStatus) String() string { return nameOf(executionNames[:], uint8(s)) }

// Terminal reports whether nothing but an explicit restart changes the execution any more.
func (s ExecutionStatus) Terminal() bool { return s >= ExecutionCompleted }

// MarshalText writes the status's name.
func (s ExecutionStatus) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a status's name; an unknown one is CodeInvalid.
func (s *ExecutionStatus) UnmarshalText(b []byte) error {
	n, err := indexOf(executionNames[:], string(b), "execution status")
	*s = ExecutionStatus(n)
	return err
}

// StepStatus is the state of one step (specification pipeline-steps, "Pipeline Step Model", with
// the additions of the other specifications).
type StepStatus uint8

// The states of a step. Terminal ones are StepCompleted and those after it.
const (
	StepPending StepStatus = iota
	StepQueued
	StepRunning
	StepRetrying // waits for its backoff
	StepWaiting  // waits for a timer or an external completion; holds no worker
	StepCompleted
	StepFailed
	StepSkipped
	StepCancelled
	StepTimedOut
)

var stepNames = [...]string{"pending", "queued", "running", "retrying", "waiting", "completed",
	"failed", "skipped", "cancelled", "timed_out"}

func (s StepStatus) String() string { return nameOf(stepNames[:], uint8(s)) }

// Terminal reports whether the step has ended.
func (s StepStatus) Terminal() bool { return s >= StepCompleted }

// MarshalText writes the status's name.
func (s StepStatus) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a status's name; an unknown one is CodeInvalid.
func (s *StepStatus) UnmarshalText(b []byte) error {
	n, err := indexOf(stepNames[:], string(b), "step status")
	*s = StepStatus(n)
	return err
}

func nameOf(names []string, n uint8) string {
	if int(n) < len(names) {
		return names[n]
	}
	return fmt.Sprintf("status(%d)", n)
}

func indexOf(names []string, name, kind string) (uint8, error) {
	for i, n := range names {
		if n == name {
			return uint8(i), nil
		}
	}
	return 0, &Error{Code: CodeInvalid, Message: fmt.Sprintf("unknown %s %q", kind, name)}
}
