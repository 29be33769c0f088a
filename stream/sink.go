package stream

import (
	"context"
	"errors"
	"time"

	"github.com/stepwell/stepwell/spec"
)

// drain is the stage of a sink.
type drain struct {
	seg  *segment
	node *node
	in   *inbox
}

// run writes batches to their end, and has them made durable from time to time.
func (d *drain) run(ctx context.Context) (err error) {
	defer d.seg.recordDuration(d.node)
	defer d.node.counts.working.Store(0)
	defer d.seg.rescue(d.node, &err)
	sink := d.node.opened.(Sink)
	ticker := time.NewTicker(d.seg.interval)
	defer ticker.Stop()
	last := time.Now()
	for {
		d.node.counts.working.Store(0)
		b, what := d.in.next(ctx, ticker.C)
		d.node.counts.working.Store(1)
		switch what {
		case stopped:
			return context.Cause(ctx)
		case ended:
			return d.commit(ctx, sink)
		case arrived:
			if err := d.in.merge(b); err != nil {
				return err
			}
			if err := d.write(ctx, sink, b); err != nil {
				return err
			}
		}
		if now := time.Now(); what == ticked || now.Sub(last) >= d.seg.interval {
			if err := d.commit(ctx, sink); err != nil {
				return err
			}
			last = now
		}
	}
}

func (d *drain) write(ctx context.Context, sink Sink, b *batch) error {
	d.node.leaf.fresh(b)
	n := int64(len(b.items))
	d.node.counts.in.Add(n)
	if err := d.node.leaf.queueBatch(b); err != nil {
		return &member{d.node, err}
	}
	if n > 0 {
		if err := sink.Write(ctx, b.items); err != nil {
			return d.blame(ctx, err)
		}
	}
	d.node.counts.out.Add(n)
	d.seg.batches.returnBatch(b)
	return nil
}

func (d *drain) commit(ctx context.Context, sink Sink) error {
	if err := d.node.leaf.commit(ctx, sink); err != nil {
		return d.blame(ctx, err)
	}
	return nil
}

// commit makes what was written to a sink durable, and records that.
func (l *leaf) commit(ctx context.Context, sink Sink) error {
	durable, state, err := sink.Commit(ctx)
	if err != nil {
		return err
	}
	return l.recordDurable(durable, state)
}

func (d *drain) blame(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return &member{d.node, err}
}

// finishSink ends the output of a stream that has come to its end.
func (s *segment) finishSink(ctx context.Context, n *node) (err error) {
	defer s.rescue(n, &err)
	state, outputs, err := n.opened.(Sink).Close(ctx)
	if err != nil {
		return &member{n, err}
	}
	n.opened = nil
	if err := n.leaf.recordDurable(all, state); err != nil {
		return &member{n, err}
	}
	return n.keepOutputs(outputs)
}

// abandonSink ends the output of a failed stream. It first commits what it can, unless this sink is the failed one or a
// stop was requested.
func (s *segment) abandonSink(ctx context.Context, n *node, commit bool) (err error) {
	sink := n.opened.(Sink)
	n.opened = nil
	defer s.rescue(n, &err)
	defer sink.Abandon()
	if n.failed || !commit || ctx.Err() != nil {
		return nil
	}
	return n.leaf.commit(ctx, sink)
}

// refuse is Env.Refuse of a sink.
func (s *segment) refuse(n *node, it *Item, cause error) error {
	if n.role() != spec.Sink || cause == nil {
		return s.fail(n, errors.New("only a sink may refuse an item, and with a cause"))
	}
	first, err := n.leaf.refuse(it)
	if err != nil {
		return s.fail(n, err)
	}
	if !first {
		return nil
	}
	n.counts.out.Add(-1)
	return s.failItem(n, it, cause)
}
