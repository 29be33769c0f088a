// Package report tells services outside what happens to executions: each change of a status and each log line, at least once and in
// the order of the execution.
//
// The outbox says that an execution has begun, in the commit that begins it. A Reporter takes that over into an object of its own,
// so that a service that is away delays no other taker of the outbox, and reads what there is to tell from the step log and the log
// lines. The object has the place up to which it was told; the execution's end, told, removes it. After a crash what was told in
// the last second is told again, under the same id.
// Stability: experimental until version 1.
package report

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/trigger"
)

// Change is something that has happened to an execution: a status, or a log line.
type Change struct {
	ID     string // names it, also when it is told again
	At     time.Time
	Step   string         // key of the step; "": the execution
	Status string         // "" with a line
	Line   *store.LogLine // nil with a status
}

// Receiver is a service outside.
type Receiver struct {
	Name  string // of its objects; lower case letters and dashes
	Lines bool   // log lines too
	// Take tells changes of one execution, in order; the execution is as it is now. After an error they come again, with
	// those behind them. Calls for several executions may be under way.
	Take func(ctx context.Context, x *store.Execution, changes []Change) error
}

// Store has what is read; a store.Store is one.
type Store interface {
	Execution(ctx context.Context, id string) (*store.Execution, error)
	Events(ctx context.Context, execution int64, after int64, limit int) ([]engine.HistoryEvent, error)
	Logs(ctx context.Context, execution int64, f store.LogFilter) ([]store.LogLine, error)
	store.Objects
}

// Options configure a Reporter. Store and Receiver are required.
type Options struct {
	Store    Store
	Receiver Receiver
	// Shared says that other processes run executions too: they are looked at every Poll.
	Shared bool
	// Poll is how often executions are looked at that nobody tells of. Defaults to 2 seconds.
	Poll time.Duration
	// Settle is how long an execution may get log lines after its end. Defaults to 2 seconds.
	Settle time.Duration
	// Now is the clock of all times that are recorded or decide. Defaults to time.Now.
	Now func() time.Time
	// Log takes the package's own messages. Defaults to slog.Default.
	Log *slog.Logger
}

const (
	kind      = "report"
	page      = 500              // events and lines that are read at once
	callers   = 4                // executions that are told of at once
	maxRows   = 10_000           // executions in memory; the others wait in the store
	saveEvery = time.Second      // places are stored so often
	lastPause = 30 * time.Second // between two tries
	maxPolled = 200              // executions looked at in one Poll
)

// place is the body of an object: up to where an execution was told.
type place struct {
	Version int64     `json:"version"`
	Line    int64     `json:"line"`
	Since   time.Time `json:"since,omitzero"`  // a restart: lines from before were told
	Ended   int64     `json:"ended,omitempty"` // version whose end was told
}

// row is an execution that has not been told of to its end. Its place belongs to who has it in hand; the other fields are guarded.
type row struct {
	id     string
	at     place
	known  int64 // number of the execution; 0: not read yet
	tries  int
	dirty  bool // there may be something to tell
	queued bool // it is in the queue, or in hand
	stale  bool // its place is to be stored
	saved  place
	gone   bool // told to its end: its object is to be removed
	seen   time.Time
}

// Reporter tells one receiver. Take and Observe may be called from any goroutine; Run in one at a time.
type Reporter struct {
	o    Options
	ring chan struct{}

	mu    sync.Mutex
	rows  map[string]*row
	nos   map[int64]*row
	queue []*row
	last  string // id up to which the store was read; "": all of it
	away  bool
}

// New makes a reporter.
func New(o Options) *Reporter {
	o.Poll, o.Settle = cmp.Or(o.Poll, 2*time.Second), cmp.Or(o.Settle, 2*time.Second)
	o.Log = cmp.Or(o.Log, slog.Default())
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Reporter{o: o, ring: make(chan struct{}, 1), rows: map[string]*row{}, nos: map[int64]*row{}}
}

func (r *Reporter) objectID(execution string) string { return r.o.Receiver.Name + "/" + execution }

// Take implements trigger.Sink: an execution that has begun is to be told of.
func (r *Reporter) Take(ctx context.Context, list []trigger.Happened) error {
	for i := range list {
		if h := &list[i]; h.Kind == trigger.KindBegun {
			if err := r.begin(ctx, h); err != nil {
				return err
			}
		}
	}
	return nil
}

// begin stores that an execution is to be told of, unless it is known.
func (r *Reporter) begin(ctx context.Context, h *trigger.Happened) error {
	at := place{Version: max(0, h.Version-1)}
	if at.Version > 0 {
		at.Since = h.At
	}
	body, err := json.Marshal(at)
	if err != nil {
		return err
	}
	_, err = r.o.Store.PutObjects(ctx, store.Object{Kind: kind, ID: r.objectID(h.Execution), Body: body})
	if err != nil && stepwell.CodeOf(err) != stepwell.CodeConflict { // it is there: the entry came again, or its end was not told yet
		return err
	}
	if r.resume(h.Execution) {
		return nil
	}
	o := &store.Object{ID: r.objectID(h.Execution), Body: body}
	if err != nil { // its place is in the store alone
		if o, err = r.o.Store.Object(ctx, kind, o.ID); stepwell.CodeOf(err) == stepwell.CodeNotFound {
			return &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the execution was told to its end meanwhile"} // the entry comes again
		} else if err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.rows) < maxRows {
		return r.addObject(o)
	}
	if before := h.Execution[:len(h.Execution)-1]; r.last == "" || before < r.last {
		r.last = before // it is loaded when there is room
	}
	return nil
}

