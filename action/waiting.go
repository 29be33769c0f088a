package action

import "context"

// Poller is implemented by handlers that look after work going on elsewhere: a call that goes on after
// Poll (Call.State is what that left, and not nil) comes to Poll instead of Run, so that the work is
// never begun twice. It returns what Run does, another action.Poll included.
type Poller interface {
	Poll(ctx context.Context, call *Call) (outputs any, err error)
}

// Canceler is implemented by handlers that can stop work going on elsewhere. It is called in no attempt and beside no
// Run, when a step that left a state to action.Poll will not go on: cancelled, timed out, stopped because of a
// failure beside it, or restarted; and when an attempt that has called Host.Own is cancelled or times out. Call.State
// says which work; Call.Params is nil, because the call may come from another process, after the execution has ended.
//
// It is called at least once, by any process, perhaps long after: that it is to be called is durable with the commit that ends
// the step. So it must bear repetition, and work that is gone already is a success. A call has half a minute. An error of
// action.Fail ends it; after any other it is called again, after 1 s, 2 s, … 5 min, for a day. Errors are in the step's log.
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
