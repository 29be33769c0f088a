package link

import (
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stepwell/stepwell/action"
)

// maxNodes bounds the members of one process.
const maxNodes = 100

// members are the workers of one process: one for each node that the others tell of. The first is the one that New made.
type members struct {
	instance string // of the process
	running  sync.WaitGroup
	several  atomic.Bool
	losses   atomic.Int64 // links lost: the others tell their nodes at once what is held

	mu    sync.Mutex
	list  []*Worker
	known []string        // addresses of the nodes, as last told
	next  int             // of linked
	ctx   context.Context // of Run; nil: it has not begun
	over  bool            // no more are added
}

func newMembers() *members { return &members{instance: rand.Text()[:8]} }

func (m *members) add(w *Worker) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.list = append(m.list, w)
	m.several.Store(len(m.list) > 1)
}

func (m *members) remove(w *Worker) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.list = slices.DeleteFunc(m.list, func(x *Worker) bool { return x == w })
	m.several.Store(len(m.list) > 1)
}

// others lists the members but one.
func (m *members) others(w *Worker) []*Worker {
	if !m.several.Load() {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(m.list), func(x *Worker) bool { return x == w })
}

// start runs the members that have been added, and those that will be, until ctx ends.
func (m *members) start(ctx context.Context) {
	m.mu.Lock()
	m.ctx = ctx
	first, nodes := m.list[0], m.known
	m.mu.Unlock()
	m.follow(first, nodes)
}

// close ends the adding of members, and returns them.
func (m *members) close() []*Worker {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.over = true
	return slices.Clone(m.list)
}

// follow has a member for each of the nodes. The members of nodes that are gone end by themselves.
func (m *members) follow(w *Worker, nodes []string) {
	if w.o.Alone || len(nodes) == 0 {
		return
	}
	m.mu.Lock()
	m.known = nil
	for _, n := range nodes {
		m.known = append(m.known, strings.TrimRight(n, "/"))
	}
	nodes = m.known
	m.mu.Unlock()
	for _, n := range nodes {
		if _, err := m.of(w, n); err != nil {
			w.o.Log.Error("a node is not joined", "node", n, "error", err)
		}
	}
}

// of is the member for a node, which is made if there is none; nil: none can be made now.
func (m *members) of(w *Worker, node string) (*Worker, error) {
	for _, x := range append(m.others(w), w) {
		if x.has(node) {
			return x, nil
		}
	}
	m.mu.Lock()
	full := m.ctx == nil || m.over || len(m.list) >= maxNodes
	listed, ctx := m.list[0].listed, m.ctx
	m.mu.Unlock()
	if full {
		return nil, nil
	}
	o := w.o
	o.Nodes, o.Lists = []string{node}, nil
	x, err := newMember(o, m, w.slots)
	if err != nil {
		return nil, err
	}
	x.listed, x.follows = listed, true
	m.running.Go(func() { _ = x.run(ctx) }) // ends as the first one does
	return x, nil
}

// linked is another member that is joined to its node under the same name, each in turn; nil: there is none.
func (m *members) linked(w *Worker) *Worker {
	list := m.others(w)
	m.mu.Lock()
	m.next++
	next := m.next
	m.mu.Unlock()
	for i := range list {
		if x := list[(next+i)%len(list)]; x.linked() != nil && x.name() == w.name() {
			return x
		}
	}
	return nil
}

// taken reports whether another member is joined to a node, or is for it alone.
func (m *members) taken(w *Worker, node string) bool {
	return slices.ContainsFunc(m.others(w), func(x *Worker) bool {
		return (x.follows || x.linked() != nil) && x.has(node) // one without a node leaves it to the one that is for it alone
	})
}

// has reports whether this member is joined to a node, or joins it when it can.
func (w *Worker) has(node string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conn != nil {
		return node == w.address || node == w.base
	}
	return slices.Contains(w.nodes, node)
}

// ends reports whether a member has no node any more, and nothing that another node may want.
func (w *Worker) ends() bool {
	m := w.members
	m.mu.Lock()
	known := !w.follows || slices.Contains(m.known, w.nodes[0])
	m.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	return !known && w.conn == nil && len(w.held) == 0
}

// linkLoop joins the node again when the link is lost and other members have theirs: their nodes serve the other calls meanwhile.
func (w *Worker) linkLoop(ctx context.Context) {
	for action.Pause(ctx, lastPause) == nil {
		if w.members.several.Load() && w.linked() == nil {
			_, _ = w.connected(ctx) // tried again
		}
	}
}

// wakeOthers has the other members look whether they may fetch now.
func (w *Worker) wakeOthers() {
	for _, x := range w.members.others(w) {
		x.mu.Lock()
		x.tellFetchers()
		x.mu.Unlock()
	}
}

// slots are the steps that the members may run at once, together. A slot is taken by a token, and given back once.
type slots struct {
	free  chan int
	no    atomic.Uint64
	uses  []atomic.Uint64 // the token of each taken slot, 0 of a free one
	waits atomic.Int64    // tasks that wait for one
}

func newSlots(n int) *slots {
	s := &slots{free: make(chan int, n), uses: make([]atomic.Uint64, n)}
	for i := range n {
		s.free <- i
	}
	return s
}

// unused is how many tasks may come.
func (s *slots) unused() int { return max(0, len(s.free)-int(s.waits.Load())) }

// take waits for a slot, not for ever; 0: there is none.
func (s *slots) take(ctx context.Context, most time.Duration) (token uint64) {
	i := 0
	select {
	case i = <-s.free:
	default:
		s.waits.Add(1)
		defer s.waits.Add(-1)
		select {
		case i = <-s.free:
		case <-time.After(most):
			return 0
		case <-ctx.Done():
			return 0
		}
	}
	token = s.no.Add(1)*uint64(len(s.uses)) + uint64(i)
	s.uses[i].Store(token)
	return token
}

// give frees the slot of a token, unless that has been done.
func (s *slots) give(token uint64) {
	i := int(token % uint64(len(s.uses)))
	if s.uses[i].CompareAndSwap(token, 0) {
		s.free <- i
	}
}

// retryTaken is when a node is looked at again that another member is joined to under another address.
const retryTaken = 30 * time.Second
