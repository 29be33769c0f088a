package action

import "context"

// Poller is implemented by handlers that look after work going on elsewhere: a call that goes on after
// Poll (Call.State is what that left, and not nil) comes to Poll instead of Run, so that the work is
// never begun twice. It returns what Run does, another action.Poll included.
type Poller interface {
	Poll(ctx context.Context, call *Call) (outputs any, err error)
}

// Canceler is implemented by handlers that can stop work going on elsewhere. It is called once, in no
// attempt and beside no Run, when a step that left a state to action.Poll will not go on: cancelled, timed
// out, stopped because of a failure beside it, or restarted. Call.State says which work. What a running
// call does is stopped by its context alone.
//
// It has half a minute. Its error is written to the step's log and changes nothing. After a crash of
// the process between the decision and the call it is not called.
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