// resume has an execution looked at that is in memory.
func (r *Reporter) resume(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.rows[id]
	if known == nil {
		return false
	}
	if known.gone {
		known.gone, known.stale = false, true
	}
	r.mark(known)
	return true
}

// addObject takes an object into memory. The caller holds the lock.
func (r *Reporter) addObject(o *store.Object) error {
	known := row{id: strings.TrimPrefix(o.ID, r.o.Receiver.Name+"/")}
	if err := json.Unmarshal(o.Body, &known.at); err != nil {
		return &stepwell.Error{Code: stepwell.CodeInternal, Message: "the place of a report cannot be read", Err: err}
	}
	if known.saved = known.at; r.rows[known.id] == nil {
		r.add(&known)
	}
	return nil
}

// add takes an execution in. The caller holds the lock.
func (r *Reporter) add(known *row) {
	r.rows[known.id] = known
	r.mark(known)
}

// mark has an execution looked at. The caller holds the lock.
func (r *Reporter) mark(known *row) {
	known.dirty = true
	if !known.queued && !known.gone {
		known.queued = true
		r.queue = append(r.queue, known)
		r.wake()
	}
}

func (r *Reporter) wake() {
	select {
	case r.ring <- struct{}{}:
	default:
	}
}

// Observe says that an execution has changed. It never blocks for long.
func (r *Reporter) Observe(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.rows[id]; known != nil {
		r.mark(known)
	}
}

// Logged says that executions, by their numbers, have log lines.
func (r *Reporter) Logged(executions []int64) {
	if !r.o.Receiver.Lines {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, no := range executions {
		if known := r.nos[no]; known != nil {
			r.mark(known)
		}
	}
}

// Run tells what there is to tell until ctx ends. It may be called again.
func (r *Reporter) Run(ctx context.Context) error {
	if err := r.reset(ctx); err != nil {
		return err
	}
	var working sync.WaitGroup
	for range callers {
		working.Go(func() { r.work(ctx) })
	}
	save, poll := time.NewTicker(saveEvery), time.NewTicker(r.o.Poll)
	defer save.Stop()
	defer poll.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-save.C:
			r.save(ctx)
			r.load(ctx)
		case <-poll.C:
			r.poll()
		}
	}
	working.Wait()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	r.save(last)
	return nil
}

// reset forgets what was in memory: another process may have told of it since.
func (r *Reporter) reset(ctx context.Context) error {
	r.mu.Lock()
	r.rows, r.nos, r.queue, r.last = map[string]*row{}, map[int64]*row{}, nil, " "
	r.mu.Unlock()
	for tries := 0; ; tries++ {
		err := r.load(ctx)
		if err == nil || ctx.Err() != nil {
			return nil
		}
		r.o.Log.WarnContext(ctx, "pending reports cannot be read; it will be retried", "receiver", r.o.Receiver.Name, "error", err)
		sleep(ctx, backoff(tries))
	}
}

// load reads more objects while there is room.
func (r *Reporter) load(ctx context.Context) error {
	r.mu.Lock()
	last, room := r.last, maxRows-len(r.rows)
	r.mu.Unlock()
	if last == "" || room < maxRows/2 {
		return nil
	}
	list, err := r.o.Store.Objects(ctx, store.ObjectFilter{Kind: kind, Prefix: r.o.Receiver.Name + "/", After: r.objectID(strings.TrimSpace(last)), Limit: room})
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range list {
		if err := r.addObject(&list[i]); err != nil {
			r.o.Log.ErrorContext(ctx, "an execution is not reported", "object", list[i].ID, "error", err)
		}
		r.last = strings.TrimPrefix(list[i].ID, r.o.Receiver.Name+"/")
	}
	if len(list) < room {
		r.last = ""
	}
	return nil
}

// poll looks at executions that were not looked at for a while: all that run elsewhere.
func (r *Reporter) poll() {
	if !r.o.Shared {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	marked := 0
	for _, known := range r.rows {
		if time.Since(known.seen) >= r.o.Poll && !known.queued {
			if r.mark(known); marked == maxPolled {
				return
			}
			marked++
		}
	}
}

// save stores the places that have moved, and removes what was told to its end.
func (r *Reporter) save(ctx context.Context) {
	r.mu.Lock()
	var moved []*row
	var objects []store.Object
	var gone []string
	for id, known := range r.rows {
		switch {
		case known.gone:
			gone = append(gone, id)
		case known.stale && len(objects) < page:
			body, err := json.Marshal(known.saved)
			if err != nil {
				continue // numbers only
			}
			known.stale = false
			moved, objects = append(moved, known), append(objects, store.Object{Kind: kind, ID: r.objectID(id), Revision: store.AnyRevision, Body: body})
		}
	}
	r.mu.Unlock()
	var failed error
	if len(objects) > 0 {
		if _, err := r.o.Store.PutObjects(ctx, objects...); err != nil {
			failed = err
			r.mu.Lock()
			for _, known := range moved {
				known.stale = true
			}
			r.mu.Unlock()
		}
	}
	for _, id := range gone {
		err := r.o.Store.DeleteObject(ctx, kind, r.objectID(id), store.AnyRevision)
		if err != nil && stepwell.CodeOf(err) != stepwell.CodeNotFound {
			failed = err
			break
		}
		r.mu.Lock()
		if known := r.rows[id]; known != nil && known.gone {
			delete(r.rows, id)
			delete(r.nos, known.known)
		}
		r.mu.Unlock()
	}
	if failed != nil && ctx.Err() == nil {
		r.o.Log.WarnContext(ctx, "how far executions were reported cannot be stored; it will be retried", "receiver", r.o.Receiver.Name, "error", failed)
	}
}

func backoff(tries int) time.Duration { return min(lastPause, 250*time.Millisecond<<min(tries, 8)) }

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
