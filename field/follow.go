package field

import (
	"context"
	"io"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

// heldTables is how many times the memory of kept tables those of followed executions may have besides.
const heldTables = 4

// maxMade bounds the frames that are kept for followers who are behind, of one version of the table.
const maxMade = 8

// Frames are written by so many followers at a time, of all executions: a thousand goroutines that can run would keep every request
// waiting. One that writes for longer than patience waits for its client, and no longer counts.
const (
	writers  = 16
	patience = 20 * time.Millisecond
)

// The time between two frames grows with the time in which followers have written the last one: writing takes one part of so many, and
// is not waited for any longer than longest.
const (
	writingShare = 3
	longest      = 500 * time.Millisecond
)

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
	touched touched
	made    []*frame // up to the version of the table
	over    bool     // the execution had ended when the table was made
	gone    error    // it is no longer there
	changed chan struct{}
	writing int       // followers who write a frame, or wait until they may
	written time.Time // when the last of them was done

	reading sync.Mutex // of the log, for a follower who is behind
	log     *logged    // the last that was read of it; guarded by reading
}

// frame is the states of the steps that versions after one, up to another, have changed.
type frame struct {
	from, to int64
	Message
}

// Message is a table of columns for followers. They share it: it must not be changed.
type Message struct {
	Body []byte
	// Deflated compresses Body, once for all who ask: a deflate stream that ends with a flush, without the flush's last four bytes,
	// which is a message of WebSocket's permessage-deflate (RFC 7692).
	Deflated func() []byte
}

func newFrame(from, to int64, body []byte) *frame {
	return &frame{from, to, Message{body, sync.OnceValue(func() []byte { return deflated(body) })}}
}

// Follower gets the changes of an execution's table. Its methods are for one goroutine, but Close.
type Follower struct {
	w    *wave
	at   int64
	done func() // ends the turn in which the last frame is written
	once sync.Once
}

// Follow begins behind a version of the execution, whose row the caller has read. Frames are made once for all followers; one
// who does not read costs nothing but the frame that is being written. CodeLimit: there are too many.
func (h *Hub) Follow(ctx context.Context, x *store.Execution, since int64) (*Follower, error) {
	if f, err := h.join(x.No, since); f != nil || err != nil {
		return f, err
	}
	table, err := h.Table(ctx, x) // before the wave, so that one is made for good executions only
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.follow >= h.o.Followers {
		return nil, h.crowded()
	}
	w := h.waves[x.No]
	if w == nil {
		size := followedSize(table)
		if h.held+size > heldTables*h.o.Bytes {
			return nil, stepwell.Errorf(stepwell.CodeLimit, "close some, or fetch /field from time to time", "%d bytes of tables are followed, as many as may", h.held)
		}
		h.held += size
		run, end := context.WithCancel(context.Background())
		e := h.pin(x.No)
		w = &wave{hub: h, no: x.No, id: x.ID, of: e, tail: e.tail, size: size, end: end, mark: make(chan struct{}, 1), table: table, touched: touched{since: table.Version},
			over: x.Status.Terminal(), changed: make(chan struct{})}
		h.waves[x.No] = w
		go w.run(run) // ends with the last follower
	}
	return h.add(w, since), nil
}

// join follows an execution that others follow; nil where there are none.
func (h *Hub) join(no, since int64) (*Follower, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.waves[no]
	if w == nil {
		return nil, nil
	}
	if h.follow >= h.o.Followers {
		return nil, h.crowded()
	}
	return h.add(w, since), nil
}

func (h *Hub) crowded() error {
	return stepwell.Errorf(stepwell.CodeLimit, "close some, or fetch /field from time to time", "%d pages follow executions, as many as may", h.follow)
}

// add counts a follower. The caller holds h.mu.
func (h *Hub) add(w *wave, since int64) *Follower {
	w.refs++
	h.follow++
	return &Follower{w: w, at: since, done: func() {}}
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
			h.unpin(f.w.no, f.w.of, f.w.size/(perStep+perTouched)*perStep)
		}
	})
}

// Since is the version behind which Next goes on.
func (f *Follower) Since() string { return strconv.FormatInt(f.at, 10) }

