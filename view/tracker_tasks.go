package view

import (
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
)

// addTask adds a dispatched attempt, and reports whether it is new.
func (t *Tracker) addTask(idx int32, key string, attempt int, led bool) bool {
	if t.tasks[idx] != nil {
		return false
	}
	l, is := t.board.find(key)
	t.tasks[idx] = &task{key: key, attempt: attempt, line: l, kin: is, led: led}
	if is == itself {
		l.status, l.hidden = stepwell.StepQueued, false
	}
	return true
}

// dispatched queues a task, with the steps that a stream's lead is dispatched for.
func (t *Tracker) dispatched(lead *engine.Task) {
	if t.addTask(lead.Idx, lead.Key, lead.Attempt, false) {
		t.queued = append(t.queued, lead.Idx)
	}
	first := t.tasks[lead.Idx]
	if first.with != nil {
		return
	}
	for _, m := range lead.Members {
		if t.addTask(m.Idx, m.Key, lead.Attempt, true) {
			first.with = append(first.with, m.Idx)
		}
	}
}

// promote marks the dispatched steps that run: workers take them in order, and only a step that
// has been running for a while is reported.
func (t *Tracker) promote(now time.Time) {
	for len(t.queued) > 0 && t.active < t.slots && !t.draining {
		idx := t.queued[0]
		t.queued = t.queued[1:]
		if task := t.tasks[idx]; task != nil {
			t.start(idx, task, now)
		}
	}
}

func (t *Tracker) start(idx int32, task *task, now time.Time) {
	if task.running {
		return
	}
	task.running = true
	if !task.led {
		t.active++
	}
	switch task.kin {
	case itself:
		l := task.line
		l.status, l.started, l.attempt, l.fraction, l.note, l.items = stepwell.StepRunning, now, task.attempt, 0, "", nil
	case child:
		if task.line.running++; task.line.started.IsZero() {
			task.line.started = now
		}
	}
	t.view.show(&event{At: now, Type: "step", Execution: t.id, Step: task.key, Status: "started", state: stepwell.StepRunning,
		Attempt: task.attempt, child: task.kin != itself})
	for _, idx := range task.with {
		if member := t.tasks[idx]; member != nil {
			t.start(idx, member, now)
		}
	}
}

// free takes a step off its worker.
func (t *Tracker) free(idx int32) {
	task := t.tasks[idx]
	if task == nil {
		return
	}
	delete(t.tasks, idx)
	if !task.running {
		return
	}
	if !task.led {
		t.active--
	}
	if task.kin == child {
		task.line.running--
	}
}
