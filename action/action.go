// Package action is the contract between Stepwell and the code of a step: Handler, the Call it
// receives, the errors that steer what happens next, and the Registry.
//
// A Handler runs at least once per attempt and must use Call.IdempotencyKey (or Call.Once) for
// side effects that must not happen twice. It is called from many goroutines. Its context ends
// on cancel, timeout and shutdown; a result returned after that is dropped. Stable.
package action

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/stepwell/stepwell"
)

// Handler is the code of an action (pipeline-steps "BaseStep", budpipeline §3.3 "execute").
//
// The result is the step's outputs: nil, a json.RawMessage holding an object, or any value that
// marshals to a JSON object. A plain error counts as a failure that may be retried by the step's
// policy; Fail, Retry, Skip and Wait say more.
type Handler interface {
	Run(ctx context.Context, call *Call) (outputs any, err error)
}

// HandlerFunc makes a Handler of a function.
type HandlerFunc func(ctx context.Context, call *Call) (any, error)

// Run calls f.
func (f HandlerFunc) Run(ctx context.Context, call *Call) (any, error) { return f(ctx, call) }

// Validator is implemented by handlers whose parameters need more checks than their Spec states.
// It is called when a pipeline is validated, with the parameters that contain no template; every
// problem is returned, not just the first. It must not perform I/O.
type Validator interface {
	Validate(params map[string]any) []error
}

// WholeValidator is a Validator that also finds what is missing: it is called in place of Validate where no parameter contains a template.
type WholeValidator interface {
	Validator
	ValidateWhole(params map[string]any) []error
}

// RetryError asks for another attempt after a delay; deferrals (Defer) do not count as attempts.
type RetryError struct {
	After time.Duration
	Defer bool
	Err   error
}

func (e *RetryError) Error() string { return e.Err.Error() }
func (e *RetryError) Unwrap() error { return e.Err }

// Retry fails the attempt and asks that the next one, if the policy allows one, starts no earlier
// than after the given delay (0: the policy's backoff).
func Retry(after time.Duration, err error) error { return &RetryError{After: after, Err: err} }

// Defer puts the step back for the given time without counting an attempt: the answer to a rate
// limit (semantics §3).
func Defer(after time.Duration, err error) error {
	return &RetryError{After: after, Defer: true, Err: err}
}

type failError struct{ err error }

func (e *failError) Error() string { return e.err.Error() }
func (e *failError) Unwrap() error { return e.err }

// Fail fails the step for good: no retry will help.
func Fail(err error) error { return &failError{err} }

// Invalid fails the step for good: its parameters are wrong and will be wrong again.
func Invalid(hint, format string, args ...any) error {
	return Fail(stepwell.Invalid(hint, format, args...))
}

// Pause waits for d. It returns early, with the cause, when ctx ends.
func Pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// IsFail reports whether err was made by Fail.
func IsFail(err error) bool { _, ok := errors.AsType[*failError](err); return ok }

// SkipError ends the step as skipped.
type SkipError struct{ Reason string }

func (e *SkipError) Error() string { return e.Reason }

// Skip ends the step as skipped; its dependents run.
func Skip(reason string) error { return &SkipError{Reason: reason} }

// WaitError gives the worker back until a time comes or something outside completes the step.
type WaitError struct {
	// Until ends the wait. Required, unless Await is set: then zero leaves it to the step's own timeout.
	Until time.Time
	// Outputs become the step's outputs when Until comes (ignored with Resume). With Await, nil means that the
	// step fails then.
	Outputs any
	// Resume runs the handler again at Until, in the same attempt, with State in Call.State.
	Resume bool
	// State is passed to the next call of the handler, and with Await to viewers of the awaited event.
	State json.RawMessage
	// Await lets a signal end the step before Until. Its key is ExternalID.
	Await bool
	// Elsewhere says, with Await, that outside work is awaited: it may finish after another step's failure has stopped
	// new steps. Without it, as with a question to people, the wait ends then.
	Elsewhere bool
	// Require names an output that the signal must give as true; else it fails the step. Defaults to none.
	Require string
	// ExternalID names the outside work, shown to users while the step waits.
	ExternalID string
}

func (e *WaitError) Error() string { return "waits until " + e.Until.Format(time.RFC3339) }

// WaitUntil ends the step with the given outputs at time t, holding no worker and surviving restarts.
func WaitUntil(t time.Time, outputs any) error { return &WaitError{Until: t, Outputs: outputs} }

// Poll runs the handler again at time t with the state in Call.State; same attempt, no worker held.
func Poll(t time.Time, externalID string, state any) error {
	raw, err := json.Marshal(state)
	if err != nil {
		return Fail(&stepwell.Error{Code: stepwell.CodeInternal, Message: "state of the wait", Err: err})
	}
	return &WaitError{Until: t, Resume: true, State: raw, ExternalID: externalID}
}

// Await ends the attempt until something outside says how the step ends: a signal with the key, which may have
// come before. When none has come at time until (zero: never), the step completes with the given outputs, or
// fails if they are nil. It holds no worker and survives restarts.
func Await(key string, until time.Time, outputs any) error {
	return &WaitError{Until: until, Outputs: outputs, Await: true, ExternalID: key}
}