// Next waits for a frame: what has changed since the last one, which the caller has written when it asks again. io.EOF: the execution
// has ended, and the follower has all. CodeUnavailable: the server stops.
func (f *Follower) Next(ctx context.Context) (*Message, error) {
	f.done()
	f.done = func() {}
	for {
		f.w.mu.Lock()
		behind, over, gone, changed := f.at < f.w.table.Version, f.w.over, f.w.gone, f.w.changed
		f.w.mu.Unlock()
		switch {
		case behind:
			return f.take(ctx)
		case gone != nil:
			return nil, gone
		case over:
			return nil, io.EOF
		}
		select {
		case <-changed:
		case <-f.w.hub.o.Stopping:
			return nil, errStops
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

var errStops = &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the server stops", Hint: "come back with since"}

// take waits until the follower may write, and gives it what is the newest then.
func (f *Follower) take(ctx context.Context) (*Message, error) {
	f.w.write(1)
	select {
	case f.w.hub.writers <- struct{}{}:
	default:
		select {
		case f.w.hub.writers <- struct{}{}:
		case <-f.w.hub.o.Stopping:
			f.w.write(-1)
			return nil, errStops
		case <-ctx.Done():
			f.w.write(-1)
			return nil, context.Cause(ctx)
		}
	}
	end := sync.OnceFunc(func() {
		<-f.w.hub.writers
		f.w.write(-1)
	})
	made, err := f.w.after(ctx, f.at)
	if err != nil {
		end()
		return nil, err
	}
	late := time.AfterFunc(patience, end)
	f.done = func() {
		late.Stop()
		end()
	}
	f.at = made.to
	return &made.Message, nil
}

// write counts the followers who write.
func (w *wave) write(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writing += n
	w.written = time.Now()
}

// after is the frame behind a version.
func (w *wave) after(ctx context.Context, since int64) (*frame, error) {
	if f := w.kept(since); f != nil {
		return f, nil
	}
	return w.catchUp(ctx, since)
}

// kept is after, where the wave has seen everything since then.
func (w *wave) kept(since int64) *frame {
	w.mu.Lock()
	defer w.mu.Unlock()
	if f := w.found(since); f != nil {
		return f
	}
	if since < w.touched.since {
		return nil
	}
	of, placed, again := w.touched.after(since)
	again = again || max(len(of), len(placed)) > w.table.most()
	return w.keep(newFrame(since, w.table.Version, w.table.frame(of, placed, again)))
}

// found is a frame that has been made already. The caller holds w.mu.
func (w *wave) found(since int64) *frame {
	if i := slices.IndexFunc(w.made, func(f *frame) bool { return f.from == since }); i >= 0 {
		return w.made[i]
	}
	return nil
}

// keep has other followers find a frame. The caller holds w.mu.
func (w *wave) keep(f *frame) *frame {
	if w.made = append(w.made, f); len(w.made) > maxMade {
		w.made = w.made[1:]
	}
	return f
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
		poll.Reset(w.hub.o.Poll)
		begun := time.Now()
		for rest := w.hub.o.Every; rest > 0; rest = w.rest(begun) {
			pause.Reset(rest)
			select {
			case <-ctx.Done():
				return
			case <-pause.C:
			}
		}
	}
}

// rest is how long the next frame is still to wait, after the last one was made at a time.
func (w *wave) rest(begun time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	until := begun.Add(longest)
	if w.writing == 0 {
		until = begun.Add(min(longest, writingShare*w.written.Sub(begun)))
	}
	return min(time.Until(until), patience)
}

// look has followers get a frame if something has changed. While the store is away nothing changes: the next look finds it.
func (w *wave) look(ctx context.Context) {
	x, err := w.hub.o.Store.Execution(ctx, w.id)
	if err != nil {
		if stepwell.CodeOf(err) == stepwell.CodeNotFound {
			w.publish(nil, false, err)
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
	w.publish(t, x.Status.Terminal(), nil)
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	if w.refs > 0 {
		size := followedSize(t)
		w.hub.held += size - w.size
		w.size = size
	}
}

// publish wakes the followers.
func (w *wave) publish(t *Table, over bool, gone error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t != nil && t.Version > w.table.Version {
		w.touched.add(t, w.table)
		w.made = nil
	}
	if t != nil {
		w.table = t
	}
	w.over, w.gone = over, gone
	close(w.changed)
	w.changed = make(chan struct{})
}
