package app

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/api/client"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/estimate"
	"github.com/stepwell/stepwell/feed"
	"github.com/stepwell/stepwell/pipeline"
	"github.com/stepwell/stepwell/plan"
	"github.com/stepwell/stepwell/queue"
	"github.com/stepwell/stepwell/secret"
	"github.com/stepwell/stepwell/store"
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
	*client.Client
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
	catalog, err := asks.actions() // of which steps of another step are found
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	files := &App{streams: o.streamFiles(), places: o.places(nil)}
	client, hub, err := executionsAPI(pipeline.Options{Objects: s, Runner: asks, Executions: s, Catalog: catalog, Log: o.Log}, api.Options{Store: s, Blobs: s.Blobs(), Control: asks, Forecast: asks, Signals: asks, Catalog: catalog, Log: o.Log,
		StreamFailures: files.StreamFailures, Footprints: files.Footprints, FindItem: files.FindItem})
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

// executionsAPI is the part of the API that shows and changes executions, and shows what they wait for.
func executionsAPI(stored pipeline.Options, o api.Options) (_ *client.Client, _ *feed.Hub, err error) {
	o.Estimates = estimate.New(o.Store, nil)
	o.Pipelines, err = pipeline.New(stored) // whose texts executions have
	if err != nil {
		return nil, nil, err
	}
	hub, err := localFeed(o.Store, o.Estimates, o.Log)
	if err != nil {
		return nil, nil, err
	}
	o.Feed = hub
	return client.Local(api.NewLocal(o, func(operation string, _ bool) error {
		if strings.HasPrefix(operation, "execution.") && operation != "execution.start" || operation == "approval.get" {
			return nil
		}
		return stepwell.Invalid("name one by --server", "a server is needed for this")
	})), hub, nil
}

// localFeed follows executions for one command: changes by another process are polled for, and the lines of an execution
// are there when its end is.
func localFeed(s feed.Store, estimates *estimate.Book, log *slog.Logger) (*feed.Hub, error) {
	return feed.New(feed.Options{Store: s, Estimates: estimates, Show: func(raw json.RawMessage) json.RawMessage { return secret.Mask(raw) }, Log: log, Poll: followInterval, Settle: time.Microsecond})
}

// requester changes executions by requests in the database, and explains them from stored data.
type requester struct {
	o         Options
	store     store.Store
	actions   func() (*action.Registry, error)
	conductor func() (*conductor.Conductor, error)
	catalog   *action.Registry // of starts, as the keys
	keys      *secret.Keyring
	decided   atomic.Bool // a decision was taken by the other process
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
	return r.ask(ctx, id, conductor.RequestResume, conductor.RequestBody{}, func(now *store.Execution) bool {
		return now.Status == stepwell.ExecutionRunning || now.Status == stepwell.ExecutionPending
	})
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

// Signal implements api.Signals: it leaves a request, and waits a little until the signal is stored or delivered.
func (r *requester) Signal(ctx context.Context, s store.Signal) (fresh, delivered bool, err error) {
	raw, err := json.Marshal(conductor.RequestBody{Key: s.Key, ID: s.ID, Signal: s.Body})
	if err != nil {
		return false, false, err
	}
	err = r.write(ctx, func(w Store) error { return w.PutRequest(ctx, store.Request{Kind: conductor.RequestSignal, Body: raw}) })
	if err != nil {
		return false, false, err
	}
	err = r.seen(ctx, "decision", func() (bool, string, error) {
		waiting, err := r.store.Awaiting(ctx, []string{s.Key})
		if err != nil || len(waiting) == 0 {
			delivered = err == nil
			return delivered, "", err
		}
		stored, err := r.store.SignalsFor(ctx, []string{s.Key})
		return len(stored) > 0, "waiting", err
	})
	r.decided.Store(err == nil)
	return err == nil, delivered, err
}

// Awaiting implements api.Signals.
func (r *requester) Awaiting(ctx context.Context, id string) ([]engine.Await, error) {
	c, err := r.conductor()
	if err != nil {
		return nil, err
	}
	return c.Awaiting(ctx, id)
}

// ask leaves a request for the process that runs the executions, and waits a little for its effect.
func (r *requester) ask(ctx context.Context, id, kind string, body conductor.RequestBody, effect func(now *store.Execution) bool) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	err = r.write(ctx, func(s Store) error {
		return s.PutRequest(ctx, store.Request{Execution: id, Kind: kind, Body: raw})
	})
	if err != nil {
		return err
	}
	return r.seen(ctx, kind, func() (bool, string, error) {
		now, err := r.store.Execution(ctx, id)
		if err != nil {
			return false, "", err
		}
		return effect(now) || kind != conductor.RequestRestart && now.Status.Terminal(), now.Status.String(), nil
	})
}

// seen waits a little for the effect of a request; status is that of the execution until then.
func (r *requester) seen(ctx context.Context, kind string, effect func() (done bool, status string, err error)) error {
	for until := time.Now().Add(requestPatience); ; {
		done, status, err := effect()
		switch {
		case err != nil || done:
			return err
		case time.Now().After(until):
			return stepwell.Errorf(stepwell.CodeTimeout, "the request stays; that process says in its own output when it refuses one",
				"the process that runs the executions has not acted on the %s within %s; the execution is %s", kind, requestPatience, status)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(requestPause):
		}
	}
}

