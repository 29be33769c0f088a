package desk

import (
	"context"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/desk/wire"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/worker"
)

// leaves reports whether a segment may go to a worker elsewhere, which takes over and hands over its files where this process
// does. A worker has no secrets to redact what it stores there. The caller holds the lock.
func (d *Desk) leaves(t *engine.Task) bool {
	if d.p.Streams == "" || t.Step.Secrets {
		return false
	}
	a := d.attempts[id{t.Execution, t.Idx, t.Epoch}]
	return a == nil || !a.stays
}

// segmentCall is call for a segment. One whose call only this process can make is put back, and stays.
func (d *Desk) segmentCall(ctx context.Context, a *attempt, p *worker.Prepared, params []byte) (wire.Task, bool) {
	values, err := d.p.Runner.Values(context.WithoutCancel(ctx), *p)
	if err != nil || d.hasSecrets(a, p, params) || d.hasSecrets(a, p, values) {
		d.mu.Lock()
		defer d.mu.Unlock()
		a.stays = true
		d.putBack(a)
		return wire.Task{}, false
	}
	t := d.call(a, p, params)
	t.GoesOn, t.Values = a.task.GoesOn, values
	for i := range a.task.Members {
		m := &a.task.Members[i]
		t.Members = append(t.Members, wire.Member{StepID: wire.Step(a.execution, m.Idx), ID: m.ID, LogLevel: m.LogLevel})
	}
	return t, true
}

// members is the outcome of a segment as its handler returns it.
func members(o *wire.Outcome) action.Members {
	all := action.Members{Partial: o.Partial, Footprints: o.Footprints, Outputs: map[string]any{}, Failed: map[string]error{}, Stopped: map[string]string{}, Counts: map[string]action.Counts{}}
	for i := range o.Members {
		m := &o.Members[i]
		if m.Items != nil {
			all.Counts[m.ID] = *m.Items
		}
		switch {
		case m.Error != nil:
			all.Failed[m.ID] = failureOf(m.Error)
		case m.StoppedBy != "":
			all.Stopped[m.ID] = m.StoppedBy
		case len(m.Output) > 0:
			all.Outputs[m.ID] = m.Output
		}
	}
	return all
}
