package field

import (
	"context"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

// maxFrames bounds the bytes of the frames of an execution that are kept for followers who are behind.
const maxFrames = 1 << 20

// heldTables is how many times the memory of kept tables those of followed executions may have besides.
const heldTables = 4

// wave makes the frames of one execution for all who follow it: what differs between two of its tables.
type wave struct {
	hub  *Hub
	no   int64
	id   string
	of   *entry
	tail *tail
	refs int // guarded by hub.mu
	size int // counted in hub.held; guarded by hub.mu
	end  context.CancelFunc
	mark chan struct{} // something may have changed

	mu      sync.Mutex
	table   *Table
	frames  []frame
	bytes   int
	over    bool  // the execution had ended when the table was made
	gone    error // it is no longer there
	changed chan struct{}
	caught  frame // the last one that was made for a follower whose version no kept frame begins at
}

// frame is the states of the steps that versions after one, up to another, have changed.
type frame struct {
	from, to int64
	body     []byte
}

// Follower gets the changes of an execution's table. Its methods are for one goroutine, but Close.
type Follower struct {
	w    *wave
	at   int64
	once sync.Once
}

// Follow begins behind a version of the execution, whose row the caller has read. Frames are made once for all followers; one
// who does not read costs nothing but the frame that is being written. CodeLimit: there are too many.
func (h *Hub) Follow(ctx context.Context, x *store.Execution, since int64) (*Follower, error) {
	table, err := h.Table(ctx, x) // before the wave, so that one is made for good executions only
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.follow >= h.o.Followers {
		return nil, stepwell.Errorf(stepwell.CodeLimit, "close some, or fetch /field from time to time", "%d pages follow executions, as many as may", h.follow)
	}
	w := h.waves[x.No]
	if w == nil {
		if h.held+table.size() > heldTables*h.o.Bytes {
			return nil, stepwell.Errorf(stepwell.CodeLimit, "close some, or fetch /field from time to time", "%d bytes of tables are followed, as many as may", h.held)
		}
		h.held += table.size()
		run, end := context.WithCancel(context.Background())
		e := h.pin(x.No)
		w = &wave{hub: h, no: x.No, id: x.ID, of: e, tail: e.tail, size: table.size(), end: end, mark: make(chan struct{}, 1), table: table, over: x.Status.Terminal(), changed: make(chan struct{})}
		h.waves[x.No] = w
		go w.run(run) // ends with the last follower
	}
	w.refs++
	h.follow++
	return &Follower{w: w, at: since}, nil
}

// Close ends the subscription. It may be called again.
func (f *Follower) Close() {
	f.once.Do(func() {
		h := f.w.hub
		h.mu.Lock()
		defer h.mu.Unlock()
		h.follow--
		if f.w.refs--; f.w.refs == 0 {
			f.w.end()
			h.held -= f.w.size
			delete(h.waves, f.w.no)
			h.unpin(f.w.no, f.w.of, f.w.size)
		}
	})
}

// Since is the version behind which Next goes on.
func (f *Follower) Since() string { return strconv.FormatInt(f.at, 10) }

// Next waits for frames. io.EOF: the execution has ended, and the follower has all. CodeUnavailable: the server stops.
func (f *Follower) Next(ctx context.Context) ([][]byte, error) {
	for {
		f.w.mu.Lock()
		frames, err := f.w.after(ctx, f.at)
		over, gone, changed := f.w.over, f.w.gone, f.w.changed
		f.w.mu.Unlock()
		switch {
		case err != nil:
			return nil, err
		case len(frames) > 0:
			out := make([][]byte, len(frames))
			for i := range frames {
				out[i], f.at = frames[i].body, frames[i].to
			}
			return out, nil
		case gone != nil:
			return nil, gone
		case over:
			return nil, io.EOF
		}
		select {
		case <-changed:
		case <-f.w.hub.o.Stopping:
			return nil, &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the server stops", Hint: "come back with since"}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// after are the frames behind a version. The caller holds w.mu.
func (w *wave) after(ctx context.Context, since int64) ([]frame, error) {
	if since >= w.table.Version {
		return nil, nil
	}
	first := len(w.frames)
	for first > 0 && w.frames[first-1].to > since {
		first--
	}
	if first < len(w.frames) && w.frames[first].from <= since {
		return w.frames[first:], nil
	}
	if w.caught.body == nil || w.caught.from != since || w.caught.to != w.table.Version {
		made, err := w.catchUp(ctx, since)
		if err != nil {
			return nil, err
		}
		w.caught = made
	}
	return []frame{w.caught}, nil
}

// run makes frames until nobody follows any more.
func (w *wave) run(ctx context.Context) {
	stop := w.hub.o.Watch(w.no, func(c *Commit) {
		if c != nil {
			w.tail.tell(c)
		}
		select {
		case w.mark <- struct{}{}:
		default: // it is marked
		}
	})
	defer stop()
	poll, pause := time.NewTimer(0), time.NewTimer(0)
	defer poll.Stop()
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.hub.o.Stopping:
			return
		case <-w.mark:
		case <-poll.C:
		}
		w.look(ctx)
		pause.Reset(w.hub.o.Every)
		poll.Reset(w.hub.o.Poll)
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
	}
}

// look makes a frame if something has changed. While the store is away nothing changes: the next look finds it.
func (w *wave) look(ctx context.Context) {
	x, err := w.hub.o.Store.Execution(ctx, w.id)
	if err != nil {
		if stepwell.CodeOf(err) == stepwell.CodeNotFound {
			w.publish(nil, frame{}, false, err)
		}
		return
	}
	w.mu.Lock()
	before, over := w.table, w.over
	w.mu.Unlock()
	t, err := w.hub.newer(ctx, x, before)
	if err != nil {
		return
	}
	if t.Version == before.Version && over == x.Status.Terminal() {
		return
	}
	var f frame
	if t.Version > before.Version {
		f = frame{before.Version, t.Version, t.since(before)}
	}
	w.publish(t, f, x.Status.Terminal(), nil)
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	if w.refs > 0 {
		w.hub.held += t.size() - w.size
		w.size = t.size()
	}
}

// publish wakes the followers.
func (w *wave) publish(t *Table, f frame, over bool, gone error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t != nil {
		w.table = t
	}
	if f.body != nil {
		w.frames = append(w.frames, f)
		for w.bytes += len(f.body); w.bytes > maxFrames && len(w.frames) > 1; w.frames = w.frames[1:] {
			w.bytes -= len(w.frames[0].body)
		}
	}
	w.over, w.gone = over, gone
	close(w.changed)
	w.changed = make(chan struct{})
}
