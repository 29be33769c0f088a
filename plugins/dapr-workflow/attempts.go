package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/plan"
	"github.com/stepwell/stepwell/queue"
	"github.com/stepwell/stepwell/store"
	runner "github.com/stepwell/stepwell/worker"
)

// call is the input of the activity stepwell.step: one attempt of a step, with its params rendered. stepwell.stop has it too, for work that the
// step has left elsewhere.
type call struct {
	No        int64                      `json:"no"` // names the execution within a process
	Execution string                     `json:"execution"`
	Pipeline  string                     `json:"pipeline"`
	Idx       int32                      `json:"idx"`
	Epoch     uint32                     `json:"epoch"`
	Attempt   int                        `json:"attempt"`
	Key       string                     `json:"key"`
	Name      string                     `json:"name"`
	Action    string                     `json:"action"`
	Params    json.RawMessage            `json:"params,omitempty"`
	Values    json.RawMessage            `json:"values,omitempty"` // of the templates that the action renders itself
	State     []byte                     `json:"state,omitempty"`
	Timeout   time.Duration              `json:"timeout_ns,omitempty"`
	LogLevel  string                     `json:"log_level,omitempty"`
	Priority  int                        `json:"priority,omitempty"`
	Revision  int                        `json:"revision"` // of the templates
	Memos     map[string]json.RawMessage `json:"memos,omitempty"`
	Error     *engine.Failure            `json:"error,omitempty"` // why the attempt fails before its action is called
}

// refuse has the attempt fail for good.
func (c *call) refuse(why string) {
	c.Params, c.Values, c.State = nil, nil, nil
	c.Error = &engine.Failure{Code: stepwell.CodeLimit, Message: why}
}

// outcome is the result of stepwell.step: the event that ends the attempt, and what it has recorded and spawned.
type outcome struct {
	Kind      engine.Kind                `json:"kind"`
	Started   int64                      `json:"started,omitempty"`
	Worker    string                     `json:"worker,omitempty"`
	Output    json.RawMessage            `json:"output,omitempty"`
	Failure   *engine.Failure            `json:"failure,omitempty"`
	Permanent bool                       `json:"permanent,omitempty"`
	After     time.Duration              `json:"after_ns,omitempty"`
	Defer     bool                       `json:"defer,omitempty"`
	Reason    string                     `json:"reason,omitempty"`
	Wait      *engine.Wait               `json:"wait,omitempty"`
	Cost      int64                      `json:"cost,omitempty"`
	Usage     stepwell.Usage             `json:"usage,omitzero"`
	Spawns    [][]engine.Spawn           `json:"spawns,omitempty"` // of one call each
	Memos     map[string]json.RawMessage `json:"memos,omitempty"`
	Took      int64                      `json:"took_us,omitempty"`
	Size      int                        `json:"size,omitempty"` // of params and outputs, in bytes
}

// event is what the engine is told of an attempt.
func (o *outcome) event(t *engine.Task) engine.Event {
	return engine.Event{Kind: o.Kind, Idx: t.Idx, Epoch: t.Epoch, Started: o.Started, Worker: o.Worker, Output: o.Output, Failure: o.Failure, Permanent: o.Permanent,
		After: o.After, Defer: o.Defer, Reason: o.Reason, Wait: o.Wait, Cost: o.Cost, Usage: o.Usage}
}

// call is the input of an activity about a task. The same task always gives the same.
func (h *hosting) call(t *engine.Task, memos map[string]json.RawMessage) *call {
	c := &call{No: t.Run, Execution: t.Execution, Pipeline: t.Pipeline, Idx: t.Idx, Epoch: t.Epoch, Attempt: t.Attempt, Key: t.Key, Name: t.Step.Name, Action: t.Step.Action,
		State: t.State, Timeout: t.Step.Policy.Timeout, LogLevel: t.Step.Policy.LogLevel, Priority: t.Priority, Revision: t.Limits.Revision, Memos: memos}
	if c.Name == "" {
		c.Name = t.Step.ID
	}
	ctx := context.Background() // nothing waits: there is no store and no secret
	p := h.render.Prepare(ctx, t)
	err := p.Err
	if err == nil && p.Params != nil {
		c.Params, err = expr.Marshal(p.Params)
	}
	if err == nil && t.Scope != nil && rendersItself(t.Step) {
		c.Values, err = h.render.Values(ctx, p)
	}
	if size := len(c.Params) + len(c.Values); err == nil && size > maxCarry {
		err = stepwell.Errorf(stepwell.CodeLimit, "", "the params of the step are %d MiB; inside Dapr Workflow the limit is %d MiB", size>>20, maxCarry>>20)
	}
	if err != nil {
		c.Params, c.Values = nil, nil
		c.Error = &engine.Failure{Code: stepwell.CodeOf(err), Message: stepwell.Clip(err.Error(), 4000), Hint: stepwell.HintOf(err)}
	}
	return c
}

