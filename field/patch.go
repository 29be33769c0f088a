package field

import (
	"context"
	"maps"
	"slices"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// patchShare is the part of the steps beyond which a table is made anew instead of being patched: a fifth.
const patchShare = 5

// change is what commits have done to steps.
type change struct {
	version int64 // of the last of them
	touched map[int32]bool
	queued  map[int32]store.QueuedRun
	rest    bool // anything may have changed
}

// changes reads what came after a version, up to another one at least, unless it is more than so many steps.
func (h *Hub) changes(ctx context.Context, no, after, until int64, most int) (*change, error) {
	c := &change{version: after, touched: map[int32]bool{}, queued: map[int32]store.QueuedRun{}}
	for c.version < until && !c.rest {
		events, err := h.o.Store.Events(ctx, no, c.version, 10_000)
		if err != nil || len(events) == 0 {
			c.version = max(c.version, until) // the last versions have no events
			return c, err
		}
		for i := range events {
			c.add(&events[i])
		}
		c.version = events[len(events)-1].Version
		c.rest = c.rest || len(c.touched) > most
	}
	return c, nil
}

func (c *change) add(e *engine.HistoryEvent) {
	switch {
	case e.Step < 0:
		c.rest = c.rest || e.Type == "start" || e.Type == "restart" || e.Type == "recovered" || e.Type == "admitted"
	case e.Type == "queued":
		c.queued[e.Step] = store.QueuedRun{Version: e.Version, At: e.At.UnixMicro()}
		fallthrough
	default:
		c.touched[e.Step] = true
	}
}

// patch makes a table of the one before and what later commits have changed; nil when a new one costs less.
func (h *Hub) patch(ctx context.Context, x *store.Execution, before *Table) (*Table, error) {
	c, err := h.changes(ctx, x.No, before.Version, x.Version, max(1000, before.Len()/patchShare))
	if err != nil || c.rest || origin(x) != before.began {
		return nil, err
	}
	before.mu.Lock()
	defer before.mu.Unlock()
	t := before.copied()
	t.Version = max(x.Version, c.version)
	if err := h.apply(ctx, x.No, t, c); err != nil {
		return nil, err
	}
	if x.Status.Terminal() && slices.Contains(t.status, uint8(stepwell.StepQueued)) {
		return nil, nil // what never got a row is no step of an execution that has ended: which that is, the store says
	}
	return t, nil
}

// begun touches the steps with others inside that have not begun in a table, when a step has been queued that is not known yet:
// it may be inside one of them.
func (c *change) begun(t *Table) {
	known := func(idx int32) bool { return int(idx) < t.Len() && t.node[idx] != nowhere }
	for idx := range c.queued {
		if known(idx) {
			continue
		}
		for i := range int32(t.Len()) {
			if t.status[i] == uint8(stepwell.StepPending) && t.container(i) {
				c.touched[i] = true
			}
		}
		return
	}
}

// apply reads the rows of the touched steps anew, and of those around them: a group begins without an event of its own.
func (h *Hub) apply(ctx context.Context, no int64, t *Table, c *change) error {
	c.begun(t)
	for list := slices.Sorted(maps.Keys(c.touched)); len(list) > 0; {
		t.grow(int(list[len(list)-1]) + 1)
		states, err := h.o.Store.States(ctx, no, list)
		if err != nil {
			return err
		}
		for i := range states {
			q := c.queued[states[i].Idx]
			states[i].Requeue(q.Version, q.At)
			t.set(&states[i])
			delete(c.queued, states[i].Idx)
		}
		var around []int32
		for _, idx := range list {
			if parent := int32(t.parent[idx]) - 1; parent >= 0 && !c.touched[parent] {
				c.touched[parent] = true
				around = append(around, parent)
			}
		}
		slices.Sort(around)
		list = around
	}
	for idx, q := range c.queued { // without a row
		t.set(&store.StepState{Idx: idx, Version: q.Version, Status: stepwell.StepQueued, Queued: q.At})
	}
	return nil
}
