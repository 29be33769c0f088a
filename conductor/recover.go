package conductor

import (
	"context"
	"fmt"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// Recover takes up an unfinished execution: its state is rebuilt from the step log, attempts in flight are dispatched
// again (a step that must not run twice fails instead), timers go on. No other process may run it. It does nothing
// for a terminal or loaded execution, and may be called twice at once. If the log does not lead to the recorded state
// (*engine.Diverged), or cannot be read for another reason that does not pass, the execution is held: its row says why, and only Cancel
// changes it.
func (c *Conductor) Recover(ctx context.Context, id string) error {
	return c.holdBack(ctx, id, c.send(ctx, id, engine.Event{}))
}

// find returns an execution in memory and loads it if need be. An ended one is nil, with its status, unless ended is set.
//
// One caller at a time loads it; meanwhile it does not run, so that the loaded state is the last commit.
func (c *Conductor) find(ctx context.Context, id string, ended bool) (*live, stepwell.ExecutionStatus, error) {
	for {
		if l := c.live(id); l != nil {
			return l, 0, nil
		}
		row, err := c.o.Store.Execution(ctx, id) // id may be the beginning of one
		if err != nil {
			return nil, 0, err
		}
		id = row.ID
		if c.beginLoading(id) {
			l, status, err := c.bring(ctx, id, ended)
			c.endLoading(id, l)
			return l, status, err
		}
		c.mu.Lock()
		busy := c.loading[id]
		c.mu.Unlock()
		if busy == nil {
			continue // it is there by now
		}
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, 0, context.Cause(ctx)
		}
	}
}

// beginLoading reports whether the caller is to load an execution: it is not in memory, and no other caller loads it.
func (c *Conductor) beginLoading(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.loading[id] != nil || c.byID[id] != nil {
		return false
	}
	c.loading[id] = make(chan struct{})
	return true
}

// endLoading publishes a loaded execution; nil: none was loaded.
func (c *Conductor) endLoading(id string, l *live) {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.loading[id])
	delete(c.loading, id)
	if l != nil {
		c.byID[id] = l
	}
}

// bring loads an execution for find.
func (c *Conductor) bring(ctx context.Context, id string, ended bool) (*live, stepwell.ExecutionStatus, error) {
	row, err := c.o.Store.Execution(ctx, id)
	if err != nil {
		return nil, 0, err
	}
	if row.Status.Terminal() && !ended {
		return nil, row.Status, nil
	}
	if err := c.o.Owners.Mine(ctx, id); err != nil {
		return nil, 0, err
	}
	l, err := c.rebuild(ctx, row, 0)
	err = holding(err)
	if err == nil && l.run.Status().Terminal() && !ended { // by another process, since its row was read
		return nil, l.run.Status(), nil
	}
	return l, row.Status, err
}

// rebuild folds the step log of an execution into a run, up to a version; 0: all of it.
func (c *Conductor) rebuild(ctx context.Context, row *store.Execution, until int64) (*live, error) {
	l, err := c.fresh(ctx, row)
	if err != nil {
		return nil, err
	}
	if err := c.replay(ctx, l, row, until, nil); err != nil {
		return nil, err
	}
	return l, nil
}

// fresh makes the run of an execution that exists, before its first event.
func (c *Conductor) fresh(ctx context.Context, row *store.Execution) (*live, error) {
	p, err := c.snapshot(ctx, row.Definition)
	if err != nil {
		return nil, fmt.Errorf("execution %s: %w", row.ID, err)
	}
	l := &live{run: engine.New(p.plan, row.No, row.ID), row: *row, done: make(chan struct{}), pipeline: p, rebuilt: true}
	l.run.Dir = row.Dir
	c.knowParams(row)
	return l, nil
}

// replay folds the step log of an execution into its run, up to a version; 0: all of it. each, unless it is nil, sees every commit
// with its effects, and keeps nothing of them.
func (c *Conductor) replay(ctx context.Context, l *live, row *store.Execution, until int64, each func(*engine.Batch, *engine.Effects)) error {
	var fx engine.Effects
	var b engine.Batch
	for entry, err := range c.o.Store.StepLog(ctx, row.No, 0) {
		if err != nil {
			return fmt.Errorf("execution %s: %w", row.ID, err)
		}
		if err := c.fold(ctx, l, entry, &b, &fx); err != nil {
			return fmt.Errorf("execution %s, version %d: %w", row.ID, entry.Version, err)
		}
		if each != nil {
			each(&b, &fx)
		}
		if l.version == until {
			break
		}
	}
	if l.version == 0 {
		return damaged(row.ID, "is empty")
	}
	return nil
}

func damaged(id, how string) error {
	return &stepwell.Error{Code: stepwell.CodeInternal, Message: "the step log of execution " + id + " " + how,
		Hint: "restore the database from a copy"}
}

// fold reads an entry into b and folds it.
func (c *Conductor) fold(ctx context.Context, l *live, entry store.LogEntry, b *engine.Batch, fx *engine.Effects) error {
	if entry.Version != l.version+1 {
		return damaged(l.run.ID, fmt.Sprintf("has a gap after version %d", l.version))
	}
	if err := b.Decode(entry.Version, entry.Body); err != nil {
		return err
	}
	for i := range b.Events {
		if err := c.load(ctx, &b.Events[i]); err != nil {
			return err
		}
	}
	fx.Reset()
	l.version = entry.Version
	return l.run.Replay(b, fx)
}

// load fetches the outputs that an event's record only refers to.
func (c *Conductor) load(ctx context.Context, ev *engine.Event) (err error) {
	ref := ev.Output
	if ev.Wait != nil {
		ref = ev.Wait.Output
	}
	if engine.IsRef(ref) {
		if ev.Loaded, err = c.o.Blobs.Load(ctx, string(ref)); err != nil {
			return err
		}
	}
	for i := range ev.Parts {
		if part := &ev.Parts[i]; engine.IsRef(part.Output) {
			if part.Loaded, err = c.o.Blobs.Load(ctx, string(part.Output)); err != nil {
				return err
			}
		}
	}
	if ev.Begin == nil {
		return c.loadSeeds(ctx, ev.Seeds)
	}
	if ev.Begin.Revision > engine.Revision {
		return &newerError{ev.Begin.Revision}
	}
	if ev.Begin.Revision < 2 { // it does not say which are read
		for i := range ev.Begin.Seeds {
			ev.Begin.Seeds[i].Read = true
		}
	}
	return c.loadSeeds(ctx, ev.Begin.Seeds)
}

// loadSeeds fetches the outputs that templates read and that a seed only refers to.
func (c *Conductor) loadSeeds(ctx context.Context, seeds []engine.Seed) (err error) {
	for i := range seeds {
		if s := &seeds[i]; s.Read && engine.IsRef([]byte(s.Output)) {
			if s.Loaded, err = c.o.Blobs.Load(ctx, s.Output); err != nil {
				return err
			}
		}
	}
	return nil
}
