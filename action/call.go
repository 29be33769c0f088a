package action

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/spec"
)

// Host is the system's interface for a running step. The worker implements it; actiontest has one for tests of
// handlers. Its methods are safe for concurrent use.
type Host interface {
	// Spawn adds steps to the execution and returns when they are durable (pipeline-steps "Dynamic
	// Step Spawning"). They may start at once.
	Spawn(ctx context.Context, steps []NewStep) error
	// Log adds one line to the step's log. It never blocks for long and never fails the step.
	Log(level slog.Level, message string, attrs ...slog.Attr)
	// Progress reports the share done, 0..1, and a short note; cheap, may be called often.
	Progress(fraction float64, note string)
	// Advance reports that the attempt has made durable progress that the next one need not repeat: a worker lost after
	// that does not count against the step. Cheap, may be called often.
	Advance()
	// Count reports the items of a stream step; cheap, may be called often.
	Count(c Counts)
	// Member is the host of one of the steps that this one stands for (Members), by its id: logs, progress
	// and counts go there. An unknown id is the step itself.
	Member(id string) Host
	// Data is the accumulated execution data: the outputs of all steps ended so far, merged in
	// completion order (later ones win per top-level key).
	Data(ctx context.Context) (map[string]json.RawMessage, error)
	// Outputs are the outputs of one step of the execution by key; CodeNotFound if it has none.
	Outputs(ctx context.Context, key string) (json.RawMessage, error)
	// Recall returns the value that Record stored under the key in any attempt of this step.
	Recall(ctx context.Context, key string) (json.RawMessage, bool, error)
	// Record stores a value durably under the key for all attempts of this step.
	Record(ctx context.Context, key string, value json.RawMessage) error
	// Own makes it known, durably, that work is going on outside, described by state as action.Poll describes it: a
	// handler that is also a Canceler calls it as soon as the work has begun. When this attempt is cancelled or times out, Cancel
	// is called with the state; when it ends in any other way, the work is taken to have ended too. Later calls
	// replace the state.
	Own(ctx context.Context, state json.RawMessage) error
	// Eval evaluates a template with the step's scope plus the given extra names.
	Eval(template string, extra map[string]any) (any, error)
	// Scope is the scope of the step's templates, for handlers that compile templates themselves. It is safe for
	// concurrent use during the call.
	Scope() Scope
}

// Scope gives the root names of templates, such as params and steps.
type Scope interface {
	Lookup(name string) (any, bool)
}

// Counts are the items of a stream step so far.
type Counts struct {
	In      int64 `json:"items_in"`
	Out     int64 `json:"items_out"`
	Failed  int64 `json:"items_failed"`
	Dropped int64 `json:"items_dropped"` // by a modifier, or by a branch of a join
	Skipped int64 `json:"items_skipped"` // done in an earlier run
	Total   int64 `json:"-"`             // expected, 0: not known
	// Busy is how long it worked, without waiting for the steps around it, in milliseconds; of a step that several
	// goroutines run, their mean. 0: it has not been looked at yet.
	Busy int64 `json:"busy_ms,omitempty"`
	// Room is how many items may wait in front of it, as long as none becomes several on its way; 0: nobody says. It is told
	// while items flow, and is no part of what has become of them.
	Room int64 `json:"items_room,omitempty"`
}

// Members is the result of a handler whose step stands for several: the steps of a stream's segment, which
// are dispatched as one (semantics §6).
type Members struct {
	Outputs map[string]any // of each, by its id; missing ones have none
	// Partial says that items have failed: the execution then completes with failures (stac-manager §9.1).
	Partial bool
	// Failed and Stopped accompany an error: the failed steps, and the steps stopped by the failure of another, whose
	// id is the value. The others completed. If both are empty, the outcomes are unknown.
	Failed  map[string]error
	Stopped map[string]string
	// Counts are those of stream steps, by their ids; also set with an error.
	Counts map[string]Counts
	// Footprints says that it is known where items are: the API shows them on a map. Also set with an error.
	Footprints bool
}

// MemberError is the failure of a step that stands for several, because of one of them.
type MemberError struct {
	Member string // its id
	Err    error
}

func (e *MemberError) Error() string { return e.Member + ": " + e.Err.Error() }
func (e *MemberError) Unwrap() error { return e.Err }

// NewStep is a step that a running step adds to its execution. Its key is Name, or "Name:Key" when
// Key is set; the same key with the same params again is the same step, with others CodeConflict.
type NewStep struct {
	Name      string          `json:"name"`             // groups instances; dependencies may name it
	Key       string          `json:"key,omitempty"`    // distinguishes instances of the name
	Action    string          `json:"action,omitempty"` // Defaults to Name
	DependsOn []string        `json:"depends_on,omitempty"`
	Params    map[string]any  `json:"params,omitempty"`
	Retry     *stepwell.Retry `json:"retry,omitempty"`
	// OnFailure is "fail" (the execution fails) or "continue". Defaults to "fail".
	OnFailure string        `json:"on_failure,omitempty"`
	Timeout   time.Duration `json:"timeout,omitempty"` // Defaults to the action's
}

