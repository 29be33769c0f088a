package feed

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/estimate"
	"github.com/stepwell/stepwell/store"
)

// topic is an execution with subscribers. Pages exist up to its head; subscribers there wait for the next one.
type topic struct {
	hub  *Hub
	no   int64
	id   string
	refs int // guarded by hub.mu

	following sync.Once
	unfollow  func() // ends what following has begun; nil: nothing

	first    sync.Mutex // held while the head is looked up
	snapshot snapshot

	mu       sync.Mutex
	primed   bool
	queued   bool // a loop has it, or will
	todo     dirty
	head     Cursor
	ended    *Message      // complete at head; nil while it may go on
	gone     error         // the execution is no longer there
	changed  chan struct{} // closed at the next change
	settling bool          // a look at whether it has settled is due
	observed bool          // progress comes from Observe
	progress engine.Progress
	row      store.Execution // nothing but its pipeline, status and start
	names    map[int32]string
	notes    notes
}

// dirty marks the parts to read.
type dirty struct{ events, lines, row, end, notes bool }

func (d dirty) or(e dirty) dirty {
	return dirty{d.events || e.events, d.lines || e.lines, d.row || e.row, d.end || e.end, d.notes || e.notes}
}

// markDirty queues the topic for a read.
func (t *topic) markDirty(d dirty) {
	t.mu.Lock()
	t.todo = t.todo.or(d)
	queue := t.primed && !t.queued
	t.queued = t.queued || queue
	t.mu.Unlock()
	if queue {
		t.hub.enqueue(t)
	}
}

// prime finds the head. The execution's row was read before; later changes are read next.
func (t *topic) prime(ctx context.Context, x *store.Execution) error {
	t.first.Lock()
	defer t.first.Unlock()
	t.mu.Lock()
	done := t.primed
	t.mu.Unlock()
	if done {
		return nil
	}
	settled := t.settled(x) // before the lines are read
	if err := t.hub.o.Estimates.Learn(ctx, x.Pipeline); err != nil {
		return err
	}
	last, err := t.hub.o.Store.Logs(ctx, t.no, store.LogFilter{Tail: 1})
	if err != nil {
		return err
	}
	t.mu.Lock()
	t.head = Cursor{Version: x.Version}
	if len(last) > 0 {
		t.head.Log = last[0].Seq
	}
	t.describe(x)
	if !t.observed {
		t.progress = x.Progress
	}
	if settled {
		t.ended = t.complete(x)
	}
	t.primed = true
	t.mu.Unlock()
	t.markDirty(dirty{events: true, lines: true, row: true})
	return nil
}

