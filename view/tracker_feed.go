package view

import (
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/worker"
)

// Log shows a line of a step's log (app.Options.Lines).
func (t *Tracker) Log(l store.LogLine) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.Execution != t.no || t.no == 0 {
		return
	}
	is := itself
	if task := t.tasks[l.Step]; task != nil {
		t.start(l.Step, task, l.At)
		is = task.kin
		if is == itself {
			task.line.note = l.Message
		}
	}
	t.view.show(&event{At: l.At, Type: "log", Execution: t.id, Step: l.StepKey, Attempt: l.Attempt, Level: l.Level, Message: l.Message, Attrs: l.Attrs, child: is != itself})
}

// Advance shows a step's own progress (app.Options.Progress).
func (t *Tracker) Advance(run int64, idx int32, p worker.Progress) {
	t.mu.Lock()
	defer t.mu.Unlock()
	task := t.tasks[idx]
	if run != t.no || task == nil {
		return
	}
	t.start(idx, task, time.Now())
	switch {
	case task.kin != itself && task.kin != child:
	case p.Counts != nil:
		if task.line.items == nil {
			task.line.items = &items{}
		}
		task.line.items.measure(p.Counts, time.Now())
		if task.kin == itself && p.Counts.Total > 0 {
			task.line.fraction = min(1, float64(p.Counts.In+p.Counts.Skipped)/float64(p.Counts.Total))
		}
		task.line.note = task.line.items.text()
	case task.kin == itself:
		task.line.fraction, task.line.note = max(0, p.Fraction), p.Note
	default:
		task.line.note = p.Note
	}
}

// Drain makes the tracker assume that no further steps start.
func (t *Tracker) Drain() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.draining = true
}

// Say shows a message of Stepwell's own.
func (t *Tracker) Say(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.view.say(text)
}

// Close ends the view: a tree is drawn a last time and left.
func (t *Tracker) Close() { t.view.close() }

// Live reports whether a tree is drawn, so that other writes to the terminal would tear it.
func (t *Tracker) Live() bool {
	_, live := t.view.(*liveView)
	return live
}

// Counts returns the counts of the last commit, if the execution with this id is the one that is shown.
func (t *Tracker) Counts(id string) (*engine.Progress, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.progress
	return &p, t.id == id
}

// Follow makes the tracker show an execution that exists, with what has ended in it already.
func (t *Tracker) Follow(x *store.Execution, steps []store.Step) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.no, t.id, t.progress = x.No, x.ID, x.Progress
	for i := range steps {
		row := &steps[i].StepRow
		if key := t.key(row); !strings.HasPrefix(key, "#") { // queued, and known by its number alone
			t.restoreStep(key, row)
		}
	}
}

// restoreStep applies a step of an execution that nobody runs at the moment.
func (t *Tracker) restoreStep(key string, row *engine.StepRow) {
	l, is := t.board.find(key)
	switch {
	case is == itself:
		l.status, l.attempt = row.Status, row.Attempt
		if row.Started > 0 && row.Ended > 0 {
			l.took = time.Duration(row.Ended-row.Started) * time.Microsecond
		}
		if l.started = t.begun; row.Started > 0 {
			l.started = time.UnixMicro(row.Started)
		}
		if row.Error != nil && row.Status.Terminal() {
			l.message = row.Error.Message
		}
		if l.status == stepwell.StepQueued || l.status == stepwell.StepRunning && !l.body {
			l.status = stepwell.StepPending // whoever ran it is gone
		}
		l.hidden = l.hidden && row.Status == stepwell.StepPending
	case is == child:
		if !l.body {
			t.countSpawned(l, row)
			l.failed += failures(row.Status)
		}
		if row.Status.Terminal() {
			l.ended++
		}
	}
}
