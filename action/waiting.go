package action

import "context"

// Poller is implemented by handlers that wait for outside work: a call that resumes after Poll (Call.State is its
// state, and not nil) goes to Poll instead of Run, so that the work is never submitted twice. It returns the same as
// Run, including another action.Poll.
type Poller interface {
	Poll(ctx context.Context, call *Call) (outputs any, err error)
}

// Canceler is implemented by handlers that can stop outside work. It is called outside of attempts, never during Run,
// when a step with a state of action.Poll will not resume: cancelled, timed out, stopped because of another step's
// failure, or restarted; and when an attempt that has called Host.Own is cancelled or times out. Call.State names the
// work; Call.Params is nil, because the call may come from another process, after the execution has ended.
//
// It is called at least once, by any process, perhaps long after: the call is durable with the commit that ends the
// step. So it must be idempotent, and work that is gone already is a success. A call has half a minute. An error of
// action.Fail ends it; after any other it is called again, after 1 s, 2 s, … 5 min, for a day. Errors are in the step's
// log.
type Canceler interface {
	Cancel(ctx context.Context, call *Call) error
}

// Attempt calls the handler for one attempt, or for one more call of it: Poll where there is a state
// and the handler is a Poller, else Run.
func (a *Action) Attempt(ctx context.Context, call *Call) (outputs any, err error) {
	if p, ok := a.Handler.(Poller); ok && call.State != nil {
		return p.Poll(ctx, call)
	}
	return a.Handler.Run(ctx, call)
}
