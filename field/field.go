// Package field shows all steps of an execution at once: as columns for pages that draw them (Table), and as a graph of few
// nodes that sum up the steps behind them (Graph).
//
// Both are made of the rows of the store and the execution's plan, on any node that reads the store. The table of an execution
// is kept as long as there is memory for it, and patched with what later commits have changed; that of an ended execution is
// made once. Tables are shared by all who ask.
package field

import (
	"context"
	"crypto/sha256"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/layout"
	"github.com/stepwell/stepwell/plan"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/store"
)

// Store has the reads of a Hub; every store does.
type Store interface {
	store.StateReader
	Definition(ctx context.Context, hash []byte) ([]byte, error)
	Events(ctx context.Context, execution int64, after int64, limit int) ([]engine.HistoryEvent, error)
	Execution(ctx context.Context, id string) (*store.Execution, error)
}

// Options configure a Hub. Store is required.
type Options struct {
	Store Store
	// Catalog describes actions. Defaults to one that knows none: dependencies that only an action declares are not shown.
	Catalog plan.Catalog
	// Plan returns the compiled definition with a hash, if there is one in memory; else nil. Defaults to none: each is read and compiled
	// when it is first shown, which takes a quarter of a second for 100,000 steps.
	Plan func(hash [sha256.Size]byte) *plan.Plan
	// Bytes bounds the memory of the tables that are kept. Defaults to 64 MiB.
	Bytes int
	// TableBytes is the size of a table up to which it is kept. Defaults to 8 MiB.
	TableBytes int
	// Builders is how many tables are made at the same time. Defaults to 2.
	Builders int
	// Steps bounds the steps of the plans that are kept, all together. Defaults to 250,000.
	Steps int
	// Past returns an execution as it was after the commit with a version, or the last one up to a time. Required for Hub.At.
	Past func(ctx context.Context, id string, version int64, at time.Time) (*store.Past, error)
	// Changes tells each the states that the commits of an execution have left steps in, in their order (conductor.Conductor.Changes).
	// Required for Hub.Changes.
	Changes func(ctx context.Context, id string, each func(s store.StepState, at int64)) (version int64, err error)
	// Watch has notice called when something of an execution has become durable, until stop is called; notice does not block. It gets
	// the commit where this process has made it, all of them in their order; else nil. Defaults to none: followers see changes when
	// Poll has passed.
	Watch func(execution int64, notice func(*Commit)) (stop func())
	// Every is the time between two frames for followers, at least: it is longer, up to half a second, where they take long to write one.
	// Defaults to 100 ms.
	Every time.Duration
	// Poll is how often executions with followers are looked at without a notice. Defaults to 2 seconds.
	Poll time.Duration
	// Followers is how many there may be at once; one more is CodeLimit. Defaults to 10,000.
	Followers int
	// Stopping is closed when the server stops: followers end. Defaults to never.
	Stopping <-chan struct{}
}

// Hub makes tables and graphs. Its methods may be called from any goroutine.
type Hub struct {
	o      Options
	builds *semaphore.Weighted
	// writers has room for one entry of each follower that may write.
	writers chan struct{}

	mu     sync.Mutex
	tables map[int64]*entry
	order  []int64 // of tables: the one that was asked for the longest time ago first
	bytes  int
	shapes map[[sha256.Size]byte]*shape
	steps  int // of shapes
	waves  map[int64]*wave
	follow int // followers
	held   int // bytes of the tables of waves
	past   recent[Past]
	logs   recent[Changes]
	tries  recent[Attempts]
}

// entry is the table of one execution.
type entry struct {
	mu    sync.Mutex // held while it is made or patched
	table *Table     // nil: not yet
	bytes int        // that are counted in Hub.bytes; guarded by Hub.mu
	tail  *tail      // of a followed execution, whose table is kept and counted in Hub.held; else nil; guarded by Hub.mu
}

// New makes a hub.
func New(o Options) *Hub {
	if o.Catalog == nil {
		o.Catalog = unknown{}
	}
	for _, d := range []struct {
		n      *int
		normal int
	}{{&o.Bytes, 64 << 20}, {&o.TableBytes, 8 << 20}, {&o.Builders, 2}, {&o.Steps, 250_000}, {&o.Followers, 10_000}} {
		if *d.n <= 0 {
			*d.n = d.normal
		}
	}
	if o.Every <= 0 {
		o.Every = 100 * time.Millisecond
	}
	if o.Poll <= 0 {
		o.Poll = 2 * time.Second
	}
	if o.Watch == nil {
		o.Watch = func(int64, func(*Commit)) func() { return func() {} }
	}
	return &Hub{o: o, builds: semaphore.NewWeighted(int64(o.Builders)), writers: make(chan struct{}, writers), waves: map[int64]*wave{}, tables: map[int64]*entry{}, shapes: map[[sha256.Size]byte]*shape{}}
}

type unknown struct{}

func (unknown) Spec(string) (*spec.Spec, bool) { return nil, false }

// Table is the table of an execution, whose row the caller has read: at least as new as that.
func (h *Hub) Table(ctx context.Context, x *store.Execution) (*Table, error) {
	return h.newer(ctx, x, nil)
}

