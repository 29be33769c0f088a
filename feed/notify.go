package feed

import (
	"iter"
	"maps"

	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// Notify says that a change of an execution has become durable; ended, that it is terminal and all its
// log lines are durable too. It never blocks. Without subscribers it costs a look-up.
func (h *Hub) Notify(no int64, ended bool) {
	t, followers := h.find(no, ended)
	if t != nil {
		t.markDirty(dirty{events: true, lines: ended, end: ended})
	}
	for _, f := range followers {
		f.notice(Notice{Events: true, Lines: ended, Ended: ended})
	}
}

// Lines says that log lines of executions have become durable (conductor.Options.Lines).
func (h *Hub) Lines(executions []int64) {
	for _, no := range executions {
		t, followers := h.followed(no)
		if t != nil {
			t.markDirty(dirty{lines: true})
		}
		for _, f := range followers {
			f.notice(Notice{Lines: true})
		}
	}
}

// Observe is Notify for conductor.Options.Observe: it also takes the execution's progress and the keys of
// dispatched steps, which the store only has once such a step has a row.
func (h *Hub) Observe(u *conductor.Update) {
	ended := u.Execution.Status.Terminal()
	h.board.observe(u.Execution, &u.Progress)
	t, followers := h.find(u.Execution.No, ended)
	if t != nil {
		t.observe(u.Execution, &u.Progress, taskKeys(u.Tasks))
		t.markDirty(dirty{events: true, lines: ended, end: ended})
	}
	var keys map[int32]string
	for _, f := range followers {
		progress := u.Progress
		n := Notice{Events: true, Lines: ended, Ended: ended, Progress: &progress, Commit: u}
		if f.keys && keys == nil {
			keys = maps.Collect(taskKeys(u.Tasks))
		}
		if f.keys {
			n.Keys = keys
		}
		f.notice(n)
	}
}

// Progress passes a running step's report on to present subscribers, at most every Options.ProgressEvery. It never
// blocks.
func (h *Hub) Progress(no int64, idx int32, fraction float64, note string, items *Items) {
	t, followers := h.followed(no)
	h.flowing(no, idx, items)
	if t != nil {
		t.recordNote(idx, ProgressData{Fraction: fraction, Note: note, Items: items})
	}
	for _, f := range followers {
		f.notice(Notice{Steps: []StepNotice{{idx, fraction, note, items}}})
	}
}

// find is followed, and records ends.
func (h *Hub) find(no int64, ended bool) (*topic, []*follower) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ended {
		h.flows.forget(no)
		h.ends.add(no)
	} else if len(h.ends.nos) > 0 {
		delete(h.ends.nos, no) // it was restarted
	}
	return h.topics[no], h.followers[no]
}

// followed returns the topic of an execution, nil without subscribers, and the hubs of other processes that follow it.
func (h *Hub) followed(no int64) (*topic, []*follower) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.topics[no], h.followers[no]
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

// observe stores the facts that only a commit's observer has; x is nil when only its progress is known.
func (t *topic) observe(x *store.Execution, p *engine.Progress, keys iter.Seq2[int32, string]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.progress, t.observed = *p, true
	if x != nil {
		t.describe(x)
	}
	for idx, key := range keys {
		if len(t.names) >= maxNames {
			return
		}
		t.names[idx] = key
	}
}
