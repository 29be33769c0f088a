// Package feed is the live stream of an execution: a snapshot, then every log line and every change of
// a step's status, then how it ended.
//
// Every message comes from the store. A notification (Notify, Observe, Lines) only triggers a read; so a client
// gets the same messages live and after a reconnect, and only durable ones. Every message names its place (Cursor):
// a subscription that begins there goes on exactly behind it, also across a restart of the server.
//
// The stream is cut into pages, encoded once, and shared by all subscribers at the same place. A slow subscriber
// holds one page and reads the next ones from the store: memory is bounded by CacheBytes and one page for each
// subscriber, however many of them stall.
package feed

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/estimate"
	"github.com/stepwell/stepwell/store"
)

// Store has the feed's reads; store.Reader implements it.
type Store interface {
	Execution(ctx context.Context, id string) (*store.Execution, error)
	Steps(ctx context.Context, execution int64, f store.StepFilter) ([]store.Step, error)
	Events(ctx context.Context, execution int64, after int64, limit int) ([]engine.HistoryEvent, error)
	Logs(ctx context.Context, execution int64, f store.LogFilter) ([]store.LogLine, error)
}

// Options configure a Hub. Store is required.
type Options struct {
	Store Store
	// MaxSubscriptions is how many there may be at once; one more is CodeLimit. Defaults to 10,000.
	MaxSubscriptions int
	// CacheBytes limits the memory of cached pages. Defaults to 32 MiB.
	CacheBytes int
	// Readers is how many reads of the store there may be at once. Defaults to 4.
	Readers int
	// Poll is how often executions with subscribers are read without a notification, as another process may run them.
	// Defaults to 2 seconds.
	Poll time.Duration
	// Settle is how long an execution may get log lines after an end without Notify: new subscribers wait for them.
	// Defaults to 2 seconds.
	Settle time.Duration
	// ProgressEvery is how often the steps' own progress is passed on at most. Defaults to 250 ms.
	ProgressEvery time.Duration
	// SnapshotSteps is how many steps a snapshot lists at most. Defaults to 1,000.
	SnapshotSteps int
	// Peers are the hubs of the other processes that run executions. Defaults to none: Poll finds what they do.
	Peers Peers
	// Estimates say how long executions still take. Defaults to nothing being known.
	Estimates *estimate.Book
	// Show makes the shown form of an execution's result. Defaults to the stored result.
	Show func(json.RawMessage) json.RawMessage
	// Now is the clock of all times that are recorded or decide. Defaults to time.Now.
	Now func() time.Time
	// Log takes the hub's own messages. Defaults to slog.Default.
	Log *slog.Logger
}

func (o *Options) validate() error {
	if o.Store == nil {
		return stepwell.Errorf(stepwell.CodeInternal, "", "feed: Store is required")
	}
	for _, d := range []struct {
		n      *int
		normal int
	}{{&o.MaxSubscriptions, 10_000}, {&o.CacheBytes, 32 << 20}, {&o.Readers, 4}, {&o.SnapshotSteps, 1000}} {
		if *d.n <= 0 {
			*d.n = d.normal
		}
	}
	for _, d := range []struct {
		d      *time.Duration
		normal time.Duration
	}{{&o.Poll, 2 * time.Second}, {&o.Settle, 2 * time.Second}, {&o.ProgressEvery, 250 * time.Millisecond}} {
		if *d.d <= 0 {
			*d.d = d.normal
		}
	}
	if o.Show == nil {
		o.Show = func(raw json.RawMessage) json.RawMessage { return raw }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return nil
}

// Hub has the topics: one for each execution with subscribers. Its methods may be called from any
// goroutine.
type Hub struct {
	o     Options
	pages cache
	reads *semaphore.Weighted
	stop  chan struct{} // closed when Run has returned
	once  sync.Once
	ring  chan struct{} // there may be dirty topics
	board *Board
	flows flows

	mu            sync.Mutex
	topics        map[int64]*topic
	dirty         []*topic
	followers     map[int64][]*follower // hubs of other processes, by execution
	subscriptions int
	ends          ends
}

// New makes a hub. Live updates need Run.
func New(o Options) (*Hub, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	h := &Hub{o: o, pages: cache{budget: o.CacheBytes, pages: map[place]*entry{}}, reads: semaphore.NewWeighted(int64(o.Readers)),
		stop: make(chan struct{}), ring: make(chan struct{}, 1), topics: map[int64]*topic{}, followers: map[int64][]*follower{}, ends: ends{nos: map[int64]struct{}{}}, flows: flows{steps: map[int64]map[int32]*flow{}}}
	h.board = newBoard(h)
	return h, nil
}

// Run handles notifications until ctx ends; then all subscriptions end with CodeUnavailable. It is called once.
func (h *Hub) Run(ctx context.Context) error {
	defer h.once.Do(func() { close(h.stop) })
	var g errgroup.Group
	for range h.o.Readers {
		g.Go(func() error { h.pumpTopics(ctx); return nil })
	}
	g.Go(func() error { h.board.run(ctx); return nil })
	tick := time.NewTicker(h.o.Poll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return g.Wait()
		case <-tick.C:
			h.poll()
		}
	}
}

// pumpTopics is one of the loops that read for topics.
func (h *Hub) pumpTopics(ctx context.Context) {
	for {
		for t := h.next(); t != nil; t = h.next() {
			if t.pump(ctx) {
				h.enqueue(t)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-h.ring:
		}
	}
}

// next takes the topic that has waited the longest. Another loop is woken when there are more.
func (h *Hub) next() *topic {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.dirty) > 0 {
		t := h.dirty[0]
		h.dirty[0] = nil
		h.dirty = h.dirty[1:]
		if t.refs == 0 {
			continue
		}
		if len(h.dirty) > 0 {
			h.wake()
		}
		return t
	}
	return nil
}

func (h *Hub) enqueue(t *topic) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dirty = append(h.dirty, t)
	h.wake()
}

func (h *Hub) wake() {
	select {
	case h.ring <- struct{}{}:
	default:
	}
}

// poll looks at every topic that has not ended.
func (h *Hub) poll() {
	h.mu.Lock()
	topics := make([]*topic, 0, len(h.topics))
	for _, t := range h.topics {
		topics = append(topics, t)
	}
	h.mu.Unlock()
	for _, t := range topics {
		t.markDirty(dirty{events: true, lines: true, row: true})
	}
}

// Subscriptions is how many there are.
func (h *Hub) Subscriptions() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.subscriptions
}
