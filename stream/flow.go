package stream

import (
	"context"
	"sync"

	"github.com/zeebo/xxh3"
)

// flow is a stage of modifiers that run one after another on a whole batch, by one goroutine or, when all
// of them are Parallel, by several.
type flow struct {
	seg    *segment
	in     *inbox
	out    outlet
	intake *node   // the source whose items are looked at first; nil: no source is right before
	nodes  []*node // modifiers; none: intake only
	many   bool    // several goroutines may work on it
}

// run takes batches to their end.
func (f *flow) run(ctx context.Context) error {
	defer f.seg.recordDuration(f.nodes...)
	workers := f.seg.settings.Workers
	switch {
	case !f.many || workers == 1:
		return f.serial(ctx)
	case f.seg.settings.Ordered:
		return f.ordered(ctx, workers)
	}
	return f.unordered(ctx, workers)
}

func (f *flow) serial(ctx context.Context) error {
	for {
		b, what := f.in.next(ctx, nil)
		switch what {
		case stopped:
			return context.Cause(ctx)
		case ended:
			return f.out.finish(ctx)
		}
		if err := f.apply(ctx, b); err != nil {
			return err
		}
		if err := f.out.send(ctx, b); err != nil {
			return err
		}
	}
}

// unordered lets every goroutine pass its batches on by itself.
func (f *flow) unordered(ctx context.Context, workers int) error {
	work := make(chan *batch)
	var done sync.WaitGroup
	for range workers {
		done.Add(1)
		f.seg.spawn(f.out.node, func() error {
			defer done.Done()
			for b := range work {
				if err := f.apply(ctx, b); err != nil {
					return err
				}
				if err := f.out.send(ctx, b); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err := f.feed(ctx, func(b *batch) bool { return offer(ctx, work, b) })
	close(work)
	done.Wait()
	if err != nil {
		return err
	}
	return f.out.finish(ctx)
}

// job is a batch that a goroutine works on while its place in the order is kept.
type job struct {
	batch *batch
	done  chan struct{}
}

// ordered lets several goroutines work and passes their batches on as they came.
func (f *flow) ordered(ctx context.Context, workers int) error {
	work, order := make(chan job), make(chan job, workers)
	for range workers {
		f.seg.spawn(f.out.node, func() error {
			for j := range work {
				if err := f.apply(ctx, j.batch); err != nil {
					return err
				}
				j.done <- struct{}{}
			}
			return nil
		})
	}
	f.seg.spawn(f.out.node, func() error { return f.collect(ctx, order) })
	ring := make([]chan struct{}, workers+3) // more than the jobs under way
	for i := range ring {
		ring[i] = make(chan struct{}, 1)
	}
	turn := 0
	err := f.feed(ctx, func(b *batch) bool {
		turn++
		j := job{b, ring[turn%len(ring)]}
		return offer(ctx, order, j) && offer(ctx, work, j)
	})
	close(work)
	close(order)
	return err
}

func offer[T any](ctx context.Context, to chan<- T, v T) bool {
	select {
	case to <- v:
		return true
	case <-ctx.Done():
		return false
	}
}

// collect passes batches on in order.
func (f *flow) collect(ctx context.Context, order <-chan job) error {
	for j := range order {
		select {
		case <-j.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := f.out.send(ctx, j.batch); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return f.out.finish(ctx)
}

// feed gives all batches to take, until it reports false as the context is done.
func (f *flow) feed(ctx context.Context, take func(*batch) bool) error {
	for {
		b, what := f.in.next(ctx, nil)
		if what == ended {
			return nil
		}
		if what == stopped || !take(b) {
			return context.Cause(ctx)
		}
	}
}

// apply runs the stage's work on a batch.
func (f *flow) apply(ctx context.Context, b *batch) error {
	if f.intake != nil {
		f.intake.counts.parsing.Add(1)
		err := f.parseBatch(b)
		f.intake.counts.parsing.Add(-1)
		if err != nil {
			return err
		}
	} else if err := f.in.merge(b); err != nil {
		return err
	}
	for i, n := range f.nodes {
		if i > 0 { // the last one's are counted where they are sent
			f.nodes[i-1].counts.out.Add(int64(len(b.items)))
		} else if f.intake != nil {
			f.intake.counts.out.Add(int64(len(b.items)))
		}
		if err := f.modify(ctx, n, b); err != nil {
			return err
		}
	}
	return nil
}

// parseBatch parses the texts of a source and gives every item its key.
func (f *flow) parseBatch(b *batch) error {
	kept := b.items[:0]
	for _, it := range b.items {
		if it.Value == nil {
			if err := it.Parse(); err != nil {
				key := xxh3.Hash128(it.raw).Bytes()
				it.origin.marks = it.origin.root.mark("", "", it.Place, key[:])
				if _, _, err := f.seg.sought.matchItem(it.origin.root, it.origin.marks, ""); err != nil {
					return err
				}
				f.seg.failItem(f.intake, it, err)
				continue
			}
		}
		if f.seg.keyed {
			it.origin.key = xxh3.Hash128(it.Bytes()).Bytes()
			it.origin.marks = markItem(it, it.origin.key[:])
		}
		kept = append(kept, it)
	}
	clear(b.items[len(kept):])
	b.items = kept
	return nil
}

// modify lets a modifier change the items of a batch.
func (f *flow) modify(ctx context.Context, n *node, b *batch) (err error) {
	defer f.seg.rescue(n, &err)
	n.counts.working.Add(1)
	defer n.counts.working.Add(-1)
	n.counts.in.Add(int64(len(b.items)))
	m := n.opened.(Modifier)
	kept, dropped := b.items[:0], int64(0)
	for i, it := range b.items {
		if i&15 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		from := it.origin
		place := it.Place
		out, err := m.Modify(ctx, it)
		if err == nil && out != nil && out.Value == nil {
			err = out.Parse()
		}
		switch {
		case err != nil && ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && aborts(err):
			return &member{n, err}
		case err != nil:
			if it.Value == nil { // the module has taken it apart
				it = &Item{Place: place}
			}
			it.origin = from
			if err := f.seg.failItem(n, it, err); err != nil {
				return err
			}
		case out != nil:
			if out != it || out.origin.root == nil { // another, or put in its place
				out.origin = from
			}
			kept = append(kept, out)
		default:
			dropped++
		}
	}
	if dropped > 0 {
		n.counts.dropped.Add(dropped)
	}
	clear(b.items[len(kept):])
	b.items = kept
	return nil
}