// write opens the database for a write beside the process that runs its executions.
func (r *requester) write(ctx context.Context, f func(s Store) error) error {
	s, err := OpenWriter(ctx, r.o.DB, r.o.Log)
	if err != nil {
		return err
	}
	return errors.Join(f(s), s.Close())
}

// asking opens the database for a write, with a conductor that runs nothing.
func (r *requester) asking(ctx context.Context, f func(s Store, c *conductor.Conductor) error) error {
	return r.write(ctx, func(s Store) error {
		guard := secret.NewGuard(s, r.keys, secret.NewRedactor())
		if _, broken := errors.AsType[*secret.BrokenError](guard.LoadLate(ctx)); broken {
			r.o.Log.Warn("some secrets cannot be read")
		}
		c, err := conductor.New(ctx, conductor.Options{Store: s, Queue: &queue.Memory{}, Blobs: s.Blobs(), Catalog: r.catalog, Secrets: guard, Log: r.o.Log})
		if err != nil {
			return err
		}
		return f(s, c)
	})
}

// Register implements pipeline.Runner.
func (r *requester) Register(ctx context.Context, d *definition.Definition) (p *conductor.Pipeline, err error) {
	err = r.asking(ctx, func(_ Store, c *conductor.Conductor) error {
		p, err = c.Register(ctx, d)
		return err
	})
	return p, err
}

// StartOnce implements pipeline.Runner: it leaves a request, and waits a little for the execution.
func (r *requester) StartOnce(ctx context.Context, req conductor.Request) (id string, fresh bool, err error) {
	given := definition.Definition{Name: req.Pipeline.Name, Parameters: req.Pipeline.Parameters}
	if _, problems := definition.CheckParams(&given, req.Params); problems.Err() != nil {
		return "", false, &stepwell.Error{Code: stepwell.CodeInvalid, Message: "parameters", Err: problems.Err()}
	}
	err = r.asking(ctx, func(s Store, c *conductor.Conductor) error {
		asked, err := c.StartRequest(req)
		if err != nil {
			return err
		}
		id = asked.Execution
		return s.PutRequest(ctx, asked)
	})
	if err != nil {
		return "", false, err
	}
	return id, true, r.seen(ctx, "start", func() (bool, string, error) {
		x, err := r.store.Execution(ctx, id)
		if stepwell.CodeOf(err) == stepwell.CodeNotFound {
			return false, "not there yet", nil
		}
		if err == nil && req.Row != nil {
			*req.Row = *x
		}
		return err == nil, "", err
	})
}

func (r *requester) Why(ctx context.Context, id, step string) ([]engine.Reason, error) {
	c, err := r.conductor()
	if err != nil {
		return nil, err
	}
	return c.Why(ctx, id, step)
}

func (r *requester) WhyAt(ctx context.Context, id, step string, version int64, at time.Time) ([]engine.Reason, int64, error) {
	c, err := r.conductor()
	if err != nil {
		return nil, 0, err
	}
	return c.WhyAt(ctx, id, step, version, at)
}

func (r *requester) WhatIf(ctx context.Context, id string, a *engine.Assumption, version int64, at time.Time) (*engine.Consequence, int64, error) {
	c, err := r.conductor()
	if err != nil {
		return nil, 0, err
	}
	return c.WhatIf(ctx, id, a, version, at)
}

func (r *requester) StepsAt(ctx context.Context, id string, version int64, at time.Time) (*store.Past, error) {
	c, err := r.conductor()
	if err != nil {
		return nil, err
	}
	return c.StepsAt(ctx, id, version, at)
}

func (r *requester) Changes(ctx context.Context, id string, each func(s store.StepState, at int64)) (int64, error) {
	c, err := r.conductor()
	if err != nil {
		return 0, err
	}
	return c.Changes(ctx, id, each)
}

// Plan implements api.Forecast: nothing is kept.
func (*requester) Plan([sha256.Size]byte) *plan.Plan { return nil }

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
func (a *App) Client() (*client.Client, error) {
	client, _, err := executionsAPI(pipeline.Options{Objects: a.Store, Runner: a.Conductor, Executions: a.Store, Catalog: a.Actions, Log: a.log}, api.Options{Store: a.Store, Blobs: a.Store.Blobs(), Control: here{a.Conductor, a}, Forecast: a.Conductor, Signals: a.Conductor, Redact: a.Secrets, Catalog: a.Actions, Log: a.log, StreamFailures: a.StreamFailures, Footprints: a.Footprints, FindItem: a.FindItem})
	return client, err
}

// here changes executions that this process runs.
type here struct {
	*conductor.Conductor
	app *App
}

// Resume also takes up an execution that was interrupted.
func (h here) Resume(ctx context.Context, id string) error {
	x, err := h.app.Store.Execution(ctx, id)
	if err != nil {
		return err
	}
	if err := h.app.takeUp(ctx, x.ID); err != nil || x.Status != stepwell.ExecutionPaused {
		return err
	}
	return h.Conductor.Resume(ctx, id)
}
