package link

import (
	"context"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/desk/wire"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/worker"
)

// decodeMembers adds to a task what only those of segments have.
func decodeMembers(in *wire.Task, t *engine.Task) error {
	t.GoesOn = in.GoesOn
	for _, m := range in.Members {
		_, idx, err := wire.Split(m.StepID)
		if err != nil {
			return err
		}
		t.Members = append(t.Members, engine.Member{Idx: idx, ID: m.ID, LogLevel: m.LogLevel})
	}
	if len(in.Values) == 0 {
		return nil
	}
	v, err := expr.Decode(in.Values)
	values, ok := v.(map[string]any)
	if err != nil || !ok {
		return stepwell.Invalid("", "values are not an object that can be read")
	}
	t.Scope = engine.NewScope(values)
	return nil
}

// member is the id of a step that the task stands for, "" if it does not.
func (t *task) member(idx int32) string {
	for i := range t.Members {
		if t.Members[i].Idx == idx {
			return t.Members[i].ID
		}
	}
	return ""
}

// progressDoc is the progress that is to be sent. The caller holds the worker's lock.
func (t *task) progressDoc(name string) *wire.Progress {
	if t.progress == nil {
		t.progress = &wire.Progress{Worker: name, Epoch: t.Epoch}
	}
	return t.progress
}

// progressOf adds a member's progress to what is to be sent. The caller holds the worker's lock.
func (t *task) progressOf(name, id string, p worker.Progress) {
	doc := t.progressDoc(name)
	at := -1
	for i := range doc.Members {
		if doc.Members[i].ID == id {
			at = i
		}
	}
	if at < 0 {
		doc.Members = append(doc.Members, wire.MemberProgress{ID: id})
		at = len(doc.Members) - 1
	}
	m := &doc.Members[at]
	if p.Counts != nil {
		m.Counts, m.Total = *p.Counts, p.Counts.Total
	}
	m.Fraction = max(m.Fraction, p.Fraction)
}

// addMembers adds what has become of the steps that a task stands for. Outputs that no call can carry fail it.
func (w *Worker) addMembers(o *wire.Outcome, t *task, ev *engine.Event) {
	parts := ev.Parts
	if ev.Kind == engine.DoneAll {
		parts = append([]engine.Part{{Idx: ev.Idx, Output: ev.Output}}, parts...)
	}
	o.Partial, o.Footprints = ev.Partial, ev.Footprints
	if ev.Kind == engine.Failed && ev.Member > 0 {
		o.Member = t.member(ev.Member - 1)
	}
	for i := range t.Members {
		m := wire.MemberOutcome{ID: t.Members[i].ID}
		said := false
		for j := range parts {
			if part := &parts[j]; part.Idx == t.Members[i].Idx {
				said = true
				m.Output = w.output(part.Output)
				if part.Failure != nil {
					m.Error = &wire.Error{Code: part.Failure.Code, Message: part.Failure.Message, Hint: part.Failure.Hint}
				}
				if part.StoppedBy > 0 {
					m.StoppedBy = t.member(part.StoppedBy - 1)
				}
			}
		}
		if c, ok := ev.Counted[t.Members[i].Idx]; ok {
			said = true
			m.Items = &action.Counts{In: c.In, Out: c.Out, Failed: c.Failed, Dropped: c.Dropped, Skipped: c.Skipped}
		}
		if said {
			o.Members = append(o.Members, m)
		}
	}
	if size(o) > wire.MaxBody/2 {
		*o = wire.Outcome{ID: o.ID, RanMS: o.RanMS, Status: wire.Failed, Permanent: true,
			Error: &wire.Error{Code: stepwell.CodeLimit, Message: "the outputs of the stream's steps are too large for a worker to report together"}}
	}
}

// streamLoop finds out whether this worker reaches the place where the streams of its node are handed over, and joins again then,
// to run them.
func (w *Worker) streamLoop(ctx context.Context) {
	if w.o.Streams == nil {
		return
	}
	pause, told := time.Second, false
	for w.await(ctx, func() bool { return w.place != w.checked }) {
		w.mu.Lock()
		place := w.place
		w.mu.Unlock()
		var err error
		if place != "" {
			err = w.o.Streams(ctx, place)
		}
		if err != nil && !told {
			w.failed(ctx, "streams do not run here", err)
			told = true
		}
		if err != nil && stepwell.CodeOf(err) != stepwell.CodeInvalid && stepwell.CodeOf(err) != stepwell.CodeConflict {
			_ = action.Pause(ctx, pause) // the loop looks at ctx
			pause = min(2*pause, 30*time.Second)
			continue
		}
		w.mu.Lock()
		before := w.streams
		w.checked, w.streams = place, err == nil && place != ""
		same := before == w.streams
		w.mu.Unlock()
		if same {
			continue
		}
		if err := w.call(ctx, "join", w.joining(), nil); err != nil {
			w.failed(ctx, "the node does not know whether streams run here", err)
		}
	}
}
