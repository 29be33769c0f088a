package worker

import (
	"context"
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
	"github.com/stepwell/stepwell/store"
)

// Runner makes attempts of steps ready and runs them, one call for each. A Pool does it for the tasks of a queue.
type Runner struct {
	o Options
	// giveUp takes work outside that an attempt has left and that is to be stopped. Its row is durable.
	giveUp func(store.OutsideWork)
}

// NewRunner makes one. It ignores Queue and the options of a pool's work.
func NewRunner(o Options) (*Runner, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	return &Runner{o: o, giveUp: func(store.OutsideWork) {}}, nil
}

// Prepared is an attempt with all that its handler gets.
type Prepared struct {
	Task   *engine.Task
	Params map[string]any // rendered, checked against the action's Spec, defaults filled in
	Input  []byte         // the part of Params that is recorded, without secrets; nil: nothing
	State  []byte         // that of the task, opened
	Err    error          // why the attempt fails without its handler being called
	// CallbackKey is that of the address which the parameters name, CallbackNo its number; "": they name none.
	CallbackKey string
	CallbackNo  int
	// Handler is called instead of the action's. Defaults to that.
	Handler action.Handler
}

// Prepare renders, completes and checks a task's parameters and opens its state. Run reports its error, Err.
func (r *Runner) Prepare(ctx context.Context, t *engine.Task) Prepared {
	var a attempt
	if asks := t.Params != nil || t.State != nil || t.Step.Callback || t.Step.Params != nil && !t.Step.Params.Static(); asks {
		a.begin(ctx, r, t)
		defer a.end()
	} else { // there is nothing to wait for
		a.describe(ctx, r, t)
		a.ctx = ctx
	}
	a.prepare()
	return a.Prepared
}

// Run calls the handler and returns the outcome to report. The handler's context ends with ctx, with its cause, and
// after the step's timeout. Kind 0 means no report: another worker runs the attempt, or it must not run twice and the
// recovery of the execution decides.
func (r *Runner) Run(ctx context.Context, p Prepared) engine.Event {
	var a attempt
	a.begin(ctx, r, p.Task)
	defer a.end()
	if a.Prepared = p; a.Err == nil {
		a.Err = context.Cause(a.ctx)
	}
	out, err := a.callHandler()
	ev, _ := a.outcome(out, err, context.Cause(a.ctx))
	return ev
}

// attempt is a task while it is prepared and run.
type attempt struct {
	Prepared
	r       *Runner
	process context.Context // outlives the attempt: its outcome is stored under it
	ctx     context.Context
	cancel  context.CancelCauseFunc
	timer   *time.Timer // ends ctx with errDeadline
	started time.Time
	timeout time.Duration
	host    host
	act     *action.Action // nil until it has been looked up

	opening   sync.Once
	scope     expr.Scope
	unset     error                  // why scope lacks the settings
	input     atomic.Pointer[[]byte] // Input once it is complete: an abandoned attempt is concluded by another goroutine
	advanced  atomic.Bool            // it has reported Advance
	storeAway atomic.Bool            // its time ran out while it waited for the store
	begun     atomic.Bool            // the handler has been called
	meter     *action.Meter          // nil: the handler runs elsewhere
	told      *stepwell.Resources    // by the worker elsewhere; guarded by Remote.mu

	calling  sync.Mutex // serialises callback
	owning   sync.Mutex
	fetching sync.Mutex
	file     string             // the lesson's, a local copy; guarded by fetching
	owned    *store.OutsideWork // work outside that the attempt has made known; guarded by owning
}

func (a *attempt) begin(ctx context.Context, r *Runner, t *engine.Task) {
	a.describe(ctx, r, t)
	own, cancel := newAttemptContext(ctx, a.timeout)
	a.ctx, a.cancel, a.meter = own, cancel, &own.meter
	a.timer = time.AfterFunc(a.timeout, func() { a.cancel(errDeadline) })
}

