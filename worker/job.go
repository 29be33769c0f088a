package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/plan"
	"github.com/stepwell/stepwell/queue"
	"github.com/stepwell/stepwell/store"
)

var (
	errRevoked  = &stepwell.Error{Code: stepwell.CodeCancelled, Message: "stopped on request"}
	errDeadline = &stepwell.Error{Code: stepwell.CodeTimeout, Message: "the step's timeout passed"}
	// errDrained ends a stream when the pool is drained: it would go on for as long as items come, and its
	// checkpoint lets whoever takes it up again go on where it was.
	errDrained = &stepwell.Error{Code: stepwell.CodeCancelled, Message: "stopped at its last checkpoint, because the process ends"}
	// errNotMine ends a task that somebody else runs, or that nobody wants any more: without a report.
	errNotMine = &stepwell.Error{Code: stepwell.CodeConflict, Message: "the attempt is not this worker's"}
)

// job is a task in a worker's hands.
type job struct {
	task     *engine.Task
	lease    queue.Lease
	cancel   context.CancelCauseFunc
	ctx      context.Context
	started  time.Time
	timeout  time.Duration
	host     host
	opened   opened
	over     atomic.Bool            // its outcome has been or is being reported
	advanced atomic.Bool            // it has told that it got further
	input    atomic.Pointer[[]byte] // rendered parameters as they are recorded; nil: not yet, or not at all

	calling     sync.Mutex // serialises callback
	callbackNo  int        // which address of the step
	callbackKey string     // "": it has not asked for one

	away  atomic.Bool // its time ran out while it waited for the store
	begun atomic.Bool // the handler has been called

	owned *store.OutsideWork // work outside that the attempt has made known; guarded by the pool's lock

	seen   bool      // has been recorded as running; owned by watch once the job has begun
	ending time.Time // when watch saw its context end
}

// run runs one task to its outcome. It is dealt with unless the process stops first; abandoned says that
// others have reported an outcome meanwhile.
func (p *Pool) run(t *engine.Task, lease queue.Lease) (dealt, abandoned bool) {
	j := &job{task: t, lease: lease, started: time.Now(), timeout: t.Step.Policy.Timeout, seen: t.Step.Policy.NotIdempotent}
	if j.timeout <= 0 {
		j.timeout = plan.DefaultTimeout
	}
	j.host = host{p: p, j: j, idx: t.Idx, key: t.Key, level: minLevel(t.Step.Policy.LogLevel)}
	deadline, endTimer := context.WithDeadlineCause(p.ctx, j.started.Add(j.timeout), errDeadline)
	defer endTimer()
	j.ctx, j.cancel = context.WithCancelCause(deadline)
	defer j.cancel(nil)
	if !p.begin(j) {
		return true, false // a message that came twice
	}
	out, err := p.attempt(j)
	cause := context.Cause(j.ctx)
	if !j.over.CompareAndSwap(false, true) {
		return true, true
	}
	p.mu.Lock()
	p.forget(j)
	p.mu.Unlock()
	j.host.flush()
	return err == errNotMine || p.report(j, p.conclude(j, out, err, cause), cause), false
}

func (p *Pool) begin(j *job) bool {
	id := idOf(j.task)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.jobs[id] != nil {
		return false
	}
	p.jobs[id] = j
	if p.revoked.take(id) {
		j.cancel(errRevoked)
	}
	select {
	case <-p.drained:
		j.drain()
	default:
	}
	return true
}

// drain stops a stream; other work is left to finish.
func (j *job) drain() {
	if len(j.task.Members) > 0 {
		j.cancel(errDrained)
	}
}

// forget takes a job off the list. The caller holds the lock.
func (p *Pool) forget(j *job) {
	if id := idOf(j.task); p.jobs[id] == j {
		delete(p.jobs, id)
	}
}

// attempt calls the handler. A panic is a failure like any other.
func (p *Pool) attempt(j *job) (out any, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &stepwell.Error{Code: stepwell.CodePanic, Message: fmt.Sprintf("the action panicked: %v", v)}
			j.host.Log(slog.LevelError, fmt.Sprintf("panic: %v\n%s", v, debug.Stack()))
		}
	}()
	t := j.task
	if err := context.Cause(j.ctx); err != nil {
		return nil, err
	}
	act, ok := p.o.Actions.Lookup(t.Step.Action)
	if !ok {
		return nil, action.Fail(&stepwell.Error{Code: stepwell.CodeNotFound, Message: fmt.Sprintf("this worker has no action %q", t.Step.Action)})
	}
	if err := p.allowed(t); err != nil {
		return nil, action.Fail(err)
	}
	var params map[string]any
	err = j.await(j.ctx, p, func() (err error) {
		j.opened = opened{}
		params, err = p.params(j, act)
		return err
	})
	switch {
	case errors.Is(err, store.ErrAway):
		return nil, err
	case err != nil:
		return nil, action.Fail(err)
	}
	if t.Step.Policy.NotIdempotent {
		if err := p.claim(j); err != nil {
			return nil, err
		}
	}
	j.begun.Store(true)
	return act.Attempt(j.ctx, p.call(j, params))
}

