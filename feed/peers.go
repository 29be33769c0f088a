package feed

import (
	"iter"
	"maps"
	"slices"

	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/engine"
)

// Peers are the hubs of the processes that run the executions of a store, where there are several. Without them, or while
// one cannot be reached, a hub finds the changes of other processes by Options.Poll.
type Peers interface {
	// Follow has the hub of the process that runs an execution call notice until stop is called; a call that is under way
	// may end later. When another process takes the execution up, its hub goes on. Follow does not block, and notice neither. Of
	// executions that this process runs it tells nothing: their hub is this one.
	Follow(execution int64, notice func(Notice)) (stop func())
}

// Notice says that something of an execution has become durable, or how far a running step is. Each field that is set counts;
// several notices of an execution may be merged into one.
type Notice struct {
	Events, Lines bool
	Ended         bool             // it is terminal, and all its lines are durable
	Progress      *engine.Progress // of the execution
	Keys          map[int32]string // of dispatched steps, which the store only has once they have a row
	Steps         []StepNotice     // how far running steps are
	// Commit is the commit that this tells of, where this process runs the execution. It is good during the call only.
	Commit *conductor.Update `json:"-"`
}

// StepNotice is the report of a running step.
type StepNotice struct {
	Step     int32
	Fraction float64
	Note     string
	Items    *Items // of a step of a stream
}

// follower is a hub of another process that follows an execution, or one of this process who does not need the keys.
type follower struct {
	notice func(Notice)
	keys   bool
}

// Follow implements Peers for the hubs of other processes: notice is called for all that Observe, Notify, Lines and
// Progress tell this hub of an execution. It must not block.
func (h *Hub) Follow(execution int64, notice func(Notice)) (stop func()) {
	return h.follow(execution, &follower{notice, true})
}

func (h *Hub) follow(execution int64, f *follower) (stop func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.followers[execution] = append(slices.Clone(h.followers[execution]), f) // a list that is being read does not change
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		rest := slices.DeleteFunc(slices.Clone(h.followers[execution]), func(x *follower) bool { return x == f })
		if h.followers[execution] = rest; len(rest) == 0 {
			delete(h.followers, execution)
		}
	}
}

// Watch calls notice for what becomes durable of an execution on any process, as far as Peers tell of the others, until stop
// is called. It must not block, and tells nothing of what came before. Keys are told of other processes' steps alone.
func (h *Hub) Watch(execution int64, notice func(Notice)) (stop func()) {
	own := h.follow(execution, &follower{notice: notice})
	if h.o.Peers == nil {
		return own
	}
	others := h.o.Peers.Follow(execution, notice)
	return func() { own(); others() }
}

// followPeers has the peers tell of the topic's execution as long as it has subscribers.
func (t *topic) followPeers() {
	t.following.Do(func() {
		if peers := t.hub.o.Peers; peers != nil {
			t.unfollow = peers.Follow(t.no, t.heard)
		}
	})
}

// heard takes in a notice of another process. It goes no further, so that hubs may follow each other.
func (t *topic) heard(n Notice) {
	t.hub.find(t.no, n.Ended) // remembers the end
	if n.Progress != nil {
		t.observe(nil, n.Progress, maps.All(n.Keys))
	}
	for _, s := range n.Steps {
		t.hub.flowing(t.no, s.Step, s.Items)
		t.recordNote(s.Step, ProgressData{Fraction: s.Fraction, Note: s.Note, Items: s.Items})
	}
	if n.Events || n.Lines || n.Ended {
		t.markDirty(dirty{events: n.Events, lines: n.Lines, end: n.Ended})
	}
}

// taskKeys are the keys of tasks by step.
func taskKeys(tasks []*engine.Task) iter.Seq2[int32, string] {
	return func(yield func(int32, string) bool) {
		for _, task := range tasks {
			if !yield(task.Idx, task.Key) {
				return
			}
		}
	}
}
