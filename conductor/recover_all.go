package conductor

import (
	"context"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// recoverers is how many executions are folded at once, and claimBatch how many are taken up in one turn.
const (
	recoverers = 8
	claimBatch = 500
)

// RecoverAll takes up every unfinished execution without an owner (Recover, Options.Owner). Paused ones stay paused.
// Held ones, and new starts with a concurrency key, wait until all are loaded. A failure is logged with the
// execution's id and does not stop the others.
func (c *Conductor) RecoverAll(ctx context.Context) error {
	c.mu.Lock()
	if c.recovering == nil {
		c.recovering = make(chan struct{})
	}
	c.recoveries++
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.recoveries--; c.recoveries == 0 {
			close(c.recovering)
			c.recovering = nil
		}
	}()
	if err := c.inLoop(ctx, func() error { c.admission.suspended++; return nil }); err != nil {
		return err
	}
	err := c.recoverList(ctx)
	return firstError(err, c.inLoop(context.WithoutCancel(ctx), func() error {
		c.admission.suspended--
		c.more = true
		return nil
	}))
}

func (c *Conductor) recoverList(ctx context.Context) error {
	for {
		list, err := c.o.Store.Claim(ctx, c.o.Owner, claimBatch)
		if err != nil {
			return err
		}
		c.recoverBatch(ctx, list)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case c.Stopped():
			return c.stopped()
		case len(list) < claimBatch:
			return nil
		}
	}
}

// recoverBatch reads the logs of many executions at once and takes them up in one turn of the loop. An execution
// whose log cannot be read so is recovered by itself; failures are logged.
func (c *Conductor) recoverBatch(ctx context.Context, list []store.Execution) {
	batch := map[int64]*live{}
	for i := range list {
		x := &list[i]
		if !c.beginLoading(x.ID) {
			continue
		}
		err := c.o.Owners.Mine(ctx, x.ID)
		if err == nil {
			batch[x.No], err = c.fresh(ctx, x)
		}
		if err != nil {
			delete(batch, x.No)
			c.endLoading(x.ID, nil)
		}
	}
	c.replayAll(ctx, batch)
	replies := make(chan error, len(batch))
	for _, no := range slices.Sorted(maps.Keys(batch)) { // in order, so that a Stepped conductor decides alike each time
		l := batch[no]
		if l.version != l.row.Version || l.refused != nil {
			c.endLoading(l.run.ID, nil)
			delete(batch, no)
			replies <- nil
			continue
		}
		c.endLoading(l.run.ID, l)
		if err := c.inbox.put(item{run: no, on: l, reply: replies}); err != nil {
			replies <- err
		}
	}
	if err := c.await(ctx, replies); err != nil && !c.ending(ctx) {
		c.o.Log.Error("executions cannot be taken up again", "error", err)
	}
	var rest errgroup.Group
	rest.SetLimit(recoverers)
	for i := range list {
		x := &list[i]
		if batch[x.No] != nil {
			continue
		}
		rest.Go(func() error {
			if err := c.recoverOne(ctx, x.ID); err != nil && !c.ending(ctx) {
				c.o.Log.Error("an execution cannot be taken up again", "execution", x.ID, "pipeline", x.Pipeline, "error", err)
			}
			return nil
		})
	}
	_ = rest.Wait() // none returns an error
}

func (c *Conductor) ending(ctx context.Context) bool { return ctx.Err() != nil || c.Stopped() }

// replayAll folds the logs of a batch: one reader, and a goroutine for each execution, a few at once. Afterwards
// refused has the errors; an execution not read to its end has an earlier version than its row.
func (c *Conductor) replayAll(ctx context.Context, batch map[int64]*live) {
	var folding errgroup.Group
	folding.SetLimit(recoverers)
	at, entries := int64(0), make(chan store.LogEntry)
	for e, err := range c.o.Store.StepLogs(ctx, slices.Sorted(maps.Keys(batch))) {
		if err != nil {
			break // recovering each by itself finds the error
		}
		if at != e.Execution {
			close(entries)
			l, log := batch[e.Execution], make(chan store.LogEntry, 16)
			folding.Go(func() error { l.refused = c.foldAll(ctx, l, log); return nil })
			at, entries = e.Execution, log
		}
		entries <- e
	}
	close(entries)
	_ = folding.Wait() // none returns an error
}

func (c *Conductor) foldAll(ctx context.Context, l *live, entries <-chan store.LogEntry) (err error) {
	var fx engine.Effects
	var b engine.Batch
	for e := range entries { // to the end, so that the reader goes on
		if err == nil {
			err = c.fold(ctx, l, e, &b, &fx)
		}
	}
	return err
}

// recoverOne takes an execution up. While the store is away it is read again: only that, as the loop, which would take
// it up, waits for the store meanwhile.
func (c *Conductor) recoverOne(ctx context.Context, id string) error {
	err := c.o.Outage.Retry(ctx, func() error {
		_, _, err := c.find(ctx, id, false)
		return err
	})
	if err != nil {
		return c.holdBack(ctx, id, err)
	}
	return c.Recover(ctx, id)
}

// recovery waits until no RecoverAll goes on.
func (c *Conductor) recovery(ctx context.Context) error {
	c.mu.Lock()
	busy := c.recovering
	c.mu.Unlock()
	if busy == nil {
		return nil
	}
	select {
	case <-busy:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.stop:
		return c.stopped()
	}
}
