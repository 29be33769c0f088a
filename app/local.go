package app

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/api/client"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/estimate"
	"github.com/stepwell/stepwell/store"
)

// Local is the API over a server's data, in this process: stored objects can be read and changed, and what is started
// runs here until Finish or Close. While another process runs the executions of the database, changes are refused
// (CodeConflict) but for those of executions and for decisions, which are left as requests to that process.
type Local struct {
	*client.Client
	server *Server
	work   *loopGroup
	nodes  *loopGroup // ends behind work
	held   error      // another process holds the database
	asks   *requester
	failed firstError

	once    sync.Once
	workers chan struct{} // nil until something was started; closed when they have ended

	mu    sync.Mutex
	ended []Ended
}

// Ended is an execution that has ended.
type Ended struct {
	ID     string
	Status stepwell.ExecutionStatus
}

// OpenLocal opens the database. Changes are written to the audit log as a server's are.
func OpenLocal(ctx context.Context, o ServerOptions) (_ *Local, err error) {
	s := &Server{o: o, maxDocument: math.MaxInt}
	l := &Local{server: s}
	l.work, l.nodes = newLoopGroup(context.WithoutCancel(ctx), l.failed.set), newLoopGroup(context.WithoutCancel(ctx), l.failed.set)
	o.Observe = l.observe
	s.observed(&o.Options)
	o.CallbackURL = nil // nothing outside reaches this process
	o.alone, o.reads = true, true
	if s.App, err = New(ctx, o.Options); stepwell.CodeOf(err) == stepwell.CodeConflict {
		l.held, o.readOnly = err, true
		s.App, err = New(ctx, o.Options)
	}
	if err != nil {
		return nil, err
	}
	s.keys, s.recorder = access.NewKeys(s.Store, s.log), access.NewRecorder(s.Store, s.log)
	s.estimates = estimate.New(s.Store, o.Now)
	if s.hub, err = localFeed(s.Store, s.estimates, s.log); err != nil {
		return nil, errors.Join(err, s.App.Close())
	}
	l.work.start("feed", s.hub.Run)
	if l.held == nil {
		s.node.start(l.nodes)
		l.work.start("conductor", s.Conductor.Run)
		l.work.start("audit log", s.recorder.Run)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Close())
		}
	}()
	if s.policies, err = access.NewPolicies(ctx, s.Store, o.Access.Policy); err != nil {
		return nil, err
	}
	o.DB = s.Store.Path()
	l.asks = &requester{o: o.Options, store: s.Store, catalog: s.Actions, keys: s.Keyring, conductor: func() (*conductor.Conductor, error) { return s.Conductor, nil }}
	s.found = s.App.takeUp
	if l.held != nil {
		s.runner, s.found = l.asks, nil
	}
	if err := s.buildTriggers(ctx); err != nil {
		return nil, err
	}
	if l.held == nil { // what a process left that ended before
		if err := s.partitions.Settle(ctx, s.Store); err != nil {
			return nil, err
		}
	}
	options := s.apiOptions()
	if options.Signals = (waking{s.Conductor, s.App}); l.held != nil {
		options.Control, options.Forecast, options.Signals, options.Audit = l.asks, l.asks, l.asks, nil
	}
	options.Clusters = &clusters{App: s.App, asks: true}
	l.Client = client.Local(api.NewLocal(options, l.able))
	return l, nil
}

// waking loads an execution before a decision about one of its steps: only loaded executions accept one.
type waking struct {
	*conductor.Conductor
	app *App
}

// Signal implements api.Signals.
func (w waking) Signal(ctx context.Context, s store.Signal) (fresh, delivered bool, err error) {
	if _, of, _ := strings.Cut(s.Key, ":"); strings.HasPrefix(s.Key, "approval:") { // approval:EXECUTION/STEP
		execution, _, _ := strings.Cut(of, "/")
		if err := w.app.takeUp(ctx, execution); err != nil {
			return false, false, err
		}
	}
	return w.Conductor.Signal(ctx, s)
}

// starters are the operations that may start executions.
var starters = []string{"execution.start", "execution.retry", "pipeline.partitions.start", "schedule.trigger", "schedule.backfill", "event.receive",
	"pipeline_run.start", "pipeline_run.restart", "pipeline_run.resume"}

// able refuses operations that need a server, and changes while another process uses the objects.
func (l *Local) able(operation string, changes bool) error {
	kind, _, _ := strings.Cut(operation, ".")
	switch {
	case (changes || slices.Contains(starters, operation)) && l.server.keyless != nil:
		return fmt.Errorf("secrets: %w", l.server.keyless)
	case (changes || operation == "project.items" || operation == "upload.append") && l.held != nil && kind != "execution" && kind != "approval" && operation != "pipeline.partitions.start":
		return &stepwell.Error{Code: stepwell.CodeConflict, Message: "the database is in use", Hint: "if that process is a server, name it with --server; else wait for its end", Err: l.held}
	case operation == "webhook.trigger" || !slices.Contains([]string{"pipeline", "schedule", "webhook", "event", "event_trigger", "approval", "project", "lesson", "upload", "pipeline_run", "secret", "key", "policy", "audit", "cluster", "action",
		"module", "execution", "me", "schema"}, kind):
		return stepwell.Errorf(stepwell.CodeUnavailable, "start one with `stepwell serve`, or name one with --server", "a server is needed for this")
	case l.held == nil && slices.Contains(starters, operation):
		l.once.Do(l.startWorkers)
	}
	return nil
}

// startWorkers makes this process one that runs executions.
func (l *Local) startWorkers() {
	l.workers = make(chan struct{})
	l.work.start("workers", func(ctx context.Context) error {
		defer close(l.workers)
		return l.server.pool.Run(ctx)
	})
	l.work.start("requests", l.server.watch)
	l.server.watchJobs(l.work)
}

// Decided reports whether another process, which runs the executions, has taken a decision.
func (l *Local) Decided() bool { return l.asks.decided.Load() }

func (l *Local) observe(u *conductor.Update) {
	if u.Execution.Status.Terminal() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.ended = append(l.ended, Ended{u.Execution.ID, u.Execution.Status})
	}
}

// Running reports whether something was started here that has not ended.
func (l *Local) Running() bool {
	if l.workers == nil {
		return false
	}
	for _, id := range l.server.Conductor.Active() {
		if x, err := l.server.Store.Execution(context.Background(), id); err != nil || !x.Status.Terminal() {
			return true
		}
	}
	return l.server.schedules.Unflushed()
}

// Finish waits until all that was started here has ended or is paused, or until ctx ends.
func (l *Local) Finish(ctx context.Context) error {
	if l.workers == nil {
		return nil
	}
	l.server.schedules.Flush(ctx)
	err := l.server.App.Idle(ctx, func(string) {})
	return l.failed.or(errors.Join(err, l.server.partitions.Settle(context.WithoutCancel(ctx), l.server.Store)))
}

// Ended are the executions that have ended here, in that order.
func (l *Local) Ended() []Ended {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.ended)
}

// Drain starts no more steps and lets the running ones finish, until ctx ends. Nothing runs here any more then.
func (l *Local) Drain(ctx context.Context) {
	l.server.App.Drain()
	select {
	case <-l.workers:
	case <-ctx.Done():
	}
	l.end()
}

func (l *Local) end() {
	l.work.end()
	l.nodes.end()
}

// Close stops what still runs and lets go of the database.
func (l *Local) Close() error {
	l.end()
	return l.failed.or(errors.Join(l.server.closeProgress(), l.server.App.Close()))
}
