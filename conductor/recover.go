package conductor

import (
	"context"
	"fmt"

	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// Recover takes up an execution that a process has left unfinished: its state is rebuilt from the
// step log, what was in flight is dispatched again (a step that must not run twice fails instead),
// timers go on. It must only be called for executions that no other process runs. It does nothing
// for one that is terminal or in memory already.
func (c *Conductor) Recover(ctx context.Context, id string) error {
	l, err := c.ensure(ctx, id)
	if err != nil || l == nil || l.run.Status().Terminal() {
		return err
	}
	return c.ask(ctx, item{run: l.run.No, adopt: l, ev: engine.Event{Kind: engine.Recovered, At: c.now()}})
}

// ensure brings an execution into memory. One that is there already is nil: its items need no
// adoption.
func (c *Conductor) ensure(ctx context.Context, id string) (*live, error) {
	if c.live(id) != nil {
		return nil, nil
	}
	row, err := c.o.Store.Execution(ctx, id)
	if err != nil {
		return nil, err
	}
	l, err := c.rebuild(ctx, row)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byID[row.ID] != nil {
		return nil, nil
	}
	c.byID[row.ID] = l
	return l, nil
}

// rebuild folds the step log of an execution into a run.
func (c *Conductor) rebuild(ctx context.Context, row *store.Execution) (*live, error) {
	p, err := c.snapshot(ctx, row.Definition)
	if err != nil {
		return nil, fmt.Errorf("execution %s: %w", row.ID, err)
	}
	l := &live{run: engine.New(p.plan, row.No, row.ID), row: *row, done: make(chan struct{}), pipeline: p, rebuilt: true}
	l.run.Dir = row.Dir
	var fx engine.Effects
	for entry, err := range c.o.Store.StepLog(ctx, row.No, 0) {
		if err != nil {
			return nil, fmt.Errorf("execution %s: %w", row.ID, err)
		}
		if err := c.fold(ctx, l, entry, &fx); err != nil {
			return nil, fmt.Errorf("execution %s, version %d: %w", row.ID, entry.Version, err)
		}
	}
	return l, nil
}

func (c *Conductor) fold(ctx context.Context, l *live, entry store.LogEntry, fx *engine.Effects) error {
	b, err := engine.DecodeBatch(entry.Body)
	if err != nil {
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
	if engine.IsRef(ev.Output) {
		if ev.Loaded, err = c.o.Blobs.Load(ctx, string(ev.Output)); err != nil {
			return err
		}
	}
	if ev.Begin == nil {
		return nil
	}
	return c.loadSeeds(ctx, ev.Begin.Seeds)
}

func (c *Conductor) loadSeeds(ctx context.Context, seeds []engine.Seed) (err error) {
	for i := range seeds {
		if s := &seeds[i]; engine.IsRef([]byte(s.Output)) {
			if s.Loaded, err = c.o.Blobs.Load(ctx, s.Output); err != nil {
				return err
			}
		}
	}
	return nil
}
