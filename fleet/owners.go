package fleet

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/store"
)

// RetryAfter is when to ask again for an execution whose owner is dead.
const RetryAfter = time.Second

// errNoOwner is in the errors of requests for executions whose owner is dead.
var errNoOwner = errors.New("its node has left")

// maxOwners bounds the cache of owners.
const maxOwners = 10_000

// owners is what this node knows of the owners of executions. Only owners elsewhere are cached: a request there that is
// refused drops the entry. What this node has just adopted needs no question, once.
type owners struct {
	mu   sync.Mutex
	away map[string]int64
	here map[string]bool
}

func (o *owners) adopted(list []store.Execution) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.here = make(map[string]bool, len(list))
	for _, x := range list {
		o.here[x.ID] = true
		delete(o.away, x.ID)
	}
}

// find reports the owner elsewhere, 0 if it is not known, or that the execution was just adopted.
func (o *owners) find(id string) (owner int64, here bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.here[id] {
		delete(o.here, id)
		return 0, true
	}
	return o.away[id], false
}

func (o *owners) put(id string, owner int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.away == nil || len(o.away) >= maxOwners {
		o.away = map[string]int64{}
	}
	o.away[id] = owner
}

func (o *owners) drop(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.away, id)
}

// peer is a node as of the last beat.
func (n *Node) peer(no int64) (p store.NodeRow, alive bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p = n.peers[no]
	return p, p.Alive
}

// others are the other nodes that lived at the last beat and have an address.
func (n *Node) others() (list []store.NodeRow) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for no, p := range n.peers {
		if no != n.no && p.Alive && p.Address != "" {
			list = append(list, p)
		}
	}
	return list
}

// Addresses are those of this node and of all that are alive, where they have one.
func (n *Node) Addresses() (list []string) {
	for _, p := range n.others() {
		list = append(list, p.Address)
	}
	if n.o.Address != "" {
		list = append(list, n.o.Address)
	}
	slices.Sort(list)
	return list
}

// Mine implements conductor.Owners by the whole id. *conductor.ElsewhereError names the number of a living node that runs the
// execution; CodeUnavailable: its owner is dead, ask again after RetryAfter. One that has ended becomes this node's, to be restarted.
func (n *Node) Mine(ctx context.Context, id string) error {
	owner, here := n.cache.find(id)
	if here {
		return nil
	}
	if _, alive := n.peer(owner); owner != 0 && alive {
		return elsewhere(owner)
	}
	n.cache.drop(id)
	o, err := n.o.Store.OwnerOf(ctx, id, n.no, false)
	if err == nil && o.Ended && o.No != n.no {
		o, err = n.o.Store.OwnerOf(ctx, id, n.no, true)
	}
	switch {
	case err != nil:
		return err
	case o.No == n.no:
		return nil
	case !o.Alive && n.o.Single && !o.Ended:
		return n.adoptOne(ctx, id)
	case !o.Alive:
		return unavailable(id)
	}
	n.cache.put(id, o.No)
	return elsewhere(o.No)
}

// Yield implements conductor.Owners.
func (n *Node) Yield(ctx context.Context, execution int64, revision int) error {
	return n.o.Store.Yield(ctx, n.no, execution, revision)
}

func (n *Node) adoptOne(ctx context.Context, id string) error {
	got, err := n.o.Store.AdoptOne(ctx, n.no, n.o.Lease, id)
	if err == nil && !got {
		err = unavailable(id)
	}
	return err
}

func elsewhere(no int64) error { return &conductor.ElsewhereError{Node: strconv.FormatInt(no, 10)} }