// newer is Table; before, if it is not nil, is patched when no table is kept.
func (h *Hub) newer(ctx context.Context, x *store.Execution, before *Table) (*Table, error) {
	e, told := h.entryOf(x.No)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.table == nil && told != nil {
		e.table = before
	}
	if e.table != nil {
		e.table = told.taken(e.table)
	}
	if e.table != nil && e.table.Version >= x.Version {
		return e.table, nil
	}
	if err := h.builds.Acquire(ctx, 1); err != nil {
		return nil, context.Cause(ctx)
	}
	defer h.builds.Release(1)
	if e.table != nil {
		before = e.table
	}
	made, err := h.next(ctx, x, before)
	if err != nil {
		return nil, err
	}
	e.table = made
	h.keep(x.No, e, made)
	return made, nil
}

// next makes a table of the one before, nil for none.
func (h *Hub) next(ctx context.Context, x *store.Execution, before *Table) (*Table, error) {
	if before != nil {
		if patched, err := h.patch(ctx, x, before); patched != nil || err != nil {
			return patched, err
		}
	}
	var s *shape
	var states []store.StepState
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) { s, err = h.shapeOf(ctx, x.Definition); return err })
	g.Go(func() (err error) { states, err = h.o.Store.States(ctx, x.No, nil); return err })
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return newTable(x, s, states), nil
}

// entryOf finds the entry of an execution, or makes one, and moves it to the end of those that are dropped first.
func (h *Hub) entryOf(no int64) (*entry, *tail) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.use(no)
	return e, e.tail
}

// use is entryOf. The caller holds h.mu.
func (h *Hub) use(no int64) *entry {
	e := h.tables[no]
	if e != nil && e.tail != nil {
		return e
	}
	if e == nil {
		e = &entry{bytes: perEntry}
		h.bytes += perEntry
		h.tables[no] = e
	} else {
		h.forget(no)
	}
	h.order = append(h.order, no)
	return e
}

func (h *Hub) forget(no int64) {
	if i := slices.Index(h.order, no); i >= 0 {
		h.order = slices.Delete(h.order, i, i+1)
	}
}

// perEntry is the memory of an entry besides its table.
const perEntry = 1 << 10

// keep counts a new table, and drops those that were asked for the longest time ago until the rest fits in. Requests that have
// a dropped table finish with it.
func (h *Hub) keep(no int64, e *entry, t *Table) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.tables[no] != e || e.tail != nil {
		return // dropped meanwhile, or followed
	}
	h.bytes -= e.bytes
	e.bytes = t.size() + perEntry
	h.bytes += e.bytes
	if e.bytes > h.o.TableBytes {
		h.drop(no)
	}
	for h.bytes > h.o.Bytes && len(h.order) > 0 {
		h.drop(h.order[0])
	}
}

// pin keeps the entry of an execution that is followed, until unpin. The caller holds h.mu.
func (h *Hub) pin(no int64) *entry {
	e := h.use(no)
	h.forget(no)
	h.bytes -= e.bytes
	e.bytes, e.tail = 0, &tail{}
	return e
}

// unpin has an entry dropped when it is its turn, or at once if it is large. The caller holds h.mu.
func (h *Hub) unpin(no int64, e *entry, size int) {
	e.tail, e.bytes = nil, size+perEntry
	h.bytes += e.bytes
	h.order = append(h.order, no)
	if e.bytes > h.o.TableBytes {
		h.drop(no)
	}
	for h.bytes > h.o.Bytes && len(h.order) > 0 {
		h.drop(h.order[0])
	}
}

func (h *Hub) drop(no int64) {
	h.forget(no)
	h.bytes -= h.tables[no].bytes
	delete(h.tables, no)
}

// shape is a compiled definition with the layouts of its graphs.
type shape struct {
	plan *plan.Plan
	main *layout.Layout

	mu      sync.Mutex
	layouts map[*plan.Graph]*layout.Layout
}

// shapeOf finds or compiles a definition.
func (h *Hub) shapeOf(ctx context.Context, hash []byte) (*shape, error) {
	if len(hash) != sha256.Size {
		return nil, stepwell.Errorf(stepwell.CodeInternal, "restore the database from a copy", "the execution's row names no definition")
	}
	key := [sha256.Size]byte(hash)
	h.mu.Lock()
	s := h.shapes[key]
	h.mu.Unlock()
	if s != nil {
		return s, nil
	}
	compiled, err := h.planOf(ctx, key)
	if err != nil {
		return nil, err
	}
	s = &shape{plan: compiled, main: layout.Of(compiled.Graph), layouts: map[*plan.Graph]*layout.Layout{}}
	s.layouts[compiled.Graph] = s.main
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(compiled.Graph.Steps) + 1; h.shapes[key] == nil {
		if h.steps+n > h.o.Steps {
			clear(h.shapes)
			h.steps = 0
		}
		h.steps += n
		h.shapes[key] = s
	}
	return s, nil
}

// planOf finds or compiles a definition.
func (h *Hub) planOf(ctx context.Context, hash [sha256.Size]byte) (*plan.Plan, error) {
	if h.o.Plan != nil {
		if p := h.o.Plan(hash); p != nil {
			return p, nil
		}
	}
	body, err := h.o.Store.Definition(ctx, hash[:])
	if err != nil {
		return nil, err
	}
	d, err := definition.Decode(body)
	if err != nil {
		return nil, err
	}
	return plan.Compile(d, h.o.Catalog)
}

// layout is that of one of the plan's graphs.
func (s *shape) layout(g *plan.Graph) *layout.Layout {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.layouts[g]
	if l == nil {
		l = layout.Of(g)
		s.layouts[g] = l
	}
	return l
}
