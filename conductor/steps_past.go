package conductor

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// StepsAt returns the states of an execution's steps at a moment, which is one of WhyAt and costs the same. The names of workers are
// not in the log, so they are missing.
func (c *Conductor) StepsAt(ctx context.Context, id string, version int64, at time.Time) (*store.Past, error) {
	row, err := c.o.Store.Execution(ctx, id)
	if err != nil {
		return nil, err
	}
	rows := pastRows{}
	var last int64
	l, err := c.past(ctx, row, version, at, false, func(b *engine.Batch, fx *engine.Effects) {
		last = b.At
		rows.add(b, fx)
	})
	if err != nil {
		return nil, err
	}
	p := &store.Past{Version: l.version, At: time.UnixMicro(last).UTC(), Status: l.run.Status(), Steps: make([]store.Step, 0, len(rows))}
	for _, idx := range slices.Sorted(maps.Keys(rows)) {
		s := rows[idx]
		if p.Status.Terminal() && s.unwritten {
			continue // a store lists steps without a row only while the execution runs
		}
		p.Steps = append(p.Steps, store.Step{StepRow: s.StepRow})
	}
	return p, nil
}

// Changes folds the step log of an execution, at the cost of StepsAt, and tells each the states that its commits have left steps in, as
// StepsAt gives them after that commit: in the order of commits, within one of indexes. Superseded says that the step is none any
// longer. at is the time of the commit in µs. It returns the last version.
func (c *Conductor) Changes(ctx context.Context, id string, each func(s store.StepState, at int64)) (int64, error) {
	row, err := c.o.Store.Execution(ctx, id)
	if err != nil {
		return 0, err
	}
	l, err := c.fresh(ctx, row)
	if err != nil {
		return 0, err
	}
	rows, over := pastRows{}, false
	err = c.replay(ctx, l, row, 0, func(b *engine.Batch, fx *engine.Effects) {
		changed := rows.add(b, fx)
		if now := l.run.Status().Terminal(); now != over {
			over = now
			for idx, row := range rows {
				if row.unwritten {
					changed = append(changed, idx)
				}
			}
		}
		slices.Sort(changed)
		for _, idx := range slices.Compact(changed) {
			s := store.StepState{Idx: idx, Superseded: true}
			if row := rows[idx]; row != nil && !(over && row.unwritten) {
				s = store.StateOf(&row.StepRow)
			}
			s.Version = l.version
			each(s, b.At)
		}
	})
	return l.version, err
}

// pastRows are the rows that a store would have written, by index, without those that are superseded.
type pastRows map[int32]*pastRow

type pastRow struct {
	engine.StepRow
	unwritten bool // it was queued, and has no row
}

// add applies the effects of a commit in the order in which a store does, and lists the indexes of what it has changed, some of them
// several times.
func (rows pastRows) add(b *engine.Batch, fx *engine.Effects) (changed []int32) {
	for i := range fx.Rows {
		row := &pastRow{StepRow: fx.Rows[i]}
		row.Counted = (&store.Step{StepRow: row.StepRow}).Items() // which may be in the output
		row.Output, row.Input, row.Again = nil, nil, false
		rows[row.Idx] = row
		changed = append(changed, row.Idx)
	}
	for _, gone := range fx.Superseded {
		maps.DeleteFunc(rows, func(idx int32, row *pastRow) bool {
			inner, ok := strings.CutPrefix(row.Key, gone.Key)
			ok = ok && row.Key != "" && idx < gone.Below && (gone.Self && inner == "" || inner != "" && (inner[0] == '.' || inner[0] == '['))
			if ok {
				changed = append(changed, idx)
			}
			return ok
		})
	}
	for _, idx := range b.Queued {
		row := rows[idx]
		if row == nil {
			row = &pastRow{StepRow: engine.StepRow{Idx: idx}, unwritten: true}
			rows[idx] = row
		}
		if !row.Status.Terminal() {
			row.Status, row.Queued = stepwell.StepQueued, b.At
			changed = append(changed, idx)
		}
	}
	return changed
}
