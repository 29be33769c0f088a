package field

import (
	"slices"
	"sync"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

// Commit is what commits of an execution have done to its steps. All of it belongs to who tells it.
type Commit struct {
	Execution *store.Execution // after it
	store.StepChanges
}

// maxTail bounds the steps of a tail.
const maxTail = 1 << 17

// tail is what the last commits of a followed execution have done to its steps, as the process that made them has told: so that its
// table need not be read from the store, which costs a hundred times as much.
type tail struct {
	mu       sync.Mutex
	from, to int64 // everything between is in the parts; 0, 0: nothing has been told
	began    int64 // from which the execution's times count
	parts    []part
	steps    int // of all parts
}

// part is one commit.
type part struct {
	version int64
	rows    []store.StepState
	queued  []queuedStep
	last    int32 // the highest index
	over    bool  // the execution had ended with it
}

type queuedStep struct {
	idx int32
	key string
}

// tell adds a commit. Where it does not follow the one before, or there is more than is kept, the tail begins anew behind it.
func (l *tail) tell(c *Commit) {
	began := origin(c.Execution)
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(c.Rows) + len(c.Tasks)
	if l.to == 0 {
		l.from, l.to, l.began = c.Since, c.Since, began
	}
	if c.Since > l.to || c.Version <= c.Since || c.Superseded || began != l.began || l.steps+n > maxTail {
		l.from, l.to, l.began, l.parts, l.steps = c.Version, c.Version, began, nil, 0
		return
	}
	p := part{version: c.Version, rows: make([]store.StepState, len(c.Rows)), queued: make([]queuedStep, len(c.Tasks)), over: c.Execution.Status.Terminal()}
	for i := range c.Rows {
		p.rows[i] = store.StateOf(&c.Rows[i])
		p.rows[i].Version = c.Version
		p.last = max(p.last, p.rows[i].Idx)
	}
	for i, t := range c.Tasks {
		p.queued[i] = queuedStep{t.Idx, t.Key}
		p.last = max(p.last, t.Idx)
	}
	l.parts, l.to, l.steps = append(l.parts, p), c.Version, l.steps+n
}

// after takes what is behind a version. False: something is missing between, or times count from elsewhere.
func (l *tail) after(version, began int64) (parts []part, to int64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.to == 0 || version < l.from || began != l.began {
		return nil, 0, false
	}
	for len(l.parts) > 0 && l.parts[0].version <= version {
		l.steps -= len(l.parts[0].rows) + len(l.parts[0].queued)
		l.parts = l.parts[1:]
	}
	return slices.Clone(l.parts), l.to, true
}

// taken is the table with what its execution's tail has; itself where that is nothing, or cannot be told without reading.
func (l *tail) taken(t *Table) *Table {
	if l == nil {
		return t
	}
	parts, to, ok := l.after(t.Version, t.began)
	if !ok || len(parts) == 0 {
		return t
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.copied()
	c.Version = to
	last := int32(-1)
	for i := range parts {
		last = max(last, parts[i].last)
	}
	c.grow(int(last) + 1)
	for i := range parts {
		c.add(&parts[i])
	}
	if parts[len(parts)-1].over && slices.Contains(c.status, uint8(stepwell.StepQueued)) {
		return t // what never got a row is no step of an execution that has ended: which that is, the store says
	}
	return c
}

// add writes what a commit has done. The table has its indexes.
func (t *Table) add(p *part) {
	for i := range p.rows {
		t.set(&p.rows[i])
	}
	for _, q := range p.queued {
		if t.node[q.idx] == nowhere && q.key != "" {
			t.name(q.idx, q.key)
		}
		if s := t.status[q.idx]; s == absent || !stepwell.StepStatus(s).Terminal() {
			t.status[q.idx] = uint8(stepwell.StepQueued)
		}
	}
}
