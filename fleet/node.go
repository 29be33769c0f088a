// Package fleet lets many processes run the executions of one store: who is there, who runs what, how a dead process is
// replaced, and how a request reaches the process that runs an execution.
//
// Nothing here is needed for correctness: the key of the step log fences every write (store). Leases and owners keep work from
// being done twice, so a node that errs about another one costs time, not truth. Only the store's clock judges leases.
package fleet

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/store"
)

// Options configure a Node. Store is required.
type Options struct {
	Store store.Nodes
	// Address is where other nodes reach this one: the URL of Handler. Defaults to none: requests come through the store.
	Address string
	// Single is for a process that runs what it is asked for and nothing else: it takes an execution over when it is asked for that one
	// (Mine). Defaults to false.
	Single bool
	// Lease is for how long a node is taken for alive after a beat, and Beat the pause between two. All nodes have the same. They
	// default to 5 s and 1 s.
	Lease, Beat time.Duration
	// Adopted is called after executions of other nodes were taken over. Defaults to nothing.
	Adopted func()
	// Local is the machine's clock, of which only differences count. Defaults to time.Now.
	Local func() time.Time
	// Log takes the node's own messages. Defaults to slog.Default.
	Log *slog.Logger
}

func (o *Options) validate() error {
	if o.Store == nil {
		return stepwell.Errorf(stepwell.CodeInternal, "", "fleet: Store is required")
	}
	if o.Lease <= 0 {
		o.Lease = 5 * time.Second
	}
	if o.Beat <= 0 {
		o.Beat = time.Second
	}
	if o.Local == nil {
		o.Local = time.Now
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return nil
}

// Conductor is what a node asks of the conductor whose Options.Owner is the node's number.
type Conductor interface {
	RecoverAll(ctx context.Context) error
	Recover(ctx context.Context, id string) error
	Active() []string
	Verify(ctx context.Context, idle int, versions func(ctx context.Context, owner int64, executions []int64) (map[int64]int64, error)) (ids []string, err error)
}

// Node is this process as one of several. Its methods may be called from any goroutine.
type Node struct {
	o     Options
	no    int64
	clock clock
	cache owners

	wake chan struct{}

	mu    sync.Mutex
	roles map[string]*role
	peers map[int64]store.NodeRow // as of the last beat
	strays
}

// Join adds this process to the nodes of a store: it has a lease from now on, and executions once Run renews it.
func Join(ctx context.Context, o Options) (*Node, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	n := &Node{o: o, clock: clock{local: o.Local}, roles: map[string]*role{}, strays: strays{tries: map[int64]int{}}, wake: make(chan struct{}, 1)}
	no, now, err := o.Store.Join(ctx, o.Address, o.Lease)
	if err != nil {
		return nil, err
	}
	n.no = no
	n.clock.set(now)
	return n, nil
}

// No is the node's number, which is never used again: conductor.Options.Owner.
func (n *Node) No() int64 { return n.no }

// Now is the store's clock as of the last beat, advanced by this machine's: conductor.Options.Now. It never goes back; it stands
// still while the store's clock catches up.
func (n *Node) Now() time.Time { return n.clock.now() }

// Run renews the lease until ctx ends, and takes over what dead nodes leave. Then, or when it fails, the node leaves: others
// take over its executions at once, so the conductor has to have stopped before. CodeConflict: the others have forgotten this node;
// the process is to end.
func (n *Node) Run(ctx context.Context, c Conductor) error {
	working, stop := context.WithCancel(ctx)
	var adopting sync.WaitGroup
	defer func() {
		stop()
		adopting.Wait()
		n.leave(ctx)
	}()
	free := make(chan struct{}, 1) // one adoption at a time
	free <- struct{}{}
	tick := time.NewTicker(n.o.Beat)
	defer tick.Stop()
	session, idle := int64(0), maxIdle
	for round := 1; ; {
		b, err := n.beat(ctx)
		switch {
		case stepwell.CodeOf(err) == stepwell.CodeConflict:
			return err
		case err != nil && ctx.Err() == nil:
			n.o.Log.Warn("the lease of this node could not be renewed", "node", n.no, "error", err)
		case err == nil:
			if b.Late || session != 0 && session != b.Session {
				idle = 0
			}
			session = b.Session
			select {
			case <-free:
				most, strays := idle, idle == 0 || round%strayRounds == 0
				idle, round = maxIdle, round+1
				adopting.Go(func() {
					n.verify(working, c, most)
					if b.Orphans || strays {
						n.adopt(working, c, b.Orphans)
					}
					free <- struct{}{}
				})
			default:
			}
		}
		var ends <-chan time.Time // a node that has not renewed its lease has to be replaced when that ends
		if err == nil && b.Ends > 0 && b.Ends < n.o.Beat {
			ends = time.After(b.Ends + leaseMargin)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-n.wake:
		case <-ends:
		case <-tick.C:
		}
	}
}

// leaseMargin is for how long a node waits after the end of another one's lease.
const leaseMargin = 10 * time.Millisecond

// Wake has Run beat at once: another node may have left.
func (n *Node) Wake() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// maxIdle is how many executions a node looks at after a beat, to find those that have gone on elsewhere.
const maxIdle = 1000

// verify compares what runs here with the store (Conductor.Verify): others may have taken it over while this node was late, or are its
// owners by now; after a failover to a standby that lacked the last commits, the store has earlier versions of some executions, and none
// of others.
func (n *Node) verify(ctx context.Context, c Conductor, idle int) {
	ids, err := c.Verify(ctx, idle, n.o.Store.Versions)
	if err != nil && ctx.Err() == nil {
		n.o.Log.Warn("the executions of this node could not be compared with the database", "node", n.no, "error", err)
	}
	for _, id := range ids {
		switch err := n.recover(ctx, c, id); {
		case stepwell.CodeOf(err) == stepwell.CodeNotFound:
			n.o.Log.Error("an execution is lost: the database that took over does not have it", "execution", id)
		case err != nil && ctx.Err() == nil:
			n.o.Log.Error("an execution cannot be taken up as the database has it", "execution", id, "error", err)
		}
	}
}

// recover takes up an execution whose row names this node: whose it was before does not count.
func (n *Node) recover(ctx context.Context, c Conductor, id string) error {
	n.cache.drop(id)
	return c.Recover(ctx, id)
}

// beat renews lease and roles. Roles end with the lease, by this machine's clock, also when the store does not answer.
func (n *Node) beat(ctx context.Context) (*store.Beat, error) {
	ctx, cancel := context.WithTimeout(ctx, n.o.Lease)
	defer cancel()
	sent := n.o.Local()
	wanted := n.wanted()
	b, err := n.o.Store.Beat(ctx, n.no, wanted, n.o.Lease)
	if err != nil {
		n.expire(n.o.Local())
		return nil, err
	}
	n.clock.set(b.Now)
	n.grant(b.Roles, sent.Add(n.o.Lease))
	peers := make(map[int64]store.NodeRow, len(b.Others))
	for _, p := range b.Others {
		peers[p.No] = p
	}
	n.mu.Lock()
	before := n.peers
	n.peers = peers
	n.mu.Unlock()
	for no, p := range peers {
		if was, ok := before[no]; ok && was.Alive && !p.Alive {
			n.o.Log.Warn("a node has left", "node", no, "address", p.Address)
		}
	}
	if b.Late {
		n.o.Log.Warn("this node was late: others may have taken its executions", "node", n.no)
	}
	return b, nil
}

// adopt takes over what belongs to nobody, or what is this node's and yet not in memory.
func (n *Node) adopt(ctx context.Context, c Conductor, orphans bool) {
	if n.o.Single {
		return
	}
	if orphans {
		if err := c.RecoverAll(ctx); err != nil && ctx.Err() == nil {
			n.o.Log.Error("executions of other nodes could not be taken over", "node", n.no, "error", err)
		}
		return
	}
	if err := n.recoverStrays(ctx, c); err != nil && ctx.Err() == nil {
		n.o.Log.Error("this node's executions could not be listed", "node", n.no, "error", err)
	}
}

// leaveTimeout bounds the wait for the store at the end.
const leaveTimeout = 5 * time.Second

func (n *Node) leave(ctx context.Context) {
	n.expire(time.Time{})
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	if err := n.o.Store.Leave(ctx, n.no); err != nil {
		n.o.Log.Warn("this node could not say that it leaves: others take over when its lease has ended", "node", n.no, "error", err)
	}
}

// Executions is the store for the conductor of this node: executions are claimed from owners that have left or have died.
func (n *Node) Executions(s conductor.Store) conductor.Store { return claimer{s, n} }

type claimer struct {
	conductor.Store
	n *Node
}

// Claim implements store.Loader.
func (c claimer) Claim(ctx context.Context, owner int64, limit int) ([]store.Execution, error) {
	if owner != c.n.no {
		return nil, stepwell.Errorf(stepwell.CodeInternal, "", "owner %d claims on node %d", owner, c.n.no)
	}
	list, err := c.n.o.Store.Adopt(ctx, owner, c.n.o.Lease, limit)
	c.n.cache.adopted(list)
	if len(list) > 0 {
		c.n.o.Log.Info("executions are taken over", "node", owner, "executions", len(list))
		if c.n.o.Adopted != nil {
			c.n.o.Adopted()
		}
	}
	return list, err
}

// strayRounds is after how many beats a node looks for strays, and strayPage how many executions it lists at once.
const (
	strayRounds = 10
	strayPage   = 10_000
)

// strays are executions of this node that are not in memory: it has lost a race for one that nobody else took in the
// end. One that cannot be recovered is tried less and less often.
type strays struct {
	round int
	tries map[int64]int
}

func (n *Node) recoverStrays(ctx context.Context, c Conductor) error {
	n.round++
	tries := map[int64]int{}
	for after := int64(0); ; {
		list, err := n.o.Store.Owned(ctx, n.no, after, strayPage)
		if err != nil {
			return err
		}
		active := c.Active()
		slices.Sort(active)
		for _, x := range list {
			after = x.No
			if _, there := slices.BinarySearch(active, x.ID); there {
				continue
			}
			t := n.tries[x.No]
			if tries[x.No] = t; n.round%(1<<min(t, 6)) != 0 {
				continue
			}
			tries[x.No]++
			if err := n.recover(ctx, c, x.ID); err != nil && ctx.Err() == nil {
				n.o.Log.Error("an execution of this node cannot be taken up", "execution", x.ID, "error", err)
			}
		}
		if len(list) < strayPage {
			n.tries = tries
			return nil
		}
	}
}

// unavailable is the error for an execution whose owner is dead, and is not replaced yet.
func unavailable(id string) error {
	return &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "execution " + id + " has no living owner right now",
		Hint: fmt.Sprintf("try again in %s: another node takes it over", RetryAfter), Err: errNoOwner}
}
