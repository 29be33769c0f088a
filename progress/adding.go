package progress

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

// The bounds of what is being summed and stored.
const (
	maxWindow  = 10_000           // changes at which a window ends at once
	maxStoring = 4                // windows that are being stored
	maxWaiting = 100_000          // calls of Add that wait
	atOnce     = 8                // of them are answered before others get the processor
	storeLimit = 30 * time.Second // for a window, its state server's retries included
)

var errClosed error = &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "progress is no longer counted here: the process is shutting down", Hint: "send it again to another process"}

// adding sums counts for a short time and stores them together, so that a hundred workers of one project need one transaction.
type adding struct {
	window time.Duration
	store  func(context.Context, []store.ProgressChange) (push func() []Progress, err error)
	slots  chan struct{}  // windows that are being stored
	flying sync.WaitGroup // windows
	stored sync.WaitGroup // those of them that are not stored yet

	mu      sync.Mutex
	now     *window
	waiting int
	closed  bool
}

// window is the changes that are stored together.
type window struct {
	changes []store.ProgressChange
	sums    map[string]int // project: its change without a key
	told    map[int]bool   // changes whose Completed one caller has been told
	calls   int
	done    []chan struct{} // one for every atOnce calls
	out     []Progress
	err     error
}

func (a *adding) init(length time.Duration, f func(context.Context, []store.ProgressChange) (push func() []Progress, err error)) {
	a.window, a.store, a.slots = length, f, make(chan struct{}, maxStoring)
}

func (a *adding) isClosed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.closed
}

// add adds a change to the window and waits until it is stored.
func (a *adding) add(ctx context.Context, c store.ProgressChange) (Progress, error) {
	if err := ctx.Err(); err != nil {
		return Progress{}, err
	}
	w, i, done, err := a.join(c)
	if err != nil {
		return Progress{}, err
	}
	defer a.leave()
	select {
	case <-done:
	case <-ctx.Done(): // it is stored all the same
		return Progress{}, context.Cause(ctx)
	}
	if w.err != nil {
		return Progress{}, w.err
	}
	p := w.out[i]
	if p.Status == "" {
		return unknown(c.Project)
	}
	p.Completed = p.Completed && a.first(w, i)
	return p, nil
}

func (a *adding) leave() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting--
}

// first reports whether the caller is the first of those that share a change.
func (a *adding) first(w *window, i int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	told := w.told[i]
	w.told[i] = true
	return !told
}

// join adds a change to the window, which it begins if there is none. done is closed when the window is stored.
func (a *adding) join(c store.ProgressChange) (w *window, i int, done chan struct{}, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.closed:
		return nil, 0, nil, errClosed
	case a.waiting >= maxWaiting:
		return nil, 0, nil, &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "too many counts are waiting to be stored", Hint: "try again"}
	}
	a.waiting++
	if w = a.now; w == nil {
		w = &window{sums: map[string]int{}, told: map[int]bool{}}
		a.now = w
		a.stored.Add(1)
		a.flying.Go(func() { a.end(w) })
	}
	if w.calls++; w.calls%atOnce == 1 {
		w.done = append(w.done, make(chan struct{}))
	}
	done = w.done[len(w.done)-1]
	i, there := w.sums[c.Project]
	if c.Key == "" && there {
		w.changes[i].Done += c.Done
		w.changes[i].Errors += c.Errors
		return w, i, done, nil
	}
	i = len(w.changes)
	w.changes = append(w.changes, c)
	if c.Key == "" {
		w.sums[c.Project] = i
	}
	if len(w.changes) >= maxWindow {
		a.now = nil
	}
	return w, i, done, nil
}

// end stores a window after its time.
func (a *adding) end(w *window) {
	time.Sleep(a.window)
	a.slots <- struct{}{} // meanwhile the window goes on: the slower the store, the more it stores at once
	a.mu.Lock()
	if a.now == w {
		a.now = nil
	}
	a.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), storeLimit)
	defer cancel()
	push, err := a.store(ctx, w.changes)
	<-a.slots
	a.stored.Done()
	if w.err = err; err == nil {
		w.out = push()
	}
	for _, done := range w.done {
		close(done)
		runtime.Gosched() // a thousand answers at once would hold up every other request
	}
}

// close refuses further changes and waits until those that are there are stored.
func (a *adding) close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.stored.Wait()
}
