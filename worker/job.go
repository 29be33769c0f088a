package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/plan"
)

// Limits of outputs, in bytes: larger ones than inlineOutput travel by reference, larger ones than
// MaxOutput fail the step.
const (
	inlineOutput = 64 << 10
	MaxOutput    = 16 << 20
)

var (
	errRevoked  = &stepwell.Error{Code: stepwell.CodeCancelled, Message: "stopped on request"}
	errDeadline = &stepwell.Error{Code: stepwell.CodeTimeout, Message: "the step's timeout passed"}
)

// job is a task in a worker's hands.
type job struct {
	task    *engine.Task
	cancel  context.CancelCauseFunc
	ctx     context.Context
	started time.Time
	over    atomic.Bool // its outcome has been reported
	seen    bool        // has been recorded as running; owned by watch
	ending  time.Time   // when watch saw its context end
	host    host
	input   []byte
}

// run runs one task to its outcome. It reports whether the job was abandoned meanwhile.
func (p *Pool) run(t *engine.Task) (abandoned bool) {
	j := &job{task: t, started: time.Now()}
	timeout := t.Step.Policy.Timeout
	if timeout <= 0 {
		timeout = plan.DefaultTimeout
	}
	deadline, endTimer := context.WithDeadlineCause(p.ctx, j.started.Add(timeout), errDeadline)
	defer endTimer()
	j.ctx, j.cancel = context.WithCancelCause(deadline)
	defer j.cancel(nil)
	p.begin(j)
	out, err := p.attempt(j)
	if !j.over.CompareAndSwap(false, true) {
		return true
	}
	p.end(j)
	p.report(j, out, err)
	return false
}

func (p *Pool) begin(j *job) {
	id := taskID{j.task.Run, j.task.Idx, j.task.Epoch}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.jobs[id] = j
	if len(p.revoked) > 0 {
		if _, ok := p.revoked[id]; ok {
			delete(p.revoked, id)
			j.cancel(errRevoked)
		}
	}
}

func (p *Pool) end(j *job) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.jobs, taskID{j.task.Run, j.task.Idx, j.task.Epoch})
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
	j.host = host{p: p, j: j, level: minLevel(t.Step.Policy.LogLevel)}
	params, err := p.params(j, act)
	if err != nil {
		return nil, err
	}
	if t.Step.Policy.NotIdempotent {
		// It must be known that it ran before it runs: after a crash it is not run again.
		ev := engine.Event{Kind: engine.Running, At: time.Now().UnixMicro(), Idx: t.Idx, Epoch: t.Epoch, Started: j.started.UnixMicro(), Worker: p.o.Name}
		if err := p.o.Reporter.Report(j.ctx, t.Run, ev); err != nil {
			return nil, err
		}
	}
	deadline, _ := j.ctx.Deadline()
	name := t.Step.Name
	if name == "" {
		name = t.Step.ID
	}
	out, err = act.Handler.Run(j.ctx, &action.Call{Execution: t.Execution, Pipeline: t.Pipeline, StepKey: t.Key, StepName: name, Action: t.Step.Action,
		Attempt: t.Attempt, Params: params, State: t.State, Deadline: deadline, Dir: t.Dir, Host: &j.host})
	j.host.flush()
	return out, err
}

