package fleet

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/stepwell/stepwell/queue"
	"github.com/stepwell/stepwell/store"
)

// Limited is a queue of steps whose queues have limits.
type Limited interface {
	Limit(name string, l queue.Limits)
	Demand(name string) (out, waiting int)
}

// Permits make the limits of named queues hold for all nodes together: each node has a part of every limit, which follows its demand once
// in a beat. Parts end with the node's lease: from then on it gives out nothing of these queues until the store answers again.
type Permits struct {
	n     *Node
	store store.Permits
	queue Limited
	wake  chan struct{}

	mu    sync.Mutex
	list  []*permit
	until time.Time // of the parts, by this machine's clock
}

// permit is one limit of a queue: its concurrency, or its rate in steps per million seconds.
type permit struct {
	name   string
	limits queue.Limits
	paced  bool
	part   int64
}

const million = 1_000_000

// limit is what all nodes have together.
func (x *permit) limit() int64 {
	if x.paced {
		return int64(math.Ceil(x.limits.Rate * million))
	}
	return int64(x.limits.Concurrency)
}

// NewPermits closes the queues until Run gets this node's parts.
func NewPermits(n *Node, s store.Permits, q Limited, limits map[string]queue.Limits) *Permits {
	p := &Permits{n: n, store: s, queue: q, wake: make(chan struct{}, 1)}
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		if l := limits[name]; l.Concurrency > 0 {
			p.list = append(p.list, &permit{name: name, limits: l})
		}
		if l := limits[name]; l.Rate > 0 {
			if l.Burst <= 0 {
				l.Burst = int(math.Ceil(l.Rate))
			}
			p.list = append(p.list, &permit{name: name, limits: l, paced: true})
		}
	}
	p.apply()
	return p
}

// Wake has Run look at once: another node may have changed its parts.
func (p *Permits) Wake() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Run follows demand until ctx ends.
func (p *Permits) Run(ctx context.Context) {
	if len(p.list) == 0 {
		return
	}
	tick := time.NewTicker(p.n.o.Beat)
	defer tick.Stop()
	for {
		p.renew(ctx)
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		case <-tick.C:
		}
	}
}

// renew asks for parts, and once more where this node comes down to less, so that others have the rest.
func (p *Permits) renew(ctx context.Context) {
	for range 2 {
		less, err := p.ask(ctx)
		if err != nil && ctx.Err() == nil {
			p.n.o.Log.Warn("this node's parts of the limits of queues could not be renewed", "node", p.n.no, "error", err)
		}
		if !less {
			return
		}
	}
}

func (p *Permits) ask(ctx context.Context) (less bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.n.o.Lease)
	defer cancel()
	sent := p.n.o.Local()
	wants := p.wants()
	parts, err := p.store.Share(ctx, p.n.no, p.n.o.Lease, wants)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.until = sent.Add(p.n.o.Lease)
		for i, x := range p.list {
			x.part = parts[i]
		}
	} else if p.n.o.Local().Before(p.until) {
		return false, err
	} else {
		for _, x := range p.list {
			x.part = 0
		}
	}
	p.apply()
	for i, x := range p.list {
		less = less || err == nil && x.held(p.queue) < wants[i].Held
	}
	return less, err
}

func (p *Permits) wants() []store.Permit {
	p.mu.Lock()
	defer p.mu.Unlock()
	wants := make([]store.Permit, len(p.list))
	for i, x := range p.list {
		out, waiting := p.queue.Demand(x.name)
		w := store.Permit{Name: "concurrency " + x.name, Limit: x.limit(), Demand: int64(out + waiting), Held: x.held(p.queue)}
		if x.paced {
			w.Name, w.Demand = "rate "+x.name, int64(min(waiting, 1))*w.Limit
		}
		wants[i] = w
	}
	return wants
}

// held is what this node uses of a limit, or may use.
func (x *permit) held(q Limited) int64 {
	if x.paced {
		return x.part
	}
	out, _ := q.Demand(x.name)
	return max(x.part, int64(out))
}

// apply sets the limits of the queues to this node's parts.
func (p *Permits) apply() {
	now := map[string]queue.Limits{}
	for _, x := range p.list {
		l, there := now[x.name]
		switch {
		case x.part == 0 || there && l.Concurrency < 0:
			l = queue.Limits{Concurrency: -1}
		case x.paced:
			l.Rate = float64(x.part) / million
			l.Burst = max(1, int(float64(x.limits.Burst)*float64(x.part)/float64(x.limit())))
		default:
			l.Concurrency = int(x.part)
		}
		now[x.name] = l
	}
	for name, l := range now {
		p.queue.Limit(name, l)
	}
}

// Explain says why a step of a queue waits, "" where no limit holds it back.
func (p *Permits) Explain(name string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	out, _ := p.queue.Demand(name)
	for _, x := range p.list {
		switch {
		case x.name != name || int64(out) < x.part && x.part > 0:
		case x.paced:
			return fmt.Sprintf("the queue %s gives %v steps a second on all servers together, and nothing here now", name, x.limits.Rate)
		default:
			return fmt.Sprintf("the queue %s lets %d steps run on all servers together: %d run on this one, which may have %d now", name, x.limits.Concurrency, out, x.part)
		}
	}
	return ""
}
