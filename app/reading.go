package app

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/feed"
	"github.com/stepwell/stepwell/queue"
	"github.com/stepwell/stepwell/secret"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/store/sqlite"
)

// Timeout and interval of waiting for the other process to carry out a request.
const (
	requestPatience = 5 * time.Second
	requestPause    = 50 * time.Millisecond
)

// followInterval is the polling interval for changes by another process.
const followInterval = 250 * time.Millisecond

// Reading is the API over a database whose executions another process runs: it reads, and leaves changes of executions
// as requests to that process.
type Reading struct {
	*api.Client
	store store.Store
	stop  func()
	hub   chan error
}

// OpenReading opens a database for reading.
func OpenReading(ctx context.Context, o Options) (*Reading, error) {
	s, err := OpenReader(ctx, o.DB, o.Log)
	if err != nil {
		return nil, err
	}
	asks := &requester{o: o, store: s}
	asks.actions = sync.OnceValues(func() (*action.Registry, error) { return Actions(o) })
	asks.conductor = sync.OnceValues(func() (*conductor.Conductor, error) {
		actions, err := asks.actions()
		if err != nil {
			return nil, err
		}
		return conductor.New(context.Background(), conductor.Options{Store: s, Queue: &queue.Memory{}, Blobs: s.Blobs(), Catalog: actions, Log: o.Log})
	})
	client, hub, err := executionsAPI(api.Options{Store: s, Blobs: s.Blobs(), Control: asks, Forecast: asks, Log: o.Log})
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	r := &Reading{Client: client, store: s, stop: stop, hub: make(chan error, 1)}
	go func() { r.hub <- hub.Run(ctx) }()
	return r, nil
}

// Close lets go of the database.
func (r *Reading) Close() error {
	r.stop()
	return errors.Join(<-r.hub, r.store.Close())
}

// executionsAPI is the part of the API that shows and changes executions.
func executionsAPI(o api.Options) (*api.Client, *feed.Hub, error) {
	hub, err := feed.New(feed.Options{Store: o.Store, Show: func(raw json.RawMessage) json.RawMessage { return secret.Mask(raw) }, Log: o.Log,
		Poll: followInterval, Settle: time.Microsecond}) // the lines of an execution are there when its end is
	if err != nil {
		return nil, nil, err
	}
	o.Feed = hub
	client, err := api.NewLocal(o, func(operation string, _ bool) error {
		if strings.HasPrefix(operation, "execution.") && operation != "execution.start" {
			return nil
		}
		return stepwell.Invalid("name one by --server", "a server is needed for this")
	})
	return client, hub, err
}

// requester changes executions by requests in the database, and explains them from stored data.
type requester struct {
	o         Options
	store     store.Store
	actions   func() (*action.Registry, error)
	conductor func() (*conductor.Conductor, error)
}

func (r *requester) Cancel(ctx context.Context, id, reason string) error {
	return r.ask(ctx, id, conductor.RequestCancel, conductor.RequestBody{Reason: reason}, func(now *store.Execution) bool {
		return now.Status == stepwell.ExecutionCancelling
	})
}

func (r *requester) Pause(ctx context.Context, id string) error {
	return r.ask(ctx, id, conductor.RequestPause, conductor.RequestBody{}, func(now *store.Execution) bool { return now.Status == stepwell.ExecutionPaused })
}

func (r *requester) Resume(ctx context.Context, id string) error {
	return r.ask(ctx, id, conductor.RequestResume, conductor.RequestBody{}, func(now *store.Execution) bool { return now.Status == stepwell.ExecutionRunning })
}

func (r *requester) Restart(ctx context.Context, id, step string, failedOnly bool) error {
	before, err := r.store.Execution(ctx, id)
	if err != nil {
		return err
	}
	restarted := func(now *store.Execution) bool {
		for after := before.Version; after < now.Version; {
			events, err := r.store.Events(ctx, before.No, after, 1000)
			if err != nil || len(events) == 0 {
				return false
			}
			for i := range events {
				if after = events[i].Version; events[i].Type == "restart" {
					return true
				}
			}
		}
		return false
	}
	return r.ask(ctx, id, conductor.RequestRestart, conductor.RequestBody{Step: step, FailedOnly: failedOnly}, restarted)
}

// RetryOnce needs a process that runs executions.
func (r *requester) RetryOnce(context.Context, string, string, store.Origin) (string, bool, error) {
	return "", false, stepwell.Errorf(stepwell.CodeUnavailable, "", "nothing runs executions here")
}

// ask leaves a request for the process that runs the executions, and waits a little for its effect.
func (r *requester) ask(ctx context.Context, id, kind string, body conductor.RequestBody, seen func(now *store.Execution) bool) (err error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	s, err := sqlite.Open(ctx, sqlite.Options{Path: r.o.DB, Log: r.o.Log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := s.PutRequest(ctx, store.Request{Execution: id, Kind: kind, Body: raw}); err != nil {
		return err
	}
	for until := time.Now().Add(requestPatience); ; {
		now, err := r.store.Execution(ctx, id)
		switch {
		case err != nil:
			return err
		case seen(now) || kind != conductor.RequestRestart && now.Status.Terminal():
			return nil
		case time.Now().After(until):
			return stepwell.Errorf(stepwell.CodeTimeout, "the request stays; that process says in its own output when it refuses one",
				"the process that runs the executions has not acted on the %s within %s; the execution is %s", kind, requestPatience, now.Status)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(requestPause):
		}
	}
}

func (r *requester) Why(ctx context.Context, id, step string) ([]engine.Reason, error) {
	c, err := r.conductor()
	if err != nil {
		return nil, err
	}
	return c.Why(ctx, id, step)
}

func (r *requester) PreviewRestart(ctx context.Context, id, step string, failedOnly bool) (*engine.Forecast, error) {
	c, err := r.conductor()
	if err != nil {
		return nil, err
	}
	return c.PreviewRestart(ctx, id, step, failedOnly)
}

func (r *requester) PreviewRetry(ctx context.Context, id, from string) (*engine.Forecast, error) {
	c, err := r.conductor()
	if err != nil {
		return nil, err
	}
	return c.PreviewRetry(ctx, id, from)
}

// Wait polls: another process sends no notification.
func (r *requester) Wait(ctx context.Context, id string) (*store.Execution, error) {
	for {
		x, err := r.store.Execution(ctx, id)
		if err != nil || x.Status.Terminal() {
			return x, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(followInterval):
		}
	}
}

// Client is the API over the executions of a, in this process.
func (a *App) Client() (*api.Client, error) {
	client, _, err := executionsAPI(api.Options{Store: a.Store, Blobs: a.Store.Blobs(), Control: here{a.Conductor, a.Store}, Forecast: a.Conductor, Redact: a.Secrets, Catalog: a.Actions, Log: a.log})
	return client, err
}

// here changes executions that this process runs.
type here struct {
	*conductor.Conductor
	store store.Reader
}

// Resume also takes up an execution that was interrupted.
func (h here) Resume(ctx context.Context, id string) error {
	x, err := h.store.Execution(ctx, id)
	if err != nil {
		return err
	}
	if x.Status != stepwell.ExecutionPaused {
		return h.Recover(ctx, id)
	}
	return h.Conductor.Resume(ctx, id)
}