// rendersItself reports whether the action of a step renders some of its templates.
func rendersItself(s *plan.Step) (is bool) {
	s.Params.Unrendered(func(t *expr.Template) { is = is || len(t.Refs()) > 0 })
	return is
}

// attemptID names an attempt within a process.
type attemptID struct {
	no    int64
	idx   int32
	epoch uint32
}

// attempt is one that this process runs, or has run: an activity that comes twice gets the same outcome.
type attempt struct {
	call    *call
	ended   chan struct{}
	outcome outcome
}

// maxKept is how many outcomes are kept for activities that come again.
const maxKept = 4096

// attempts run steps in a pool of workers. It is the pool's reporter, and its records.
type attempts struct {
	pool  *runner.Pool
	queue *queue.Memory
	log   *slog.Logger

	mu   sync.Mutex
	held map[attemptID]*attempt
	last map[recordID]*attempt // the latest of each step that runs
	kept []attemptID           // that have ended, oldest first
}

type recordID struct {
	no  int64
	idx int32
}

// run runs an attempt, or waits for the one that runs already.
func (a *attempts) run(ctx context.Context, c *call) (*outcome, error) {
	if c.Error != nil {
		return &outcome{Kind: engine.Failed, Started: time.Now().UnixMicro(), Failure: c.Error, Permanent: true}, nil
	}
	id := attemptID{c.No, c.Idx, c.Epoch}
	a.mu.Lock()
	x := a.held[id]
	if x == nil {
		x = &attempt{call: c, ended: make(chan struct{})}
		a.held[id], a.last[recordID{c.No, c.Idx}] = x, x
		t := taskOf(c)
		if err := a.queue.Push(ctx, []queue.Message{{Run: t.Run, Idx: t.Idx, Epoch: t.Epoch, Priority: t.Priority, Body: t}}); err != nil {
			a.drop(id)
			a.mu.Unlock()
			return nil, err
		}
	}
	a.mu.Unlock()
	select {
	case <-x.ended:
		return &x.outcome, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// runBatch runs attempts, as many at once as there are workers. It begins none after a time, nor when the outputs are large: those have no outcome.
func (a *attempts) runBatch(ctx context.Context, calls []*call, begin time.Duration) ([]*outcome, error) {
	outcomes := make([]*outcome, len(calls))
	until := time.Now().Add(begin)
	var next, size atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for range min(a.pool.Concurrency(), len(calls)) {
		group.Go(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(calls) || i > 0 && (time.Now().After(until) || size.Load() > maxBatchBytes) {
					return nil
				}
				var err error
				if outcomes[i], err = a.run(ctx, calls[i]); err != nil {
					return err
				}
				size.Add(int64(len(outcomes[i].Output)))
			}
		})
	}
	return outcomes, group.Wait()
}

// taskOf is the task that the pool runs. Its params are used as they are.
func taskOf(c *call) *engine.Task {
	step := &plan.Step{ID: c.Name, Name: c.Name, Action: c.Action, Policy: &plan.Policy{Timeout: c.Timeout, LogLevel: c.LogLevel}}
	t := &engine.Task{Run: c.No, Execution: c.Execution, Pipeline: c.Pipeline, Idx: c.Idx, Epoch: c.Epoch, Attempt: c.Attempt, Key: c.Key, Step: step, State: c.State, Priority: c.Priority,
		Params: c.Params}
	t.Limits.Revision = c.Revision
	if t.Params == nil {
		t.Params = []byte("{}")
	}
	if v, err := expr.Decode(c.Values); len(c.Values) > 0 && err == nil {
		values, _ := v.(map[string]any)
		t.Scope = engine.NewScope(values)
	}
	return t
}

// drop forgets an attempt. The caller holds the lock.
func (a *attempts) drop(id attemptID) {
	at := recordID{id.no, id.idx}
	if a.last[at] == a.held[id] {
		delete(a.last, at)
	}
	delete(a.held, id)
}

