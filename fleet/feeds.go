package fleet

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"

	"github.com/stepwell/stepwell/feed"
	"github.com/stepwell/stepwell/store"
)

// FeedPath is where a node tells others of the executions that it runs, below its address.
const FeedPath = "/fleet/v1/feed"

// Limits of a feed between two nodes.
const (
	feedMerge    = 5 * time.Millisecond // notices of an execution within it are one
	feedWrite    = 10 * time.Second     // a node that takes nothing for so long is cut off
	feedPing     = 20 * time.Second
	feedRetry    = time.Second
	maxFollowed  = 100_000 // executions that a node follows on another one
	maxFeedOrder = 10_000  // executions in one order
	maxFeedKeys  = 10_000  // of dispatched steps in one notice; the store tells of the others later
	maxFeedFrame = 32 << 20
)

// Feeds brings the notices of executions from the nodes that run them: feed.Peers over one WebSocket to each other node, which is
// told what to follow and tells only of what it runs itself, so that an execution may move. It is also the http.Handler
// of what others follow here (FeedPath). While a node cannot be reached, hubs find its changes by looking.
type Feeds struct {
	r *Router

	mu      sync.Mutex
	hub     *feed.Hub // of this node
	follows map[int64][]*followed
	links   map[int64]*feedLink
	wake    chan struct{} // there is something to follow
}

// followed is one call of Follow.
type followed struct{ notice func(feed.Notice) }

// feedLink is the connection to one other node.
type feedLink struct {
	changed map[int64]bool // executions to follow (true) or not any more; guarded by Feeds.mu
	wake    chan struct{}
}

// feedOrder is what one node asks of another.
type feedOrder struct {
	Follow   []int64 `json:"follow,omitempty"`
	Unfollow []int64 `json:"unfollow,omitempty"`
}

// feedNotice is a notice on its way.
type feedNotice struct {
	Execution int64
	feed.Notice
}

// nodeHello is signed by the node that connects.
type nodeHello struct {
	To   int64 `json:"to"`
	From int64 `json:"from"`
	At   int64 `json:"at"` // µs, the store's clock
}

// helloHeader holds a nodeHello.
const helloHeader = "Stepwell-Node"

// NewFeeds makes the feeds of a node. Run connects to others, and ServeHTTP answers them once Serve has named the hub.
func NewFeeds(r *Router) *Feeds {
	return &Feeds{r: r, follows: map[int64][]*followed{}, links: map[int64]*feedLink{}, wake: make(chan struct{}, 1)}
}

// Serve names the hub whose executions others may follow.
func (f *Feeds) Serve(h *feed.Hub) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hub = h
}

// Follow implements feed.Peers.
func (f *Feeds) Follow(execution int64, notice func(feed.Notice)) (stop func()) {
	one := &followed{notice}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.follows[execution] = append(slices.Clone(f.follows[execution]), one); len(f.follows[execution]) == 1 {
		f.change(execution, true)
	}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		rest := slices.DeleteFunc(slices.Clone(f.follows[execution]), func(x *followed) bool { return x == one })
		if f.follows[execution] = rest; len(rest) == 0 {
			delete(f.follows, execution)
			f.change(execution, false)
		}
	}
}

// change has all links tell their nodes. The caller holds the lock.
func (f *Feeds) change(execution int64, follow bool) {
	for _, l := range f.links {
		l.changed[execution] = follow
		signal(l.wake)
	}
	signal(f.wake)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run keeps a connection to each other node, once there is something to follow, until ctx ends.
func (f *Feeds) Run(ctx context.Context) error {
	var links sync.WaitGroup
	defer links.Wait()
	tick := time.NewTicker(feedRetry)
	defer tick.Stop()
	for {
		for l, peer := range f.unlinked() {
			links.Go(func() {
				defer f.drop(peer.No)
				if err := f.link(ctx, l, peer); err != nil && ctx.Err() == nil {
					f.r.n.o.Log.Debug("the live feed of another node is unavailable; its executions are followed by looking", "node", peer.No, "error", err)
				}
			})
		}
		select {
		case <-ctx.Done():
			return nil
		case <-f.wake:
		case <-tick.C:
		}
	}
}

// unlinked makes links for the other living nodes that have none, if there is something to follow.
func (f *Feeds) unlinked() map[*feedLink]store.NodeRow {
	f.mu.Lock()
	defer f.mu.Unlock()
	made := map[*feedLink]store.NodeRow{}
	if len(f.follows) == 0 || f.r.o.Key == nil {
		return made
	}
	for _, p := range f.r.n.others() {
		if f.links[p.No] == nil {
			l := &feedLink{changed: map[int64]bool{}, wake: make(chan struct{}, 1)}
			f.links[p.No], made[l] = l, p
		}
	}
	return made
}

func (f *Feeds) drop(no int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.links, no)
}

