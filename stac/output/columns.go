package output

import (
	"context"
	"errors"
	"slices"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/stream/durable"
	"github.com/stepwell/stepwell/stream/parquet"
)

// The columns of all parts of a unit agree when read together: a part begins with the columns of all before it. So the
// items of an earlier run fit behind those of this one.

// known are the columns that a unit's next part begins with.
func (t *table) known(ctx context.Context, u *unit) (parquet.Schema, error) {
	s, ok := t.columns[u.number]
	if !ok {
		var there []lying
		if t.policy.Mode != durable.Replace || t.later {
			var err error
			if there, err = t.lying(ctx, u); err != nil {
				return nil, err
			}
		}
		there = slices.Clip(there) // of the cache
		for _, p := range u.Own {
			there = append(there, lying{part: p, local: t.made(u, p.Number)})
		}
		for _, p := range there {
			_, more, err := parquet.Describe(p.local)
			if err != nil {
				return nil, err
			}
			s = s.Join(more)
		}
	}
	if n := len(u.Spooled); n > 0 {
		s = s.Join(u.live[u.Spooled[n-1].Number].Schema())
	}
	t.columns[u.number] = s
	return s, nil
}

// explain adds a hint for an item whose types are not those of its column.
func explain(err error) error {
	if row, ok := errors.AsType[*parquet.RowError](err); ok && row.Mixed {
		return &stepwell.Error{Code: stepwell.CodeInvalid, Err: err,
			Hint: "the items before, also those of earlier runs, say what a column holds; mixed_types: json makes it JSON text where items disagree"}
	}
	return err
}