// describe sets what the attempt is, but not its context.
func (a *attempt) describe(ctx context.Context, r *Runner, t *engine.Task) {
	a.r, a.process, a.Task, a.started, a.timeout = r, ctx, t, r.o.Now(), t.Step.Policy.Timeout
	if a.timeout <= 0 {
		a.timeout = plan.DefaultTimeout
	}
	a.host = host{a: a, idx: t.Idx, key: t.Key, level: minLevel(t.Step.Policy.LogLevel)}
}

func (a *attempt) end() {
	a.timer.Stop()
	a.cancel(nil)
}

// recovered calls f. A panic is a failure like any other.
func (a *attempt) recovered(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = stepwell.Errorf(stepwell.CodePanic, "", "the action panicked: %v", v)
			a.host.Log(slog.LevelError, fmt.Sprintf("panic: %v\n%s", v, debug.Stack()))
		}
	}()
	return f()
}

func (a *attempt) prepare() {
	a.Err = a.recovered(func() error {
		if err := context.Cause(a.ctx); err != nil {
			return err
		}
		err := a.lookup()
		if err == nil {
			err = a.await(a.ctx, a.render)
		}
		if err == nil || errors.Is(err, store.ErrAway) || passes(err) {
			return err
		}
		return action.Fail(err)
	})
}

// lookup finds the action. It is CodeDenied when the step may not use it, or a member of its segment its module.
func (a *attempt) lookup() error {
	t, allow, ok := a.Task, a.r.o.Allow, false
	if a.act, ok = a.r.o.Actions.Lookup(t.Step.Action); !ok {
		return noAction("worker", t.Step.Action)
	}
	if allow == nil {
		return nil
	}
	for i := range t.Members {
		if err := allow(t.Step.Policy.Author, t.Members[i].Module); err != nil {
			return err
		}
	}
	return allow(t.Step.Policy.Author, t.Step.Action)
}

func noAction(who, name string) error {
	return stepwell.Errorf(stepwell.CodeNotFound, "", "this %s has no action %q", who, name)
}

// render makes Params, Input and State. It may be called again after an error.
func (a *attempt) render() error {
	t, act, secrets := a.Task, a.act, a.r.o.Secrets
	a.opening, a.scope, a.unset = sync.Once{}, nil, nil
	var v any
	err := a.openState()
	if err != nil {
		return err
	}
	switch {
	case t.Params != nil:
		var raw []byte
		if raw, err = secrets.Open(t.Execution, t.Params); err == nil {
			v, err = expr.Decode(raw)
		}
	case t.Step.Params != nil:
		scope := a.templateScope()
		if a.unset != nil {
			err = a.unset
			break
		}
		if t.Step.Callback {
			if scope, err = a.callbackScope(); err != nil {
				return err
			}
		}
		v, err = t.Step.Params.Render(scope, t.Limits)
	}
	if failed := a.scopeError(); failed != nil {
		return failed
	}
	if err != nil {
		return templateError(err)
	}
	params, ok := v.(map[string]any)
	if !ok && v != nil {
		return stepwell.Invalid("", "params are not an object")
	}
	if t.Step.Members() == nil && (t.Params != nil && act.Secretive() || t.Params == nil && t.Step.Params != nil && !t.Step.Params.Static()) {
		if a.Input, err = recordInput(params, act); err != nil {
			return err
		}
		a.Input = secrets.JSON(t.Execution, a.Input)
		a.input.Store(&a.Input)
	}
	a.Params, err = a.r.complete(t.Step.Action, params)
	return err
}

// complete checks parameters against the action's Spec and fills in defaults.
func (r *Runner) complete(name string, params map[string]any) (map[string]any, error) {
	checker, ok := r.o.Actions.Params(name)
	if !ok {
		return nil, noAction("worker", name)
	}
	if wrong := checker.Check(params); len(wrong) > 0 {
		lines := make([]string, len(wrong))
		for i, w := range wrong {
			lines[i] = w.String()
		}
		return nil, stepwell.Invalid("", "params: %s", strings.Join(lines, "; "))
	}
	return checker.Apply(params), nil
}

