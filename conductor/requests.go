package conductor

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

// The kinds of requests that other processes may leave in the store.
const (
	RequestCancel  = "cancel"
	RequestPause   = "pause"
	RequestResume  = "resume"
	RequestRestart = "restart"
	RequestSignal  = "signal" // Request.Execution is empty
)

// RequestBody is the body of a request.
type RequestBody struct {
	Reason     string `json:"reason,omitempty"`
	Step       string `json:"step,omitempty"`
	FailedOnly bool   `json:"failed_only,omitempty"`
	// Of a signal.
	Key    string          `json:"key,omitempty"`
	ID     string          `json:"id,omitempty"`
	Signal json.RawMessage `json:"signal,omitempty"` // its body, an Answer
}

// TakeRequests carries out other processes' requests. A refused request is logged and dropped: the requester sees the
// execution's state. Requests left at the stop of this process wait for the next.
func (c *Conductor) TakeRequests(ctx context.Context) {
	for stopping := false; ; {
		list, err := c.o.Store.TakeRequests(ctx, c.o.Owner, 100)
		if err != nil {
			c.o.Log.Error("requests could not be read", "error", err)
			return
		}
		for _, r := range list {
			err := c.carryOut(ctx, r)
			if err != nil && (ctx.Err() != nil || stepwell.CodeOf(err) == stepwell.CodeUnavailable) {
				stopping = true
				err = c.o.Store.PutRequest(context.WithoutCancel(ctx), r)
			}
			if err != nil {
				c.o.Log.Warn("a request was refused", "request", r.Kind, "execution", r.Execution, "error", err)
			}
		}
		if len(list) < 100 || stopping {
			return
		}
	}
}

func (c *Conductor) carryOut(ctx context.Context, r store.Request) error {
	var body RequestBody
	if len(r.Body) > 0 {
		if err := json.Unmarshal(r.Body, &body); err != nil {
			return fmt.Errorf("body: %w", err)
		}
	}
	switch r.Kind {
	case RequestCancel:
		return c.Cancel(ctx, r.Execution, body.Reason)
	case RequestPause:
		return c.Pause(ctx, r.Execution)
	case RequestResume:
		return c.Resume(ctx, r.Execution)
	case RequestRestart:
		return c.Restart(ctx, r.Execution, body.Step, body.FailedOnly)
	case RequestSignal:
		_, _, err := c.Signal(ctx, store.Signal{Key: body.Key, ID: body.ID, Body: body.Signal})
		return err
	}
	return &stepwell.Error{Code: stepwell.CodeInvalid, Message: fmt.Sprintf("unknown request %q", r.Kind)}
}