// link connects to a node and passes its notices on until the connection ends.
func (f *Feeds) link(ctx context.Context, l *feedLink, peer store.NodeRow) error {
	hello, signature, err := f.r.hello(FeedPath, peer.No)
	if err != nil {
		return err
	}
	dialing, cancel := context.WithTimeout(ctx, forwardWait)
	defer cancel()
	c, _, err := websocket.Dial(dialing, peer.Address+FeedPath, &websocket.DialOptions{CompressionMode: websocket.CompressionDisabled, HTTPClient: &http.Client{Transport: f.r.o.Client.Transport},
		HTTPHeader: http.Header{helloHeader: {hello}, signatureHeader: {signature}}})
	if err != nil {
		return err
	}
	defer c.CloseNow()
	c.SetReadLimit(maxFeedFrame)
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var sending sync.WaitGroup
	sending.Go(func() { end(f.order(ctx, c, l)) })
	defer sending.Wait()
	defer end(nil)
	for {
		var notices []feedNotice
		if err := wsjson.Read(ctx, c, &notices); err != nil {
			return err
		}
		for i := range notices {
			f.pass(&notices[i])
		}
	}
}

// order tells the other node what to follow: at first everything, which is then looked at once, because it may have changed before.
func (f *Feeds) order(ctx context.Context, c *websocket.Conn, l *feedLink) error {
	f.mu.Lock()
	clear(l.changed)
	all := slices.Collect(maps.Keys(f.follows))
	f.mu.Unlock()
	for part := range slices.Chunk(all, maxFeedOrder) {
		if err := writeFrame(ctx, c, feedOrder{Follow: part}); err != nil {
			return err
		}
	}
	for _, no := range all {
		f.pass(&feedNotice{no, feed.Notice{Events: true, Lines: true}})
	}
	for {
		if err := waitSignal(ctx, c, l.wake); err != nil {
			return err
		}
		var o feedOrder
		f.mu.Lock()
		for no, follow := range l.changed {
			if len(o.Follow)+len(o.Unfollow) == maxFeedOrder {
				signal(l.wake)
				break
			}
			if delete(l.changed, no); follow {
				o.Follow = append(o.Follow, no)
			} else {
				o.Unfollow = append(o.Unfollow, no)
			}
		}
		f.mu.Unlock()
		if err := writeFrame(ctx, c, o); err != nil {
			return err
		}
	}
}

// waitSignal waits for a signal, and pings meanwhile.
func waitSignal(ctx context.Context, c *websocket.Conn, wake chan struct{}) error {
	for {
		timer := time.NewTimer(feedPing)
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-wake:
			timer.Stop()
			return nil
		case <-timer.C:
		}
		pinging, cancel := context.WithTimeout(ctx, feedWrite)
		err := c.Ping(pinging)
		cancel()
		if err != nil {
			return err
		}
	}
}

func writeFrame(ctx context.Context, c *websocket.Conn, v any) error {
	ctx, cancel := context.WithTimeout(ctx, feedWrite)
	defer cancel()
	return wsjson.Write(ctx, c, v)
}

// pass gives a notice to all who follow its execution.
func (f *Feeds) pass(n *feedNotice) {
	f.mu.Lock()
	list := f.follows[n.Execution]
	f.mu.Unlock()
	for _, one := range list {
		one.notice(n.Notice)
	}
}

