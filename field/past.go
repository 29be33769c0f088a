package field

import (
	"context"
	"slices"
	"time"

	"github.com/stepwell/stepwell/store"
)

// Past is an execution as it was after one of its commits, with its table.
type Past struct {
	*store.Past
	Table *Table
}

// step returns the state of a step; nil: it had neither a row nor been queued.
func (p *Past) step(idx int32) *store.Step {
	at, ok := slices.BinarySearchFunc(p.Steps, idx, func(s store.Step, idx int32) int { return int(s.Idx) - int(idx) })
	if !ok {
		return nil
	}
	return &p.Steps[at]
}

// perPast is the memory of a step of a Past in bytes besides its table, without the text of errors.
const perPast = 400

// At returns an execution, whose row the caller has read, after the commit with a version, or after the last one up to a time; the
// earlier of both where both are given, and 0 or the zero time for none. Unless it is kept the log is folded up to there.
// As many are kept as fit into a quarter of Options.Bytes.
func (h *Hub) At(ctx context.Context, x *store.Execution, version int64, at time.Time) (*Past, error) {
	if at.IsZero() {
		if p := h.past.find(x.No, version, version); p != nil {
			return p, nil
		}
	}
	if err := h.builds.Acquire(ctx, 1); err != nil {
		return nil, context.Cause(ctx)
	}
	defer h.builds.Release(1)
	if at.IsZero() {
		if p := h.past.find(x.No, version, version); p != nil {
			return p, nil // somebody else has made it meanwhile
		}
	}
	s, err := h.shapeOf(ctx, x.Definition)
	if err != nil {
		return nil, err
	}
	moment, err := h.o.Past(ctx, x.ID, version, at)
	if err != nil {
		return nil, err
	}
	now, err := h.o.Store.States(ctx, x.No, nil)
	if err != nil {
		return nil, err
	}
	states := make([]store.StepState, len(moment.Steps))
	for i := range moment.Steps {
		r := &moment.Steps[i]
		for len(now) > 0 && now[0].Idx < r.Idx {
			now = now[1:]
		}
		if len(now) > 0 && now[0].Idx == r.Idx && now[0].Started == r.Started && now[0].Attempt == r.Attempt {
			r.Worker = now[0].Worker // which the log does not name, the row does
		}
		states[i] = store.StateOf(&r.StepRow)
	}
	p := &Past{Past: moment, Table: newTable(x, s, states)}
	p.Table.Version, p.Table.at = moment.Version, moment.At.UnixMilli()
	h.past.keep(x.No, p.Version, p, p.Table.size()+perPast*len(moment.Steps), h.o.Bytes/4)
	return p, nil
}

// Rows returns steps that were found in the table, in the order in which they were found.
func (p *Past) Rows(found []Found) []store.Step {
	out := make([]store.Step, len(found))
	for i, s := range found {
		if row := p.step(s.Index); row != nil {
			out[i] = *row
		}
		out[i].Idx, out[i].Key, out[i].Status = s.Index, s.Key, s.Status
	}
	return out
}
