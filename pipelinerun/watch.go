package pipelinerun

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

// Limits of the live queue.
const (
	maxFollowers = 1000                   // one more is CodeLimit
	maxFollowed  = 500                    // runs that followers see: the oldest
	lookEvery    = 100 * time.Millisecond // reads of the queue are at least so long apart
)

// The types of queue events.
const (
	QueueSnapshot   = "queue-snapshot"
	QueueRunUpdated = "queue-run-updated"
	QueueRunRemoved = "queue-run-removed"
)

// QueueEvent is a change of the queue, or all of it.
type QueueEvent struct {
	Type string
	Data json.RawMessage
}

// watcher reads the queue for all followers at once, after a notification or when Options.Poll has passed; without followers it reads
// nothing. What followers have not been sent is found by comparing, so that a slow one costs no more than its list of runs.
type watcher struct {
	r         *Runs
	ring      chan struct{}
	followers atomic.Int64
	stop      chan struct{} // closed when Run has returned
	once      sync.Once

	mu      sync.Mutex
	begun   int64         // reads that have begun
	read    int64         // the newest that has ended
	changed chan struct{} // closed by the next read that ends
	list    []*queued     // oldest first; a list is never changed
	by      map[string]*queued
	unheard map[int64]func() // by number of execution: ends its Follow
}

// queued is a run in the queue as it was read last.
type queued struct {
	id      string
	version int64 // of the execution
	status  stepwell.ExecutionStatus
	body    json.RawMessage
	at      int64 // the read that has found it so
}

func (w *watcher) init(r *Runs) {
	w.r, w.ring, w.stop, w.changed = r, make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	w.by, w.unheard = map[string]*queued{}, map[int64]func(){}
}

// Observe says that something of an execution has become durable. It never blocks; without followers it costs a comparison.
func (r *Runs) Observe(x *store.Execution) {
	if x.Lesson != "" {
		r.queue.wake()
	}
}

func (w *watcher) wake() {
	if w.followers.Load() == 0 {
		return
	}
	select {
	case w.ring <- struct{}{}:
	default:
	}
}

// Run reads the queue for its followers until ctx ends; then they end with CodeUnavailable. It is called once.
func (r *Runs) Run(ctx context.Context) error {
	w := &r.queue
	defer w.once.Do(func() { close(w.stop) })
	tick := time.NewTicker(r.o.Poll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			w.follow(nil)
			return nil
		case <-tick.C:
		case <-w.ring:
		}
		if w.followers.Load() == 0 {
			w.follow(nil)
			continue
		}
		if err := w.look(ctx); err != nil && ctx.Err() == nil {
			r.o.Log.Warn("the queue of pipeline runs cannot be read; followers wait", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(lookEvery):
		}
	}
}

// look reads the queue.
func (w *watcher) look(ctx context.Context) error {
	w.mu.Lock()
	w.begun++
	n, known := w.begun, w.by
	w.mu.Unlock()
	rows, err := w.r.o.Store.UnfinishedRuns(ctx, "", maxFollowed)
	if err != nil {
		return err
	}
	list, by := make([]*queued, len(rows)), make(map[string]*queued, len(rows))
	for i := range rows {
		x := &rows[i]
		q := known[x.ID]
		if q == nil || q.version != x.Version || q.status != x.Status {
			run, err := w.r.brief(ctx, x)
			if err != nil {
				return err
			}
			body, err := json.Marshal(&run)
			if err != nil {
				return err
			}
			q = &queued{x.ID, x.Version, x.Status, body, n}
		}
		list[i], by[x.ID] = q, q
	}
	w.follow(rows)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list, w.by, w.read = list, by, n
	close(w.changed)
	w.changed = make(chan struct{})
	return nil
}

// follow has other processes tell of the executions of the queue, and of no others. The loop calls it.
func (w *watcher) follow(rows []store.Execution) {
	if w.r.o.Follow == nil {
		return
	}
	left := w.unheard
	w.unheard = make(map[int64]func(), len(rows))
	for i := range rows {
		no := rows[i].No
		if stop := left[no]; stop != nil {
			w.unheard[no] = stop
			delete(left, no)
		} else {
			w.unheard[no] = w.r.o.Follow(no, w.wake)
		}
	}
	for _, stop := range left {
		stop()
	}
}

// Follower follows the queue. Close ends it.
type Follower struct {
	w    *watcher
	seen int64            // the read that it knows, at first the last one that is too old
	sent map[string]int64 // runs that it knows, and the reads that have found them; nil: nothing was sent
}

// FollowQueue follows the queue of runs; CodeLimit: too many do.
func (r *Runs) FollowQueue() (*Follower, error) {
	w := &r.queue
	if w.followers.Add(1) > maxFollowers {
		w.followers.Add(-1)
		return nil, &stepwell.Error{Code: stepwell.CodeLimit, Message: "too many clients follow the queue", Hint: "GET /api/v1/pipeline-runs/queue shows it"}
	}
	w.mu.Lock()
	f := &Follower{w: w, seen: w.begun}
	w.mu.Unlock()
	w.wake()
	return f, nil
}

// Close ends the following.
func (f *Follower) Close() { f.w.followers.Add(-1) }

// Next waits for the next events: at first a snapshot, then the changes since. It returns the cause of ctx's end, or CodeUnavailable when
// the server stops.
func (f *Follower) Next(ctx context.Context) ([]QueueEvent, error) {
	for {
		f.w.mu.Lock()
		read, list, by, changed := f.w.read, f.w.list, f.w.by, f.w.changed
		f.w.mu.Unlock()
		if read > f.seen {
			f.seen = read
			if events, err := f.events(list, by); err != nil || len(events) > 0 {
				return events, err
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-f.w.stop:
			return nil, stepwell.Errorf(stepwell.CodeUnavailable, "follow it again in a moment", "the server is stopping")
		}
	}
}

// events are the changes from what the follower knows to a list.
func (f *Follower) events(list []*queued, by map[string]*queued) (events []QueueEvent, err error) {
	if f.sent == nil {
		f.sent = make(map[string]int64, len(list))
		runs := make([]json.RawMessage, len(list))
		for i, q := range list {
			f.sent[q.id], runs[i] = q.at, q.body
		}
		body, err := json.Marshal(map[string]any{"data": runs, "more": len(list) == maxFollowed})
		return []QueueEvent{{QueueSnapshot, body}}, err
	}
	for id := range f.sent {
		if by[id] == nil {
			delete(f.sent, id)
			body, err := json.Marshal(map[string]string{"id": id})
			if err != nil {
				return nil, err
			}
			events = append(events, QueueEvent{QueueRunRemoved, body})
		}
	}
	for _, q := range list {
		if f.sent[q.id] != q.at {
			f.sent[q.id] = q.at
			body, err := json.Marshal(map[string]json.RawMessage{"data": q.body})
			if err != nil {
				return nil, err
			}
			events = append(events, QueueEvent{QueueRunUpdated, body})
		}
	}
	return events, nil
}
