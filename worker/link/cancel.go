package link

import (
	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/desk/wire"
	"github.com/stepwell/stepwell/store"
)

// maxStopping bounds the calls of Cancel whose outcomes are kept. The node offers others again.
const maxStopping = 1000

// cancelOutside calls Cancel of handlers, besides the slots. A call that is being made already came twice.
func (w *Worker) cancelOutside(list []wire.Task) {
	for i := range list {
		t, err := decode(&list[i])
		if err != nil {
			w.o.Log.Error("a call of Cancel cannot be read", "step", list[i].StepID, "error", err)
			continue
		}
		w.mu.Lock()
		twice := w.stopping[t.key()] != nil || len(w.stopping) >= maxStopping
		if !twice {
			w.stopping[t.key()] = t
		}
		w.mu.Unlock()
		if !twice {
			w.pool.CancelFor(store.OutsideWork{Execution: t.Run, ExecutionID: t.Execution, Step: t.Idx, Epoch: t.Epoch, Attempt: t.Attempt, StepKey: t.Key, Action: t.Step.Action, State: t.State},
				func(err error) { w.keepOutcome(t, cancelled(t.id, err)) })
		}
	}
}

// cancelled is the outcome of a call of Cancel.
func cancelled(id wire.ID, err error) *wire.Outcome {
	o := &wire.Outcome{ID: id, Status: wire.Completed}
	if err != nil {
		o.Status, o.Permanent = wire.Failed, action.IsFail(err)
		o.Error = &wire.Error{Code: stepwell.CodeOf(err), Message: err.Error(), Hint: stepwell.HintOf(err)}
	}
	return o
}

// listOf is where a task is listed. The caller holds the lock.
func (w *Worker) listOf(t *task) map[taskID]*task {
	if t.id.Kind == wire.Cancel {
		return w.stopping
	}
	return w.held
}

// stops is the call of Cancel of a step; nil: none is being made. The caller holds the lock.
func (w *Worker) stops(run int64, idx int32) *task {
	for k, t := range w.stopping {
		if k.run == run && k.idx == idx && t.outcome == nil {
			return t
		}
	}
	return nil
}
