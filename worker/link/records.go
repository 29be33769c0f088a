package link

import (
	"context"
	"encoding/json"
	"iter"
	"net/url"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/desk/wire"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// stepCall is the name of a call on an attempt's step.
func stepCall(t *task, what string) string {
	return "steps/" + url.PathEscape(t.id.StepID) + "/" + what
}

// Report implements worker.Reporter.
func (w *Worker) Report(ctx context.Context, run int64, ev engine.Event) error {
	t := w.find(run, ev.Idx, ev.Epoch)
	if t == nil {
		return notHeld()
	}
	switch ev.Kind {
	case engine.Spawned:
		in := wire.Spawn{Worker: w.name(), Epoch: t.Epoch}
		for i := range ev.Spawns {
			in.Steps = append(in.Steps, spawned(&ev.Spawns[i]))
		}
		err := w.call(ctx, stepCall(t, "spawn"), in, nil)
		if code := stepwell.CodeOf(err); code == stepwell.CodeInvalid || code == stepwell.CodeLimit {
			err = action.Fail(err)
		}
		return err
	case engine.Running:
		return w.call(ctx, "claim", wire.Claim{Worker: w.name(), StepID: t.id.StepID, Epoch: t.Epoch, RanMS: float64(ev.At-ev.Started) / 1000}, nil)
	case engine.Advanced:
		w.mu.Lock()
		defer w.mu.Unlock()
		t.progressDoc(w.name()).Advanced = true
		return nil
	}
	w.keep(t, &ev)
	return nil
}

// keep puts an outcome into the outbox.
func (w *Worker) keep(t *task, ev *engine.Event) {
	w.keepOutcome(t, w.outcomeOf(t, ev))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ran++
}

// keepOutcome puts an outcome into the outbox, with the lines that have not been sent.
func (w *Worker) keepOutcome(t *task, o *wire.Outcome) {
	t.talk.Lock()
	defer t.talk.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	if t.outcome != nil {
		return
	}
	o.Log = t.takeLines()
	t.outcome, t.size = o, size(o)
	w.unsent, w.outbox, w.bytes = append(w.unsent, t), w.outbox+1, w.bytes+t.size
	w.tellSender()
}

// PutMemo implements store.Records.
func (w *Worker) PutMemo(ctx context.Context, m store.Memo) error {
	t := w.find(m.Execution, m.Step, m.Epoch)
	if t == nil {
		return notHeld()
	}
	return w.call(ctx, stepCall(t, "memo"), wire.Memo{Worker: w.name(), Epoch: t.Epoch, Key: m.Key, Value: m.Value}, nil)
}

// Memo implements store.Records.
func (w *Worker) Memo(ctx context.Context, execution int64, step int32, key string) (json.RawMessage, bool, error) {
	t := w.find(execution, step, 0)
	if t == nil {
		return nil, false, notHeld()
	}
	var v wire.Value
	err := w.call(ctx, stepCall(t, "memo"), wire.Memo{Worker: w.name(), Epoch: t.Epoch, Key: key}, &v)
	return v.Value, v.Found, err
}

// callAny makes a call for the first of some attempts, where it is not known which of them needs the answer. The node refuses it for one
// that has ended meanwhile: then it is made for the next. Left are those for which it has not been refused.
func (w *Worker) callAny(ctx context.Context, of []*task, what string, in func(*task) any, out any) (left []*task, err error) {
	for err = notHeld(); len(of) > 0; of = of[1:] {
		if err = w.call(ctx, stepCall(of[0], what), in(of[0]), out); stepwell.CodeOf(err) != stepwell.CodeConflict {
			return of, err
		}
	}
	return nil, err
}

// outputs asks for the outputs of one step, or with no key for those of all.
func (w *Worker) outputs(ctx context.Context, execution int64, key string) ([]byte, error) {
	var v wire.Value
	_, err := w.callAny(ctx, w.runningOf(execution), "outputs/"+url.PathEscape(key), func(t *task) any { return wire.Outputs{Worker: w.name(), Epoch: t.Epoch} }, &v)
	return v.Value, err
}

// runningOf lists the held attempts of an execution that have not ended.
func (w *Worker) runningOf(execution int64) (list []*task) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for k, t := range w.held {
		if k.run == execution && t.outcome == nil {
			list = append(list, t)
		}
	}
	return list
}

// Output implements store.Records.
func (w *Worker) Output(ctx context.Context, execution int64, key string) ([]byte, error) {
	return w.outputs(ctx, execution, key)
}

// Outputs implements worker.Records: the node merges them.
func (w *Worker) Outputs(ctx context.Context, execution int64) iter.Seq2[engine.StepRow, error] {
	return func(yield func(engine.StepRow, error) bool) {
		raw, err := w.outputs(ctx, execution, "")
		yield(engine.StepRow{Output: raw}, err)
	}
}

// PutOutsideWork implements store.Records. The node decides with the outcome whether the work was given up.
func (w *Worker) PutOutsideWork(ctx context.Context, x store.OutsideWork) error {
	if !x.Held {
		return nil
	}
	t := w.find(x.Execution, x.Step, x.Epoch)
	if t == nil {
		return notHeld()
	}
	return w.call(ctx, stepCall(t, "own"), wire.Own{Worker: w.name(), Epoch: t.Epoch, State: x.State}, nil)
}

// OutsideWork implements store.Records: the node's rows are the node's.
func (w *Worker) OutsideWork(context.Context, int64, store.OutsideWork, int) ([]store.OutsideWork, error) {
	return nil, nil
}

// DeleteOutsideWork implements store.Records.
func (w *Worker) DeleteOutsideWork(context.Context, int64, int32, uint32) error { return nil }

// callbackURL is worker.Options.CallbackURL. The key names the step: callback:EXECUTION/STEP#NUMBER.
func (w *Worker) callbackURL(key string) string {
	var of *task
	w.mu.Lock()
	for _, t := range w.held {
		if t.outcome == nil && strings.HasPrefix(key, "callback:"+t.Execution+"/"+t.Key+"#") {
			of = t
		}
	}
	w.mu.Unlock()
	if of == nil {
		return ""
	}
	ctx, end := context.WithTimeout(context.Background(), callTimeout)
	defer end()
	var to wire.Address
	if err := w.call(ctx, stepCall(of, "callback"), wire.Callback{Worker: w.name(), Epoch: of.Epoch}, &to); err != nil {
		w.o.Log.Warn("the address of a step is not known", "step", of.id.StepID, "error", err)
	}
	return to.URL
}
