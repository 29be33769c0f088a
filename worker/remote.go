package worker

import (
	"context"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/engine"
)

// Remote is this process's side of an attempt that a worker elsewhere runs: it checks, seals and stores what that
// worker reports exactly as if the handler ran here. Its methods are safe for concurrent use.
type Remote struct {
	attempt
	mu sync.Mutex
}

// Remote takes an attempt over to a worker elsewhere. The attempt has no time limit here. Close it.
func (r *Runner) Remote(ctx context.Context, p Prepared) *Remote {
	x := &Remote{}
	x.describe(ctx, r, p.Task)
	x.ctx, x.cancel = context.WithCancelCause(ctx)
	x.Prepared = p
	if p.Input != nil {
		x.input.Store(&p.Input)
	}
	return x
}

// Close ends the attempt here.
func (x *Remote) Close() { x.cancel(nil) }

// Host serves the requests of the attempt.
func (x *Remote) Host() action.Host { return &x.host }

// Callback is the address at which something outside can end the step; see action.Call.
func (x *Remote) Callback(ctx context.Context) (key, url string, err error) { return x.callback(ctx) }

// Timeout is the time limit of the handler.
func (x *Remote) Timeout() time.Duration { return x.timeout }

// Ended says how an attempt ended that ran elsewhere.
type Ended struct {
	Worker  string
	Ran     time.Duration
	Outputs any   // as a handler returns them
	Err     error // likewise
	Used    *stepwell.Resources
	Revoked bool // it was stopped on request
}

// Conclude is the outcome to report of an attempt that has ended elsewhere. It stores large outputs, and waits while
// the store is away.
func (x *Remote) Conclude(e Ended) engine.Event {
	x.mu.Lock()
	defer x.mu.Unlock()
	var cause error
	switch {
	case e.Err == nil || action.IsFail(e.Err):
	case e.Revoked && stepwell.CodeOf(e.Err) == stepwell.CodeCancelled:
		e.Err, cause = errRevoked, errRevoked
	case e.Ran >= x.timeout && stepwell.CodeOf(e.Err) == stepwell.CodeTimeout:
		e.Err, cause = errDeadline, errDeadline
	}
	x.started = x.r.o.Now().Add(-e.Ran)
	x.begun.Store(true)
	x.told = e.Used
	ev, _ := x.outcome(e.Outputs, e.Err, cause)
	ev.Worker = e.Worker
	return ev
}

// Running is the report that a worker elsewhere runs the attempt.
func (x *Remote) Running(worker string, since time.Time) engine.Event {
	ev := x.running(x.r.o.Now())
	ev.Worker, ev.Started = worker, since.UnixMicro()
	return ev
}