// claim makes it known that a step that must not run twice runs, before it does: after a crash it is not
// run again, and of two workers that have its message one is refused.
func (p *Pool) claim(j *job) error {
	err := j.awaited(j.ctx, p, p.o.Reporter.Report(j.ctx, j.task.Run, j.running(p, time.Now())))
	if stepwell.CodeOf(err) == stepwell.CodeConflict {
		return errNotMine
	}
	return err
}

func (p *Pool) call(j *job, params map[string]any) *action.Call {
	t := j.task
	deadline, _ := j.ctx.Deadline()
	name := t.Step.Name
	if name == "" {
		name = t.Step.ID
	}
	call := &action.Call{Execution: t.Execution, Pipeline: t.Pipeline, StepKey: t.Key, StepName: name, Action: t.Step.Action,
		Attempt: t.Attempt, Params: params, State: j.opened.state, Deadline: deadline, Dir: t.Dir, GoesOn: t.GoesOn, Host: &j.host, Touch: p.o.Touch,
		Trace: func() string { return engine.Traceparent(t.Execution, t.Idx, t.Attempt, j.started.UnixMicro()) }}
	if p.o.Allow != nil {
		call.Allow = func(name string) error { return p.o.Allow(t.Step.Policy.Author, name) }
	}
	if p.o.CallbackURL != nil {
		call.Callbacks = func(ctx context.Context) (string, string, error) { return p.callback(ctx, j) }
	}
	return call
}

// params renders, completes and checks the parameters.
func (p *Pool) params(j *job, act *action.Action) (map[string]any, error) {
	t := j.task
	var v any
	err := p.open(j)
	if err != nil {
		return nil, err
	}
	switch {
	case t.Params != nil:
		var raw []byte
		if raw, err = p.o.Secrets.Open(t.Execution, t.Params); err == nil {
			v, err = expr.Decode(raw)
		}
	case t.Step.Params != nil:
		scope := p.scope(j)
		if t.Step.Callback {
			if scope, err = p.withCallback(j); err != nil {
				return nil, err
			}
		}
		v, err = t.Step.Params.Render(scope, t.Limits)
	}
	if failed := j.unopened(); failed != nil {
		return nil, failed
	}
	if err != nil {
		return nil, templateError(err)
	}
	params, ok := v.(map[string]any)
	if !ok && v != nil {
		return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: "params are no object"}
	}
	if t.Step.Members() == nil && (t.Params != nil && act.Secretive() || t.Params == nil && t.Step.Params != nil && !t.Step.Params.Static()) {
		input, err := recordInput(params, act)
		if err != nil {
			return nil, err
		}
		input = p.o.Secrets.JSON(t.Execution, input)
		j.input.Store(&input)
	}
	return p.prepare(t.Step.Action, params)
}

// prepare checks parameters against the action's Spec and fills in defaults.
func (p *Pool) prepare(name string, params map[string]any) (map[string]any, error) {
	checker, ok := p.o.Actions.Params(name)
	if !ok {
		return nil, &stepwell.Error{Code: stepwell.CodeNotFound, Message: fmt.Sprintf("this worker has no action %q", name)}
	}
	if wrong := checker.Check(params); len(wrong) > 0 {
		lines := make([]string, len(wrong))
		for i, w := range wrong {
			lines[i] = w.String()
		}
		return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: "params: " + strings.Join(lines, "; ")}
	}
	return checker.Apply(params), nil
}

// recordInput is what is kept of rendered parameters: without secrets, and not if it is huge.
func recordInput(params map[string]any, act *action.Action) ([]byte, error) {
	raw, err := expr.Marshal(act.Redact(params))
	if err != nil {
		return nil, templateError(err)
	}
	if len(raw) > inlineOutput {
		return json.RawMessage(fmt.Sprintf(`{"omitted":"%d bytes"}`, len(raw))), nil
	}
	return raw, nil
}