// recordInput is the record of rendered parameters: without secrets, and empty if it is huge.
func recordInput(params map[string]any, act *action.Action) ([]byte, error) {
	raw, err := expr.Marshal(act.Redact(params))
	if err != nil {
		return nil, templateError(err)
	}
	if len(raw) > inlineOutput {
		raw = fmt.Appendf(nil, `{"omitted":"%d bytes"}`, len(raw))
	}
	return raw, nil
}

func templateError(err error) error {
	e := stepwell.Invalid("", "params: %v", err)
	if x, ok := errors.AsType[*expr.Error](err); ok && x.Hint != "" {
		e.Hint = x.Hint
		e.Message = strings.TrimSuffix(e.Message, " ("+x.Hint+")")
	}
	return e
}

// callHandler runs the handler of an attempt that could be prepared.
func (a *attempt) callHandler() (out any, err error) {
	if a.Err != nil {
		return nil, a.Err
	}
	err = a.recovered(func() (err error) {
		if a.act == nil {
			if err := a.lookup(); err != nil {
				return action.Fail(err)
			}
		}
		if a.Task.Step.Policy.NotIdempotent {
			if err := a.claim(); err != nil {
				return err
			}
		}
		params, err := a.localMedia(a.Params)
		if err != nil {
			return err
		}
		a.begun.Store(true)
		given, _ := params.(map[string]any)
		call := a.call(given)
		call.Media = a.file
		act := a.act
		if a.Handler != nil {
			act = &action.Action{Spec: act.Spec, Handler: a.Handler}
		}
		out, err = act.Attempt(a.ctx, call)
		return err
	})
	return out, err
}

// claim reports that a step which must not run twice runs, before it does: after a crash it is not run again, and of
// two workers that have its message one is refused.
func (a *attempt) claim() error {
	err := a.awaited(a.ctx, a.r.o.Reporter.Report(a.ctx, a.Task.Run, a.running(a.r.o.Now())))
	if stepwell.CodeOf(err) == stepwell.CodeConflict {
		return errNotMine
	}
	return err
}

func (a *attempt) running(now time.Time) engine.Event {
	return engine.Event{Kind: engine.Running, At: now.UnixMicro(), Idx: a.Task.Idx, Epoch: a.Task.Epoch, Started: a.started.UnixMicro(), Worker: a.r.o.Name}
}

func (a *attempt) call(params map[string]any) *action.Call {
	t, o := a.Task, &a.r.o
	deadline, _ := a.ctx.Deadline()
	name := t.Step.Name
	if name == "" {
		name = t.Step.ID
	}
	call := &action.Call{Execution: t.Execution, Pipeline: t.Pipeline, StepKey: t.Key, StepName: name, Action: t.Step.Action,
		Attempt: t.Attempt, Params: params, State: a.State, Deadline: deadline, Dir: t.Dir, GoesOn: t.GoesOn, Host: &a.host, Touch: o.Touch,
		Trace: func() string { return stepwell.Traceparent(t.Execution, t.Idx, t.Attempt, a.started.UnixMicro()) }}
	call.Epoch = t.Epoch
	if t.About != nil && o.Touch != nil {
		call.Touch = a.touch
	}
	if o.Allow != nil {
		call.Allow = func(name string) error { return o.Allow(t.Step.Policy.Author, name) }
	}
	if o.CallbackURL != nil {
		call.Callbacks = a.callback
	}
	return call
}

// await asks the store for something, again and again while it is away. It remembers when the time of the attempt
// runs out over that.
func (a *attempt) await(ctx context.Context, f func() error) error {
	err := a.r.o.Outage.Retry(ctx, f)
	if errors.Is(err, store.ErrAway) {
		a.storeAway.Store(true)
	}
	return err
}

// awaited is await for a report that returns when it is durable.
func (a *attempt) awaited(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil && a.r.o.Outage.Err() != nil {
		a.storeAway.Store(true)
	}
	return err
}
