package view

import (
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
)

// applyRow applies the new state of a step.
func (t *Tracker) applyRow(row *engine.StepRow, now time.Time) {
	key := t.key(row)
	l, is := t.board.find(key)
	if is == child && !l.body {
		t.countSpawned(l, row)
	}
	e := event{At: now, Type: "step", Execution: t.id, Step: key, Status: row.Status.String(), state: row.Status, Attempt: row.Attempt, child: is == child || is == inner}
	if row.Error != nil {
		e.Message, e.Hint = row.Error.Message, row.Error.Hint
	}
	switch {
	case row.Status == stepwell.StepPending:
		if is == itself { // a restart
			*l = line{shape: l.shape}
		}
		delete(t.tasks, row.Idx)
		return
	case row.Status == stepwell.StepRunning:
		t.running(row, l, is, &e)
		return
	case row.Status == stepwell.StepRetrying || row.Status == stepwell.StepWaiting:
		wake := time.UnixMicro(row.Wake)
		e.Wake = &wake
		t.free(row.Idx)
		if is == itself {
			l.status, l.wake, l.message, l.attempt, l.fraction, l.note = row.Status, wake, e.Message, row.Attempt, 0, ""
		}
	case row.Status.Terminal():
		if row.Started > 0 && row.Ended > 0 {
			ms := (row.Ended - row.Started) / 1000
			e.Duration = &ms
		}
		t.free(row.Idx)
		t.ended(l, is, row, &e)
	}
	t.view.show(&e)
}

// running handles a step with others inside that begins, or a worker's step that is seen running.
func (t *Tracker) running(row *engine.StepRow, l *line, is kin, e *event) {
	if task := t.tasks[row.Idx]; task != nil {
		t.start(row.Idx, task, e.At)
		return
	}
	if is == itself && l.body {
		l.status, l.started, l.hidden = stepwell.StepRunning, e.At, false
		l.message = ""
		e.Status = "started"
		t.view.show(e)
	}
}

// failures is 1 for a step that failed.
func failures(s stepwell.StepStatus) int {
	if s == stepwell.StepFailed || s == stepwell.StepTimedOut {
		return 1
	}
	return 0
}

// countSpawned counts spawned steps. A restart may reset them.
func (t *Tracker) countSpawned(l *line, row *engine.StepRow) {
	before, known := t.spawns[row.Idx]
	if !known {
		l.total++
	}
	if known && before.Terminal() && !row.Status.Terminal() {
		l.ended--
		l.failed -= failures(before)
	}
	t.spawns[row.Idx] = row.Status
}

func (t *Tracker) ended(l *line, is kin, row *engine.StepRow, e *event) {
	switch is {
	case itself:
		l.status, l.message, l.attempt, l.wake = row.Status, e.Message, row.Attempt, time.Time{}
		l.hidden = l.hidden && row.Status == stepwell.StepSkipped
		if e.Duration != nil {
			l.took = time.Duration(*e.Duration) * time.Millisecond
		}
		if l.body && l.many && l.total < l.ended {
			l.total = l.ended
		}
	case child:
		l.ended++
		l.note = ""
		if n := failures(row.Status); n > 0 {
			l.failed += n
			l.message = e.Message
		}
	}
}