// execution is the id of the execution that a step is of which runs here.
func (a *attempts) execution(no int64, idx int32) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if x := a.last[recordID{no, idx}]; x != nil {
		return x.call.Execution
	}
	return ""
}

// revoke ends the handler of an attempt if it runs here.
func (a *attempts) revoke(no int64, list []engine.Revoke) {
	for _, r := range list {
		a.mu.Lock()
		x := a.held[attemptID{no, r.Idx, r.Epoch}]
		a.mu.Unlock()
		if x != nil {
			a.pool.Revoke(no, r.Idx, r.Epoch)
		}
	}
}

// Report implements worker.Reporter. It is durable when the sidecar has the outcome.
func (a *attempts) Report(_ context.Context, run int64, ev engine.Event) error {
	id := attemptID{run, ev.Idx, ev.Epoch}
	a.mu.Lock()
	defer a.mu.Unlock()
	x := a.held[id]
	if x == nil {
		return stepwell.Errorf(stepwell.CodeConflict, "", "the attempt is not this worker's")
	}
	o := &x.outcome
	switch ev.Kind {
	case engine.Running, engine.Advanced:
		return nil
	case engine.Spawned:
		o.Spawns = append(o.Spawns, ev.Spawns)
		return nil
	}
	memos, spawns := o.Memos, o.Spawns
	*o = outcome{Kind: ev.Kind, Started: ev.Started, Worker: ev.Worker, Output: ev.Output, Failure: ev.Failure, Permanent: ev.Permanent, After: ev.After, Defer: ev.Defer, Reason: ev.Reason,
		Wait: ev.Wait, Cost: ev.Cost, Usage: ev.Usage, Spawns: spawns, Memos: memos, Size: len(x.call.Params) + len(x.call.Values) + len(x.call.State) + len(ev.Output)}
	if ev.Started > 0 {
		o.Took = max(0, time.Now().UnixMicro()-ev.Started)
	}
	close(x.ended)
	a.kept = append(a.kept, id)
	if len(a.kept) > maxKept {
		a.drop(a.kept[0])
		a.kept = a.kept[1:]
	}
	return nil
}

