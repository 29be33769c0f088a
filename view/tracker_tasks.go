package view

import (
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
)

func (t *Tracker) dispatched(idx int32, key string, attempt int) {
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

// together notes the steps that a stream's lead is dispatched for.
func (t *Tracker) together(lead *engine.Task) {
	first := t.tasks[lead.Idx]
	if first == nil || first.with != nil {
		return
	}
	for _, m := range lead.Members {
		if m.Idx == lead.Idx || t.tasks[m.Idx] != nil {
			continue
		}
		l, is := t.board.find(m.Key)
		t.tasks[m.Idx] = &task{key: m.Key, attempt: lead.Attempt, line: l, kin: is, led: true}
		first.with = append(first.with, m.Idx)
		if is == itself {
			l.status, l.hidden = stepwell.StepQueued, false
		}
	}
}

// promote says which of the dispatched steps run: workers take them in order, and only a step that
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
