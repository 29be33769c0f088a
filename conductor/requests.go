package conductor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/store"
)

// The kinds of requests that other processes may leave in the store.
const (
	RequestCancel  = "cancel"
	RequestPause   = "pause"
	RequestResume  = "resume"
	RequestRestart = "restart"
	RequestSignal  = "signal" // Request.Execution is empty
	RequestStart   = "start"
	// RequestDeliver is a signal that another process has stored, for steps here that await it; Request.Execution is empty.
	RequestDeliver = "deliver"
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
	At     int64           `json:"at,omitempty"`     // of one to be delivered: when it was stored, in µs
	// Of a start; Request.Execution is the id that the execution gets.
	Definition []byte          `json:"definition,omitempty"` // hash of the stored snapshot
	Params     json.RawMessage `json:"params,omitempty"`     // may be sealed
	Trigger    string          `json:"trigger,omitempty"`
	Dir        string          `json:"dir,omitempty"`
	About      json.RawMessage `json:"about,omitempty"`
	Reuse      []string        `json:"reuse,omitempty"`
	Origin     *store.Origin   `json:"origin,omitempty"`
}

// StartRequest returns the request for an execution of a registered pipeline. Secret parameters are
// sealed.
func (c *Conductor) StartRequest(req Request) (out store.Request, err error) {
	body := RequestBody{Definition: req.Pipeline.Hash[:], Trigger: req.Trigger, Dir: req.Dir, About: req.About, Reuse: req.Reuse, Origin: &req.Origin}
	if body.Params, err = expr.Marshal(req.Params); err != nil {
		return out, err
	}
	seal := func(raw []byte) ([]byte, error) { return c.o.Secrets.Seal("", raw), nil }
	if slices.ContainsFunc(req.Pipeline.Parameters, func(p definition.Parameter) bool { return p.Secret }) {
		seal = c.o.Secrets.SealWhole
	}
	if body.Params, err = seal(body.Params); err != nil {
		return out, err
	}
	out.Kind = RequestStart
	if out.Execution, err = c.o.NewID(); err != nil {
		return out, err
	}
	out.Body, err = json.Marshal(&body)
	return out, err
}

// startRequested starts the execution of a request, once: it has the id of the request.
func (c *Conductor) startRequested(ctx context.Context, id string, body *RequestBody) error {
	p, err := c.snapshot(ctx, body.Definition)
	if err != nil {
		return err
	}
	raw, err := c.o.Secrets.OpenWhole(body.Params)
	if err != nil {
		return err
	}
	req := Request{Pipeline: p, Trigger: body.Trigger, Dir: body.Dir, About: body.About, Reuse: body.Reuse, id: id}
	if body.Origin != nil {
		req.Origin = *body.Origin
	}
	if req.Params, err = decodeObject(raw); err == nil {
		_, _, err = c.StartOnce(ctx, req)
	}
	return err
}

// TakeRequests carries out other processes' requests. A refused request is logged and dropped: the requester sees the
// execution's state. Requests left at the stop of this process wait for the next, and those about an execution of another
// process are left to that one.
func (c *Conductor) TakeRequests(ctx context.Context) {
	for stopping := false; ; {
		list, err := c.o.Store.TakeRequests(ctx, c.o.Owner, 100)
		if err != nil {
			c.o.Log.Error("requests could not be read", "error", err)
			return
		}
		for _, r := range list {
			err := c.carryOut(ctx, r)
			if e, ok := errors.AsType[*ElsewhereError](err); ok {
				if r.Owner, err = strconv.ParseInt(e.Node, 10, 64); err == nil {
					err = c.o.Store.PutRequest(context.WithoutCancel(ctx), r)
				}
			}
			switch away := err != nil && (ctx.Err() != nil || stepwell.CodeOf(err) == stepwell.CodeUnavailable); {
			case away && r.Owed: // it is there still
				stopping, err = true, nil
			case away:
				stopping = true
				err = c.o.Store.PutRequest(context.WithoutCancel(ctx), r)
			case r.Owed:
				err = firstError(err, c.o.Store.RequestDone(context.WithoutCancel(ctx), r.No))
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
	case RequestStart:
		return c.startRequested(ctx, r.Execution, &body)
	case RequestDeliver:
		if err := c.passOn(ctx, r, body.Key); err != nil {
			return err
		}
		return c.DeliverStored(ctx, store.Signal{Key: body.Key, ID: body.ID, Body: body.Signal, At: time.UnixMicro(body.At)})
	case RequestSignal:
		_, _, err := c.Signal(ctx, store.Signal{Key: body.Key, ID: body.ID, Body: body.Signal})
		return err
	}
	return &stepwell.Error{Code: stepwell.CodeInvalid, Message: fmt.Sprintf("unknown request %q", r.Kind)}
}

// passOn leaves a request to deliver a signal that was for a dead process to those that run its executions now, or will. Those that this
// process has taken over, perhaps a moment ago, are taken up first: before that their steps await nothing here.
func (c *Conductor) passOn(ctx context.Context, r store.Request, key string) error {
	if r.Owner == c.o.Owner {
		return nil
	}
	waiting, err := c.o.Store.Awaiting(ctx, []string{key})
	told := map[int64]bool{0: true, c.o.Owner: true}
	for _, w := range waiting {
		if err == nil && w.Owner == c.o.Owner {
			err = c.recoverOne(ctx, w.Execution)
		}
		if err == nil && !told[w.Owner] {
			err = c.o.Store.PutRequest(ctx, store.Request{Owner: w.Owner, Kind: r.Kind, Body: r.Body})
		}
		told[w.Owner] = true
	}
	return err
}