// ServeHTTP tells another node of the executions that it follows, as long as it is connected. One without the signature of a node, or
// an old one, gets 401.
func (f *Feeds) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	h, ok := f.r.known(FeedPath, req.Header.Get(helloHeader), req.Header.Get(signatureHeader))
	f.mu.Lock()
	hub := f.hub
	f.mu.Unlock()
	switch {
	case !ok:
		http.Error(w, "not signed by a node", http.StatusUnauthorized)
		return
	case h.To != f.r.n.no || hub == nil:
		http.Error(w, errOther.Error(), http.StatusMisdirectedRequest)
		return
	}
	c, err := websocket.Accept(w, req, &websocket.AcceptOptions{CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		return // the node has been told
	}
	defer c.CloseNow()
	t := &teller{hub: hub, conn: c, pending: map[int64]*feed.Notice{}, stops: map[int64]func(){}, wake: make(chan struct{}, 1)}
	if err := t.run(req.Context()); err != nil {
		f.r.n.o.Log.Debug("a node does not follow any more", "node", h.From, "error", err)
	}
}

// teller tells another node of what it follows.
type teller struct {
	hub   *feed.Hub
	conn  *websocket.Conn
	stops map[int64]func() // of the executions that are followed
	wake  chan struct{}

	mu      sync.Mutex
	pending map[int64]*feed.Notice // merged since the last frame
}

func (t *teller) run(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	var telling sync.WaitGroup
	telling.Go(func() { end(t.tell(ctx)) })
	err := t.obey(ctx)
	end(err)
	telling.Wait()
	for _, stop := range t.stops {
		stop()
	}
	return context.Cause(ctx)
}

// obey reads what to follow until the connection ends.
func (t *teller) obey(ctx context.Context) error {
	t.conn.SetReadLimit(1 << 20)
	for {
		var o feedOrder
		if err := wsjson.Read(ctx, t.conn, &o); err != nil {
			return err
		}
		for _, no := range o.Unfollow {
			if stop := t.stops[no]; stop != nil {
				stop()
				delete(t.stops, no)
			}
		}
		for _, no := range o.Follow {
			if t.stops[no] == nil {
				t.stops[no] = t.hub.Follow(no, func(n feed.Notice) { t.note(no, n) })
			}
		}
		if len(t.stops) > maxFollowed {
			return fmt.Errorf("it follows more than %d executions", maxFollowed)
		}
	}
}

// note merges a notice into those on their way.
func (t *teller) note(execution int64, n feed.Notice) {
	t.mu.Lock()
	defer t.mu.Unlock()
	to := t.pending[execution]
	if to == nil {
		to = &feed.Notice{Keys: map[int32]string{}}
		t.pending[execution] = to
	}
	to.Events, to.Lines, to.Ended = to.Events || n.Events, to.Lines || n.Lines, to.Ended || n.Ended
	if n.Progress != nil {
		to.Progress = n.Progress
	}
	for idx, key := range n.Keys {
		if len(to.Keys) < maxFeedKeys {
			to.Keys[idx] = key
		}
	}
	for _, s := range n.Steps {
		if i := slices.IndexFunc(to.Steps, func(x feed.StepNotice) bool { return x.Step == s.Step }); i >= 0 {
			to.Steps[i] = s
		} else if len(to.Steps) < maxFeedKeys {
			to.Steps = append(to.Steps, s)
		}
	}
	signal(t.wake)
}

// tell sends what is pending, at most once in feedMerge.
func (t *teller) tell(ctx context.Context) error {
	for {
		if err := waitSignal(ctx, t.conn, t.wake); err != nil {
			return err
		}
		t.mu.Lock()
		pending := t.pending
		t.pending = map[int64]*feed.Notice{}
		t.mu.Unlock()
		frame := make([]feedNotice, 0, len(pending))
		for no, n := range pending {
			frame = append(frame, feedNotice{no, *n})
		}
		if len(frame) > 0 {
			if err := writeFrame(ctx, t.conn, frame); err != nil {
				return err
			}
		}
		pause := time.NewTimer(feedMerge)
		select {
		case <-ctx.Done():
			pause.Stop()
			return context.Cause(ctx)
		case <-pause.C:
		}
	}
}
