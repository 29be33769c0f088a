package report

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// work tells of one execution after the other until ctx ends.
func (r *Reporter) work(ctx context.Context) {
	for {
		known := r.next()
		if known == nil {
			select {
			case <-ctx.Done():
				return
			case <-r.ring:
			}
			continue
		}
		later, err := r.tellAll(ctx, known)
		r.settle(ctx, known, later, err)
		if ctx.Err() != nil {
			return
		}
	}
}

// next takes an execution out of the queue.
func (r *Reporter) next() *row {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) == 0 {
		return nil
	}
	known := r.queue[0]
	r.queue[0] = nil
	r.queue = r.queue[1:]
	known.dirty, known.seen = false, time.Now()
	if len(r.queue) > 0 {
		r.wake()
	}
	return known
}

// settle takes in how far an execution was told: it is looked at again at once, later, or when somebody says so.
func (r *Reporter) settle(ctx context.Context, known *row, later time.Duration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known.queued = false
	switch {
	case ctx.Err() != nil:
	case err != nil:
		later = backoff(known.tries)
		known.tries++
		if !r.away {
			r.away = true
			r.o.Log.WarnContext(ctx, "events of executions cannot be reported; it will be retried, and nothing is lost", "receiver", r.o.Receiver.Name, "execution", known.id, "error", err)
		}
		known.queued = true // nobody takes it before
		time.AfterFunc(later, func() { r.again(known) })
	case known.dirty:
		r.mark(known)
	case later > 0:
		time.AfterFunc(later, func() { r.again(known) })
	}
	if err == nil {
		known.tries = 0
	}
}

// again has an execution looked at once more.
func (r *Reporter) again(known *row) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rows[known.id] == known {
		known.queued = known.queued && known.tries == 0 // after a failure it is in nobody's hand
		r.mark(known)
	}
}

// told notes a place. The receiver is there.
func (r *Reporter) told(known *row) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known.saved, known.stale = known.at, true
	if r.away {
		r.away = false
		r.o.Log.Info("what happens to executions is reported again", "receiver", r.o.Receiver.Name)
	}
}

// finish marks an execution that was told to its end.
func (r *Reporter) finish(known *row) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known.gone = !known.dirty
}

// tellAll tells what there is. Later is when to look again although nobody says so; 0: then alone.
func (r *Reporter) tellAll(ctx context.Context, known *row) (later time.Duration, err error) {
	for ctx.Err() == nil {
		x, err := r.o.Store.Execution(ctx, known.id)
		if stepwell.CodeOf(err) == stepwell.CodeNotFound { // retention was faster
			r.o.Log.WarnContext(ctx, "an execution was removed before all of it was reported", "receiver", r.o.Receiver.Name, "execution", known.id)
			r.finish(known)
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		r.number(known, x.No)
		changes, next, more, err := r.read(ctx, known.at, x)
		if err != nil {
			return 0, err
		}
		more = more || next.Version > x.Version // it went on while it was read
		ended := !more && x.Status.Terminal()
		if ended && next.Ended != x.Version {
			changes = append(changes, Change{ID: fmt.Sprintf("%s/%d-end", x.ID, x.Version), At: x.Ended, Status: x.Status.String()})
			next.Ended = x.Version
		}
		if len(changes) > 0 {
			if err := r.o.Receiver.Take(ctx, x, changes); err != nil {
				return 0, err
			}
		}
		if next != known.at {
			known.at = next
			r.told(known)
		}
		switch left := r.o.Settle - r.o.Now().Sub(x.Ended); {
		case more || len(changes) > 0:
		case !ended:
			return 0, nil
		case left > 0:
			return left, nil
		default:
			r.finish(known)
			return 0, nil
		}
	}
	return 0, ctx.Err()
}

func (r *Reporter) number(known *row, no int64) {
	if known.known != no {
		r.mu.Lock()
		known.known = no
		r.nos[no] = known
		r.mu.Unlock()
	}
}

// read reads a stretch behind a place, and the place behind it. Events and lines are each in their order, and between them by time.
func (r *Reporter) read(ctx context.Context, at place, x *store.Execution) (changes []Change, next place, more bool, err error) {
	events, err := r.o.Store.Events(ctx, x.No, at.Version, page)
	if err != nil {
		return nil, at, false, err
	}
	var lines []store.LogLine
	if r.o.Receiver.Lines {
		if lines, err = r.o.Store.Logs(ctx, x.No, store.LogFilter{After: at.Line, Since: at.Since, Limit: page}); err != nil {
			return nil, at, false, err
		}
	}
	moreEvents, moreLines := len(events) >= page, len(lines) >= page
	next = at
	for n, i, j := 0, 0, 0; ; {
		switch {
		case i < len(events) && (j == len(lines) || events[i].At.Before(lines[j].At)):
			if j == len(lines) && moreLines { // lines that are not read yet may be earlier
				return changes, whole(next, at, events, i), true, nil
			}
			e := &events[i]
			if n++; i == 0 || events[i-1].Version != e.Version {
				n = 1
			}
			if status := statusOf(e, x, events); status != "" {
				changes = append(changes, Change{ID: fmt.Sprintf("%s/%d.%d", x.ID, e.Version, n), At: e.At, Step: e.StepKey, Status: status})
			}
			next.Version = e.Version
			i++
		case j < len(lines):
			if i == len(events) && moreEvents {
				return changes, next, true, nil
			}
			changes = append(changes, Change{ID: fmt.Sprintf("%s/line-%d", x.ID, lines[j].Seq), At: lines[j].At, Step: lines[j].StepKey, Line: &lines[j]})
			next.Line = lines[j].Seq
			j++
		default:
			if !moreEvents { // the last versions may have no events
				next.Version = max(next.Version, x.Version)
			}
			return changes, next, moreEvents || moreLines, nil
		}
	}
}

// whole is a place whose version was told as a whole: one that was told in part is told again.
func whole(next, at place, events []engine.HistoryEvent, i int) place {
	if i > 0 && i < len(events) && events[i].Version == events[i-1].Version {
		next.Version = max(at.Version, events[i].Version-1)
	}
	return next
}

// stepStatuses and executionStatuses are the statuses of events.
var (
	stepStatuses = map[string]string{"queued": "queued", "started": "running", "completed": "completed", "failed": "failed",
		"skipped": "skipped", "waiting": "waiting", "cancelled": "cancelled", "timed_out": "timed_out"}
	executionStatuses = map[string]string{"admitted": "running", "cancel": "cancelling", "pause": "paused", "resume": "running", "restart": "running"}
)

// statusOf is the status that an event leads to; "": none. The beginning of an execution is pending while it is held. A step of a
// group or for_each that is queued for the first time has no name yet, but "#" and a number: it is told from its start.
func statusOf(e *engine.HistoryEvent, x *store.Execution, all []engine.HistoryEvent) string {
	switch {
	case e.StepKey == "" && e.Type == "start":
		if x.Held() || slices.ContainsFunc(all, func(e engine.HistoryEvent) bool { return e.Type == "admitted" }) {
			return stepwell.ExecutionPending.String()
		}
		return stepwell.ExecutionRunning.String()
	case e.StepKey == "":
		return executionStatuses[e.Type]
	case e.Type == "failed" && e.Again:
		return "retrying"
	case e.Type == "queued" && strings.HasPrefix(e.StepKey, "#"):
		return ""
	}
	return stepStatuses[e.Type]
}
