package app

import (
	"context"
	"errors"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/store"
)

// Local is the API over a server's data, in this process: stored objects can be read and changed. It runs nothing and
// refuses to start executions. While another process runs the executions of the database, it refuses changes too
// (CodeConflict).
type Local struct {
	*api.Client
	server *Server
	work   *crew
	held   error // another process holds the database
}

// OpenLocal opens the database. Changes are written to the audit log as a server's are.
func OpenLocal(ctx context.Context, o ServerOptions) (_ *Local, err error) {
	s := &Server{o: o}
	l := &Local{server: s, work: newCrew(context.WithoutCancel(ctx), func(error) {})}
	if s.App, err = New(ctx, o.Options); stepwell.CodeOf(err) == stepwell.CodeConflict {
		l.held, o.beside = err, true
		s.App, err = New(ctx, o.Options)
	}
	if err != nil {
		return nil, err
	}
	s.keys, s.recorder = access.NewKeys(s.Store, s.log), access.NewRecorder(s.Store, s.log)
	if l.held == nil {
		l.work.start("conductor", s.Conductor.Run) // delivers signals to waiting steps
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
	for _, build := range []func(context.Context) error{s.buildFeed, s.buildTriggers} {
		if err := build(ctx); err != nil {
			return nil, err
		}
	}
	options := s.apiOptions()
	options.Signals = waking{s.Conductor}
	l.Client, err = api.NewLocal(options, l.able)
	return l, err
}

// waking loads an execution before a decision about one of its steps: only loaded executions accept one.
type waking struct{ *conductor.Conductor }

// Signal implements api.Signals.
func (w waking) Signal(ctx context.Context, s store.Signal) (fresh, delivered bool, err error) {
	_, of, _ := strings.Cut(s.Key, ":") // approval:EXECUTION/STEP
	execution, _, _ := strings.Cut(of, "/")
	if err := w.Recover(ctx, execution); err != nil {
		return false, false, err
	}
	return w.Conductor.Signal(ctx, s)
}

// able refuses operations on anything but stored objects, and changes while another process uses them.
func (l *Local) able(operation string, changes bool) error {
	if changes && l.held != nil {
		return &stepwell.Error{Code: stepwell.CodeConflict, Message: "the database is in use", Hint: "if that process is a server, name it with --server; else wait for its end", Err: l.held}
	}
	kind, verb, _ := strings.Cut(operation, ".")
	switch kind {
	case "pipeline", "schedule", "webhook", "event_trigger", "approval", "secret", "key", "policy", "audit", "action", "module":
		if verb != "trigger" && verb != "backfill" {
			return nil
		}
	}
	return stepwell.Errorf(stepwell.CodeUnavailable, "start one with `stepwell serve`, or name one with --server", "a server is needed for this: nothing runs executions here")
}

// Close lets go of the database.
func (l *Local) Close() error {
	l.work.end()
	return l.server.App.Close()
}
