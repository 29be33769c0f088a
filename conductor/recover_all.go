package conductor

import (
	"context"
	"sync"

	"github.com/stepwell/stepwell/store"
)

// recoverers is how many executions are taken up at once.
const recoverers = 8

// RecoverAll takes up every execution that a process has left unfinished (Recover). Paused ones stay paused, and
// held ones held until there is room: nobody is admitted before all are there, and executions with a concurrency key
// wait to be started until then. One that cannot be taken up is logged with its id and does not stop the others.
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
	list, err := c.o.Store.Unfinished(ctx)
	if err != nil {
		return err
	}
	next := make(chan *store.Execution)
	var group sync.WaitGroup
	for range min(recoverers, len(list)) {
		group.Go(func() {
			for x := range next {
				if err := c.recoverOne(ctx, x.ID); err != nil && ctx.Err() == nil && !c.hasStopped() {
					c.o.Log.Error("an execution cannot be taken up again", "execution", x.ID, "pipeline", x.Pipeline, "error", err)
				}
			}
		})
	}
	for i := range list {
		if ctx.Err() != nil || c.hasStopped() {
			break
		}
		next <- &list[i]
	}
	close(next)
	group.Wait()
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case c.hasStopped():
		return c.stopped()
	}
	return nil
}

// recoverOne takes an execution up. While the store is away it is read again: only that, as the loop, which would take
// it up, waits for the store meanwhile.
func (c *Conductor) recoverOne(ctx context.Context, id string) error {
	err := c.o.Outage.Retry(ctx, func() error {
		_, _, err := c.find(ctx, id, false)
		return err
	})
	if err != nil {
		return c.holdDiverged(ctx, id, err)
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