// params renders, completes and checks the parameters.
func (p *Pool) params(j *job, act *action.Action) (map[string]any, error) {
	t := j.task
	var v any
	var err error
	switch {
	case t.Params != nil:
		v, err = expr.Decode(t.Params)
	case t.Step.Params != nil:
		var scope expr.Scope = expr.Vars(nil)
		if t.Scope != nil {
			scope = t.Scope
		}
		v, err = t.Step.Params.Render(scope, expr.Limits{})
	}
	if err != nil {
		return nil, action.Fail(templateError(err))
	}
	params, _ := v.(map[string]any)
	if t.Step.Params != nil && !t.Step.Params.Static() {
		if j.input, err = p.recordInput(params, act); err != nil {
			return nil, action.Fail(err)
		}
	}
	if params, err = p.prepare(t.Step.Action, params); err != nil {
		return nil, action.Fail(err)
	}
	return params, nil
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

func templateError(err error) error {
	e := &stepwell.Error{Code: stepwell.CodeInvalid, Message: "params", Err: err}
	if x, ok := errors.AsType[*expr.Error](err); ok {
		e.Hint = x.Hint
	}
	return e
}

// recordInput is what is kept of rendered parameters: without secrets, and not if it is huge.
func (p *Pool) recordInput(params map[string]any, act *action.Action) ([]byte, error) {
	shown := params
	for _, f := range act.Spec.Params {
		if _, given := params[f.Name]; f.Secret && given {
			shown = make(map[string]any, len(params))
			for k, v := range params {
				shown[k] = v
			}
			shown[f.Name] = "***"
		}
	}
	raw, err := expr.Marshal(shown)
	if err != nil {
		return nil, templateError(err)
	}
	if len(raw) > inlineOutput {
		return json.RawMessage(fmt.Sprintf(`{"omitted":"%d bytes"}`, len(raw))), nil
	}
	return raw, nil
}

// report turns what the handler returned into an event. A handler that was ended because the
// process stops is not reported: it is in flight for whoever recovers the run.
func (p *Pool) report(j *job, out any, err error) {
	ev := p.outcome(j, out, err)
	if ev.Kind != engine.Done && p.ctx.Err() != nil && context.Cause(j.ctx) != errRevoked && context.Cause(j.ctx) != errDeadline {
		return
	}
	if rerr := p.o.Reporter.Report(context.Background(), j.task.Run, ev); rerr != nil {
		p.o.Log.Error("report failed", "execution", j.task.Execution, "step", j.task.Key, "error", rerr)
	}
}

func (p *Pool) outcome(j *job, out any, err error) engine.Event {
	t := j.task
	ev := engine.Event{Kind: engine.Done, Idx: t.Idx, Epoch: t.Epoch, Started: j.started.UnixMicro(), Worker: p.o.Name, Input: j.input}
	if err == nil {
		ev.Output, ev.Loaded, err = p.output(out, t.Step.Keep)
	}
	ev.At = time.Now().UnixMicro()
	if err == nil {
		return ev
	}
	if skip, ok := errors.AsType[*action.SkipError](err); ok {
		ev.Kind, ev.Reason = engine.Skipped, skip.Reason
		return ev
	}
	if wait, ok := errors.AsType[*action.WaitError](err); ok {
		if ev.Wait, err = p.wait(wait); err == nil {
			ev.Kind = engine.Waiting
			return ev
		}
	}
	ev.Kind = engine.Failed
	ev.Permanent = action.IsFail(err)
	if again, ok := errors.AsType[*action.RetryError](err); ok {
		ev.After, ev.Defer = again.After, again.Defer
	}
	if cause := context.Cause(j.ctx); cause != nil && !errors.Is(err, errDeadline) && !errors.Is(err, errRevoked) {
		err = fmt.Errorf("%w (%w)", cause, err)
	}
	ev.Failure = failure(err, t.Step.Policy.Timeout)
	return ev
}

func failure(err error, timeout time.Duration) *engine.Failure {
	code := stepwell.CodeOf(err)
	if code == stepwell.CodeInternal {
		code = stepwell.CodeFailed
	}
	message := err.Error()
	switch {
	case errors.Is(err, errDeadline):
		code = stepwell.CodeTimeout
		message = fmt.Sprintf("not ended within %s", timeout)
	case errors.Is(err, errRevoked):
		code = stepwell.CodeCancelled
	}
	const longest = 16 << 10
	if len(message) > longest {
		message = message[:longest] + " … (shortened)"
	}
	return &engine.Failure{Code: code, Message: message, Hint: stepwell.HintOf(err)}
}

func (p *Pool) wait(w *action.WaitError) (*engine.Wait, error) {
	out := &engine.Wait{Until: w.Until.UnixMicro(), Resume: w.Resume, State: w.State, External: w.ExternalID}
	if w.Resume {
		return out, nil
	}
	var err error
	// Kept in memory whole: waits end in the conductor, where nothing is loaded.
	out.Output, _, err = p.output(w.Outputs, true)
	return out, err
}

// output is the handler's result as it is stored, and the JSON itself if it is stored elsewhere.
func (p *Pool) output(out any, keep bool) (stored, loaded []byte, err error) {
	switch v := out.(type) {
	case nil:
		return nil, nil, nil
	case json.RawMessage:
		stored = v
	case []byte:
		stored = v
	default:
		if stored, err = expr.Marshal(out); err != nil {
			return nil, nil, action.Fail(&stepwell.Error{Code: stepwell.CodeInvalid, Message: "the outputs cannot be written as JSON", Err: err})
		}
	}
	if len(stored) == 0 || string(stored) == "null" {
		return nil, nil, nil
	}
	if stored[0] != '{' || !json.Valid(stored) {
		return nil, nil, action.Fail(&stepwell.Error{Code: stepwell.CodeInvalid, Message: "the outputs are not a JSON object", Hint: `return an object such as {"result": …}`})
	}
	if len(stored) <= inlineOutput {
		return stored, nil, nil
	}
	if len(stored) > MaxOutput {
		return nil, nil, action.Fail(&stepwell.Error{Code: stepwell.CodeLimit, Message: fmt.Sprintf("the outputs are %d MiB, the limit is %d MiB", len(stored)>>20, MaxOutput>>20), Hint: "write a file and return its path"})
	}
	ref, err := p.o.Blobs.Put(context.Background(), stored)
	if err != nil {
		return nil, nil, fmt.Errorf("store the outputs: %w", err)
	}
	if !keep {
		stored = nil
	}
	return []byte(ref), stored, nil
}
