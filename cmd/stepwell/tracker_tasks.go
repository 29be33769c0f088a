package main

import (
	"time"

	"github.com/stepwell/stepwell"
)

func (t *tracker) dispatched(idx int32, key string, attempt int) {
	if t.tasks[idx] != nil {
		return
	}
	l, is := t.board.find(key)
	t.tasks[idx] = &task{key: key, attempt: attempt, line: l, kin: is}
	t.queued = append(t.queued, idx)
	if is == itself {
		l.status, l.hidden = stepwell.StepQueued, false
	}
}

// promote says which of the dispatched steps run: workers take them in order, and only a step that
// has been running for a while is reported.
func (t *tracker) promote(now time.Time) {
	for len(t.queued) > 0 && t.active < t.slots && !t.draining {
		idx := t.queued[0]
		t.queued = t.queued[1:]
		if task := t.tasks[idx]; task != nil {
			t.start(idx, task, now)
		}
	}
}

func (t *tracker) start(idx int32, task *task, now time.Time) {
	if task.running {
		return
	}
	task.running = true
	t.active++
	switch task.kin {
	case itself:
		l := task.line
		l.status, l.started, l.attempt, l.fraction, l.note = stepwell.StepRunning, now, task.attempt, 0, ""
	case child:
		if task.line.running++; task.line.started.IsZero() {
			task.line.started = now
		}
	}
	t.view.event(&event{At: now, Type: "step", Execution: t.id, Step: task.key, Status: "started", state: stepwell.StepRunning,
		Attempt: task.attempt, child: task.kin != itself})
}

// free takes a step off its worker.
func (t *tracker) free(idx int32) {
	task := t.tasks[idx]
	if task == nil {
		return
	}
	delete(t.tasks, idx)
	if !task.running {
		return
	}
	t.active--
	if task.kin == child {
		task.line.running--
	}
}