// stop stops work that a step has left elsewhere. It is tried a few times.
func (a *attempts) stop(ctx context.Context, c *call) error {
	w := store.OutsideWork{Execution: c.No, ExecutionID: c.Execution, Step: c.Idx, Epoch: c.Epoch, Attempt: c.Attempt, StepKey: c.Key, Action: c.Action, State: c.State, Since: time.Now()}
	var err error
	for try := range 5 {
		ended := make(chan error, 1)
		a.pool.CancelFor(w, func(err error) { ended <- err })
		select {
		case err = <-ended:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err == nil || action.IsFail(err) {
			break
		}
		select {
		case <-time.After(time.Second << try):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if err != nil {
		a.log.Error("work that a step has left elsewhere could not be stopped", "execution", c.Execution, "step", c.Key, "error", err)
	}
	return err
}

// Bounds of what an attempt records: it travels with the history.
const (
	maxMemos   = 64 << 10 // of an attempt, with those of former ones
	recordHint = "run the pipeline on a server: the workflow stepwell.pipeline awaits it"
)

// PutMemo implements store.Records: a memo is durable with the outcome of its attempt.
func (a *attempts) PutMemo(_ context.Context, m store.Memo) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	x := a.last[recordID{m.Execution, m.Step}]
	if x == nil || x.call.Epoch != m.Epoch {
		return stepwell.Errorf(stepwell.CodeConflict, "", "the attempt is not this worker's")
	}
	size := len(m.Key) + len(m.Value)
	for _, known := range []map[string]json.RawMessage{x.call.Memos, x.outcome.Memos} {
		if _, ok := known[m.Key]; ok {
			return nil // the first value stays
		}
		for k, v := range known {
			size += len(k) + len(v)
		}
	}
	if size > maxMemos {
		return action.Fail(stepwell.Errorf(stepwell.CodeLimit, recordHint, "the records of the step are more than %d KiB, the limit inside Dapr Workflow", maxMemos>>10))
	}
	if x.outcome.Memos == nil {
		x.outcome.Memos = map[string]json.RawMessage{}
	}
	x.outcome.Memos[m.Key] = m.Value
	return nil
}

// Memo implements store.Records.
func (a *attempts) Memo(_ context.Context, execution int64, step int32, key string) (json.RawMessage, bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if x := a.last[recordID{execution, step}]; x != nil {
		for _, known := range []map[string]json.RawMessage{x.call.Memos, x.outcome.Memos} {
			if v, ok := known[key]; ok {
				return v, true, nil
			}
		}
	}
	return nil, false, nil
}

// errNoOutputs refuses actions that read the outputs of other steps by themselves.
func errNoOutputs() error {
	return action.Fail(stepwell.Errorf(stepwell.CodeInvalid, recordHint, "the action reads the outputs of other steps by itself, which it cannot inside Dapr Workflow"))
}

// Output implements store.Records.
func (a *attempts) Output(context.Context, int64, string) ([]byte, error) { return nil, errNoOutputs() }

// Outputs implements worker.Records.
func (a *attempts) Outputs(context.Context, int64) iter.Seq2[engine.StepRow, error] {
	return func(yield func(engine.StepRow, error) bool) { yield(engine.StepRow{}, errNoOutputs()) }
}

// PutOutsideWork implements store.Records: what is to be stopped is an activity of the execution's workflow.
func (a *attempts) PutOutsideWork(context.Context, store.OutsideWork) error { return nil }

// OutsideWork implements store.Records.
func (a *attempts) OutsideWork(context.Context, int64, store.OutsideWork, int) ([]store.OutsideWork, error) {
	return nil, nil
}

// DeleteOutsideWork implements store.Records.
func (a *attempts) DeleteOutsideWork(context.Context, int64, int32, uint32) error { return nil }

// noBlobs refuses large outputs.
type noBlobs struct{}

func (noBlobs) Put(_ context.Context, value []byte) (string, error) {
	return "", stepwell.Errorf(stepwell.CodeLimit, "write a file or an object of a bucket, and return where it is", "the outputs are %d KiB; inside Dapr Workflow the limit is 64 KiB", len(value)>>10)
}

func (noBlobs) Load(context.Context, string) ([]byte, error) {
	return nil, stepwell.Errorf(stepwell.CodeNotFound, "", "large outputs are not kept inside Dapr Workflow")
}

// answerEvent is the event that ends a step that waits, by the data of an event of the workflow: a conductor.Answer.
func answerEvent(w *engine.Await, text string) engine.Event {
	ev := engine.Event{Kind: engine.Settled, Idx: w.Idx, Epoch: w.Epoch, Worker: "event"}
	var a conductor.Answer
	invalid := func(why string) engine.Event {
		ev.Failure, ev.Permanent = &engine.Failure{Code: stepwell.CodeInvalid, Message: "the event " + w.External + " " + why, Hint: `its data are {"status": "completed", "outputs": {…}}`}, true
		return ev
	}
	if text != "" && text != "null" {
		if err := json.Unmarshal([]byte(text), &a); err != nil {
			return invalid("cannot be read: " + err.Error())
		}
	}
	if a.By != "" {
		ev.Worker = stepwell.Clip(a.By, 200)
	}
	var outputs map[string]json.RawMessage
	if len(a.Outputs) > 0 && json.Unmarshal(a.Outputs, &outputs) != nil {
		return invalid("has outputs that are not an object")
	}
	switch {
	case a.Status == "failed":
		ev.Failure, ev.Permanent = &engine.Failure{Code: cmp.Or(a.Code, stepwell.CodeFailed), Message: cmp.Or(stepwell.Clip(a.Error, 4000), "the event says that it failed"), Hint: a.Hint}, a.Final
	case a.Status == "skipped":
		ev.Reason = cmp.Or(stepwell.Clip(a.Error, 4000), "the event says so")
	case a.Status != "" && a.Status != "completed":
		return invalid(fmt.Sprintf("has the status %q, not completed, failed or skipped", stepwell.Clip(a.Status, 100)))
	case w.Require != "" && string(outputs[w.Require]) != "true":
		ev.Failure, ev.Permanent = &engine.Failure{Code: stepwell.CodeFailed, Message: "rejected"}, true
		if a.By != "" {
			ev.Failure.Message += " by " + stepwell.Clip(a.By, 200)
		}
	case len(a.Outputs) > 64<<10:
		return invalid(fmt.Sprintf("has outputs of %d KiB; inside Dapr Workflow the limit is 64 KiB", len(a.Outputs)>>10))
	default:
		if ev.Output = a.Outputs; string(ev.Output) == "null" {
			ev.Output = nil
		}
	}
	return ev
}
