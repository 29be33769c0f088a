package stream

import (
	"context"
	"slices"
	"time"
)

// message is a batch for a stage, or the end of one of its inputs (nil).
type message struct {
	from  int
	batch *batch
}

// inbox receives the batches of a stage from all inputs, so that no input ever waits for another. Batches that wait for
// their counterpart are bounded by the buffers of the other branch, as both began at the same tee.
type inbox struct {
	ch     chan message
	gone   <-chan struct{} // the step does not go on: nothing is to be sent
	inputs int
	ended  int
	need   []int // for each root, how many inputs bring its batches
	parts  map[partOf][]*batch
	join   *joiner // of a step with several inputs
}

type partOf struct {
	root *root
	no   int64
}

// buffered is how many batches wait in front of a stage at most.
const buffered = 2

func newInbox(n *node, roots int) *inbox {
	in := &inbox{ch: make(chan message, buffered), gone: n.ctx.Done(), inputs: len(n.inputs), need: make([]int, roots)}
	if n.meeting == nil {
		for _, r := range n.inputs[0].roots {
			in.need[r.index] = 1
		}
		return in
	}
	in.inputs = len(n.meeting.parts)
	for r, parts := range n.meeting.needs {
		in.need[r] = len(parts)
	}
	return in
}

// arrival is the outcome of next.
type arrival int

const (
	arrived arrival = iota
	ended           // no batch will come any more
	ticked          // the ticker has
	stopped         // the context is done
)

// next waits for a batch, or for the ticker, which may be nil. The batch of a join is still to be merged.
func (in *inbox) next(ctx context.Context, tick <-chan time.Time) (*batch, arrival) {
	for in.ended < in.inputs {
		select {
		case m := <-in.ch:
			if m.batch == nil {
				in.ended++
			} else if b := in.whole(m); b != nil {
				return b, arrived
			}
		case <-tick:
			return nil, ticked
		case <-ctx.Done():
			return nil, stopped
		}
	}
	return nil, ended
}

// open reports whether the step goes on.
func (in *inbox) open() bool {
	select {
	case <-in.gone:
		return false
	default:
		return true
	}
}

// whole gives the batch when all inputs that bring it have.
func (in *inbox) whole(m message) *batch {
	t := m.batch.ticket
	if in.need[t.root.index] == 1 {
		return m.batch
	}
	at := partOf{t.root, t.no}
	parts := in.parts[at]
	if parts == nil {
		if in.parts == nil {
			in.parts = map[partOf][]*batch{}
		}
		parts = make([]*batch, in.inputs)
		in.parts[at] = parts
	}
	parts[m.from] = m.batch
	have := 0
	for _, p := range parts {
		if p != nil {
			have++
		}
	}
	if have < in.need[t.root.index] {
		return nil
	}
	delete(in.parts, at)
	first := parts[in.join.node.meeting.roots[t.root.index].parts[0]]
	first.parts = parts
	return first
}

// merge merges the parts of a join into the batch.
func (in *inbox) merge(b *batch) error {
	if b.parts == nil {
		return nil
	}
	return in.join.join(b)
}

// outlet is where a stage's batches go.
type outlet struct {
	seg   *segment
	node  *node // the last step of the stage
	edges []edge
	skips bool // behind a source: skips items that are done already. Here, because items arrive here in order
}

type edge struct {
	to   *inbox
	from int
	ends uint64
	only []bool // by root, whose batches go this way; nil: all
}

// send passes a batch on: to each of the steps behind, with a clone of every item for all but the last of
// them. Behind the last step the batch is settled.
func (o *outlet) send(ctx context.Context, b *batch) error {
	if o.skips && o.seg.resumes {
		skipped, err := o.seg.dropKnown(b)
		if err != nil {
			return err
		}
		o.node.counts.skipped.Add(int64(skipped))
	}
	o.node.counts.out.Add(int64(len(b.items)))
	if len(o.edges) == 0 {
		err := o.node.leaf.through(b)
		o.seg.batches.returnBatch(b)
		return err
	}
	last := len(o.edges) - 1
	out := make([]*batch, 0, 4)
	for i := range o.edges[:last] {
		if e := &o.edges[i]; e.to.open() && (e.only == nil || e.only[b.ticket.root.index]) {
			out = append(out, o.clone(b, e.ends))
		} else {
			out = append(out, nil)
		}
	}
	if last > 0 {
		o.leaveOutKnown(b, o.edges[last].ends)
	}
	for i, c := range append(out, b) {
		if c == nil {
			continue
		}
		taken, err := o.edges[i].deliver(ctx, c)
		if err != nil {
			return err
		}
		if !taken {
			o.seg.batches.returnBatch(c)
		}
	}
	return nil
}

// deliver passes a batch, or the end (nil), to the stage behind. It returns false when that step does not go on.
func (e *edge) deliver(ctx context.Context, b *batch) (taken bool, err error) {
	select {
	case e.to.ch <- message{e.from, b}:
		return true, nil
	case <-e.to.gone:
		return false, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

// clone makes a batch of clones of the items that not all the ends behind an edge have already.
func (o *outlet) clone(b *batch, ends uint64) *batch {
	c := o.seg.batches.borrowBatch(b.ticket, cap(b.items))
	for _, it := range b.items {
		if ends == 0 || ends&^it.origin.known != 0 {
			c.items = append(c.items, it.Clone())
		}
	}
	return c
}

// leaveOutKnown leaves out the items that all the ends behind an edge have already.
func (o *outlet) leaveOutKnown(b *batch, ends uint64) {
	if !o.seg.resumes || ends == 0 {
		return
	}
	b.items = slices.DeleteFunc(b.items, func(it *Item) bool { return ends&^it.origin.known == 0 })
}

// finish signals the end of the stream to the steps behind.
func (o *outlet) finish(ctx context.Context) error {
	for i := range o.edges {
		if _, err := o.edges[i].deliver(ctx, nil); err != nil {
			return err
		}
	}
	return nil
}
