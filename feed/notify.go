package feed

import (
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/engine"
)

// Notify says that a change of an execution has become durable; ended, that it is terminal and all its
// log lines are durable too. It never blocks. Without subscribers it costs a look-up.
func (h *Hub) Notify(no int64, ended bool) {
	if t := h.find(no, ended); t != nil {
		t.markDirty(dirty{events: true, lines: ended, end: ended})
	}
}

// Lines says that log lines of executions have become durable (conductor.Options.Lines).
func (h *Hub) Lines(executions []int64) {
	for _, no := range executions {
		h.mu.Lock()
		t := h.topics[no]
		h.mu.Unlock()
		if t != nil {
			t.markDirty(dirty{lines: true})
		}
	}
}

// Observe is Notify for conductor.Options.Observe: it also takes the execution's progress and the keys of
// dispatched steps, which the store only has once such a step has a row.
func (h *Hub) Observe(u *conductor.Update) {
	ended := u.Execution.Status.Terminal()
	t := h.find(u.Execution.No, ended)
	if t == nil {
		return
	}
	t.observe(&u.Progress, u.Tasks)
	t.markDirty(dirty{events: true, lines: ended, end: ended})
}

// Progress passes a running step's report on to present subscribers, at most every Options.ProgressEvery. It never
// blocks.
func (h *Hub) Progress(no int64, idx int32, fraction float64, note string) {
	h.mu.Lock()
	t := h.topics[no]
	h.mu.Unlock()
	if t != nil {
		t.recordNote(idx, fraction, note)
	}
}

// find returns the topic of an execution, nil without subscribers, and records ends.
func (h *Hub) find(no int64, ended bool) *topic {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ended {
		h.ends.add(no)
	} else if len(h.ends.nos) > 0 {
		delete(h.ends.nos, no) // it was restarted
	}
	return h.topics[no]
}

// ends are the executions that ended lately with all their lines: new subscribers need not wait for more.
type ends struct {
	nos  map[int64]struct{}
	ring [1024]int64
	at   int
}

func (e *ends) add(no int64) {
	if _, ok := e.nos[no]; ok {
		return
	}
	delete(e.nos, e.ring[e.at])
	e.nos[no] = struct{}{}
	e.ring[e.at] = no
	e.at = (e.at + 1) % len(e.ring)
}

// maxNames bounds the keys of steps, and the steps with progress, that a topic knows.
const maxNames = 10_000

// observe stores the facts that only a commit's observer has.
func (t *topic) observe(p *engine.Progress, tasks []*engine.Task) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.progress, t.observed = *p, true
	for _, task := range tasks {
		if len(t.names) >= maxNames {
			return
		}
		t.names[task.Idx] = task.Key
	}
}