// settled reports whether an execution has ended and gets no more log lines.
func (t *topic) settled(x *store.Execution) bool {
	if !x.Status.Terminal() {
		return false
	}
	t.hub.mu.Lock()
	_, told := t.hub.ends.nos[t.no]
	t.hub.mu.Unlock()
	left := t.hub.o.Settle - t.hub.o.Now().Sub(x.Ended)
	if told || left <= 0 {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.settling {
		t.settling = true
		time.AfterFunc(left, func() {
			t.mu.Lock()
			t.settling = false
			t.mu.Unlock()
			t.markDirty(dirty{events: true, lines: true, row: true})
		})
	}
	return false
}

// complete is the last message.
func (t *topic) complete(x *store.Execution) *Message {
	data := CompleteData{Status: x.Status, Result: t.hub.o.Show(x.Outputs), Error: x.Failure}
	m := message(TypeComplete, Cursor{Version: x.Version, Log: t.head.Log, Ended: true}, &data)
	return &m
}

// pump reads new changes. It reports whether there are more; the topic stays queued then.
func (t *topic) pump(ctx context.Context) (again bool) {
	t.mu.Lock()
	what, at := t.todo, t.head
	t.todo = dirty{}
	t.mu.Unlock()
	more, err := t.readStretch(ctx, what, at)
	switch {
	case err == nil:
	case stepwell.CodeOf(err) == stepwell.CodeNotFound:
		t.fail(err)
		return false
	case ctx.Err() == nil:
		t.hub.o.Log.Error("the log of an execution cannot be followed for now", "execution", t.id, "error", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.todo = t.todo.or(more)
	t.queued = err == nil && t.todo != dirty{} // after an error the next poll tries again
	return t.queued
}

// readStretch reads and publishes one stretch.
func (t *topic) readStretch(ctx context.Context, what dirty, at Cursor) (more dirty, err error) {
	var x *store.Execution
	if what.end || what.row {
		if x, err = t.hub.o.Store.Execution(ctx, t.id); err != nil {
			return what, err
		}
		t.refresh(x)
		if !x.Status.Terminal() || !what.end && !t.settled(x) {
			x = nil // it may go on
		}
		what.events, what.lines = what.events || x != nil, what.lines || x != nil
	}
	s, err := t.hub.read(ctx, t.no, at, nil, what)
	if err != nil {
		return what, err
	}
	t.nameEvents(s.events)
	pages, end := s.merge(t.standing())
	all := !s.moreEvents && !s.moreLines
	switch {
	case x != nil && all && (len(s.events) == 0 || end.Version >= x.Version):
		last := end
		last.Version = max(end.Version, x.Version) // its last versions may have no messages
		pages, end = extend(pages, end, last), last
	case x != nil || !all:
		more, x = dirty{events: what.events, lines: what.lines, row: what.row, end: what.end}, nil
	}
	if what.notes {
		err = t.nameNotes(ctx)
	}
	t.publish(pages, end, x, what.notes)
	return more, err
}

// refresh takes the progress from the execution's row, when it is not reported live or is final.
func (t *topic) refresh(x *store.Execution) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.describe(x)
	if !t.observed || x.Status.Terminal() {
		t.progress = x.Progress
	}
}

// describe remembers what an estimate needs of the execution.
func (t *topic) describe(x *store.Execution) {
	t.row.Pipeline, t.row.Status, t.row.Started = x.Pipeline, x.Status, x.Started
}

// standing is the execution's progress now.
func (t *topic) standing() *estimate.Progress {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.hub.o.Estimates.Progress(&t.row, &t.progress)
	return &p
}

// nameEvents sets the keys of steps without a row, and drops the names of ended steps.
func (t *topic) nameEvents(events []engine.HistoryEvent) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range events {
		e := &events[i]
		if key := t.names[e.Step]; key != "" && strings.HasPrefix(e.StepKey, "#") {
			e.StepKey = key
		}
		switch e.Type {
		case "completed", "failed", "skipped", "cancelled", "timed_out":
			delete(t.names, e.Step)
			delete(t.notes.steps, e.Step)
		}
	}
}

// extend makes the last page reach from one place to another.
func extend(pages []*page, from, to Cursor) []*page {
	switch {
	case from == to:
	case len(pages) == 0:
		return []*page{{start: from, end: to}}
	default:
		pages[len(pages)-1].end = to
	}
	return pages
}

// publish moves the head and wakes the subscribers there. With x the execution has ended, and this is all.
func (t *topic) publish(pages []*page, end Cursor, x *store.Execution, notes bool) {
	t.hub.pages.put(t.no, pages)
	t.mu.Lock()
	defer t.mu.Unlock()
	moved := t.head != end
	t.head = end
	if moved && t.ended != nil {
		t.ended, t.todo.row = nil, true // it was restarted, or a line came late
	}
	ends := t.ended == nil && x != nil && x.Version == end.Version
	if ends {
		t.ended = t.complete(x)
	}
	if moved || ends || notes {
		t.broadcast()
	}
}

func (t *topic) broadcast() {
	close(t.changed)
	t.changed = make(chan struct{})
}

// fail ends the topic for all subscribers.
func (t *topic) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.gone = err
	t.broadcast()
}
