package view

import (
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/worker"
)

// conducted is what a tracker knows of an execution that this process runs. Its events come from the conductor and the
// workers: reading them back from the store as the API's stream does takes three times as long as running 100,000
// iterations (docs/decisions.md).
type conducted struct {
	mine    func(*store.Execution) bool // the execution to follow, before its number is known
	no      int64
	slots   int              // workers
	waiting []string         // keys of steps that are dispatched and wait for a worker, in order
	keys    map[int32]string // of steps that are dispatched
	told    Event            // the one that is being applied: views keep none
}

// Observe applies what one commit changed (app.Options.Observe).
func (t *Tracker) Observe(u *conductor.Update) {
	t.mu.Lock()
	defer t.mu.Unlock()
	x := u.Execution
	if t.no == 0 && t.mine(x) {
		t.no, t.id = x.No, x.ID
	}
	if x.No != t.no {
		return
	}
	now := time.Now()
	t.execution(x.Status, now)
	for i := range u.Rows {
		t.row(&u.Rows[i], now)
	}
	for _, task := range u.Tasks {
		t.dispatched(task, now)
	}
	t.count(&u.Progress)
	t.promote(now)
}

// row applies the new state of a step.
func (t *Tracker) row(row *engine.StepRow, now time.Time) {
	t.told = Event{At: now, Step: row.Key, State: row.Status, Attempt: row.Attempt}
	e := &t.told
	if row.Key == "" && int(row.Idx) < len(t.board.ids) {
		e.Step = t.board.ids[row.Idx]
	}
	if row.Error != nil {
		e.Message, e.Hint = row.Error.Message, row.Error.Hint
	}
	if row.Wake > 0 && (row.Status == stepwell.StepRetrying || row.Status == stepwell.StepWaiting) {
		wake := time.UnixMicro(row.Wake)
		e.Wake = &wake
	}
	if row.Status.Terminal() {
		delete(t.keys, row.Idx)
		if row.Started > 0 && row.Ended > 0 {
			ms := (row.Ended - row.Started) / 1000
			e.Duration = &ms
		}
	}
	t.step(e)
}

// dispatched queues a task, with the steps that a stream's lead is dispatched for.
func (t *Tracker) dispatched(lead *engine.Task, now time.Time) {
	if t.dispatch(lead.Idx, lead.Key, lead.Attempt, now) {
		t.waiting = append(t.waiting, lead.Key)
	}
	first := t.flights[lead.Key]
	if first.with != nil {
		return
	}
	for _, m := range lead.Members {
		if t.dispatch(m.Idx, m.Key, lead.Attempt, now) {
			first.with = append(first.with, m.Key)
			t.flights[m.Key].led = true
		}
	}
}

// dispatch queues one attempt, and reports whether it is new.
func (t *Tracker) dispatch(idx int32, key string, attempt int, now time.Time) bool {
	f := t.flights[key]
	if f != nil && !f.failed {
		return false
	}
	t.keys[idx] = key
	l, is := t.board.find(key)
	t.told = Event{At: now, Step: key, State: stepwell.StepQueued, Attempt: attempt}
	t.queue(&t.told, l, is, f)
	return true
}

// promote marks the dispatched steps that run: workers take them in order, and only a step that has been running for a
// while is reported.
func (t *Tracker) promote(now time.Time) {
	for len(t.waiting) > 0 && t.active < t.slots && !t.draining {
		key := t.waiting[0]
		t.waiting = t.waiting[1:]
		if f := t.flights[key]; f != nil {
			t.start(key, f, now)
		}
	}
}

// Log shows a line of a step's log (app.Options.Lines).
func (t *Tracker) Log(l store.LogLine) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.Execution == t.no && t.no != 0 {
		t.log(&Event{At: l.At, Type: "log", Execution: t.id, Step: l.StepKey, Attempt: l.Attempt, Level: l.Level, Message: l.Message, Attrs: l.Attrs})
	}
}

// Advance shows a step's own progress (app.Options.Progress).
func (t *Tracker) Advance(run int64, idx int32, p worker.Progress) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if key, known := t.keys[idx]; known && run == t.no {
		t.advance(&Event{At: time.Now(), Step: key, Message: p.Note, Fraction: p.Fraction, Counts: p.Counts})
	}
}