// StepKey is the key of the step within its execution: Name, or "Name:Key".
func (s *NewStep) StepKey() string {
	if s.Key == "" {
		return s.Name
	}
	return s.Name + ":" + s.Key
}

// Call is one attempt of one step.
type Call struct {
	Execution string          // id of the execution
	GoesOn    string          // id of the execution that this one retries and resumes from, "" for none
	Pipeline  string          // name of the pipeline
	StepKey   string          // unique within the execution
	StepName  string          // name, shared by instances
	Action    string          // name under which the action was called
	Attempt   int             // 1 = first
	Epoch     uint32          // counts the attempts of all restarts; 0: not known. See Task.Epoch of package engine
	Params    map[string]any  // rendered, checked against the Spec, defaults applied
	State     json.RawMessage // the state of the last Poll, nil on the first call of an attempt
	Deadline  time.Time       // end of the attempt's timeout
	Dir       string          // directory against which relative paths in params are resolved
	Host      Host
	Media     string // the local file of the lesson that the execution is about, where params name it; it must not be changed
	// Allow is CodeDenied when the step may not use an action, for handlers that run others. Nil: all are allowed.
	Allow func(action string) error
	// Touch is CodeDenied when the step may not read or write a file or directory. Nil: it may touch all. See May.
	Touch func(path string) error
	// Callbacks gives the step an address; see Callback. Nil: there is none.
	Callbacks func(ctx context.Context) (key, url string, err error)
	// Trace makes the attempt's trace context; see Traceparent. Nil: there is none.
	Trace func() string
}

// May ends the step when it may not touch a file or directory that its parameters name.
func (c *Call) May(path string) error {
	if c.Touch == nil {
		return nil
	}
	if err := c.Touch(path); err != nil {
		return Fail(err)
	}
	return nil
}

// IdempotencyKey is the same for every attempt of the step, and different for every other step.
func (c *Call) IdempotencyKey() string { return c.Execution + "/" + c.StepKey }

// Callback is the address at which something outside can end the step while it awaits the key (Await). Attempts
// share it until one has awaited it. CodeInvalid: nothing outside can reach this process.
func (c *Call) Callback(ctx context.Context) (key, url string, err error) {
	if c.Callbacks == nil {
		return "", "", &stepwell.Error{Code: stepwell.CodeInvalid, Message: "nothing outside can call this process back", Hint: "run it as a server, and set its public address"}
	}
	return c.Callbacks(ctx)
}

// Traceparent is the W3C trace context of the attempt, for its outgoing requests. "" if there is none.
func (c *Call) Traceparent() string {
	if c.Trace == nil {
		return ""
	}
	return c.Trace()
}

// Bind sets a struct from the parameters; see spec.Bind.
func (c *Call) Bind(into any) error {
	if err := spec.Bind(c.Params, into); err != nil {
		return Fail(err)
	}
	return nil
}

// Spawn adds steps to the execution; see Host.
func (c *Call) Spawn(ctx context.Context, steps ...NewStep) error { return c.Host.Spawn(ctx, steps) }

// Log adds an info line to the step's log.
func (c *Call) Log(message string, attrs ...slog.Attr) { c.Host.Log(slog.LevelInfo, message, attrs...) }

// Once runs f at most once successfully over all attempts of the step and keeps its result: a
// later attempt gets the first result without running f. A crash between f's end and the record
// runs f again, so f should be repeatable or use IdempotencyKey. Of two workers that run f at the same
// time both get the result that was recorded first.
func Once[T any](ctx context.Context, c *Call, key string, f func(context.Context) (T, error)) (T, error) {
	var value T
	raw, ok, err := c.Host.Recall(ctx, key)
	if err != nil {
		return value, err
	}
	if ok {
		return value, json.Unmarshal(raw, &value)
	}
	if value, err = f(ctx); err != nil {
		return value, err
	}
	if raw, err = json.Marshal(value); err != nil {
		return value, Fail(fmt.Errorf("once %s: %w", key, err))
	}
	if err := c.Host.Record(ctx, key, raw); err != nil {
		return value, err
	}
	stored, ok, err := c.Host.Recall(ctx, key)
	if err != nil || !ok || bytes.Equal(stored, raw) {
		return value, err
	}
	var first T
	return first, json.Unmarshal(stored, &first)
}
