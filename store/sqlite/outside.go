package sqlite

import (
	"context"
	"database/sql"
	"strings"

	"github.com/stepwell/stepwell/store"
)

// PutOutsideWork stores a row durably, or replaces it.
func (s *Store) PutOutsideWork(ctx context.Context, o store.OutsideWork) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.transaction("write to "+s.path, func(w *writer) error { return w.outside(&o) })
}

func (w *writer) outside(o *store.OutsideWork) error {
	if o.Held { // an attempt takes over its predecessors' work
		if err := w.run("outside_replaced", o.Execution, int64(o.Step), int64(o.Epoch)); err != nil {
			return err
		}
	}
	next := int64(0)
	if !o.Next.IsZero() {
		next = o.Next.UnixMicro()
	}
	return w.run("outside_put", o.Execution, int64(o.Step), int64(o.Epoch), int64(o.Attempt), o.StepKey, o.Action, blob(o.State),
		o.Since.UnixMicro(), o.Held, int64(o.Tries), next, text(o.Error))
}

// OutsideWork lists rows by execution, step and epoch.
func (s *Store) OutsideWork(ctx context.Context, execution int64, after store.OutsideWork, n int) (out []store.OutsideWork, err error) {
	out, err = list(ctx, s, func(rows *sql.Rows, o *store.OutsideWork) error {
		var state []byte
		var since, next sql.NullInt64
		var problem sql.NullString
		err := rows.Scan(&o.Execution, &o.Step, &o.Epoch, &o.Attempt, &o.StepKey, &o.Action, &state, &since, &o.Held, &o.Tries, &next, &problem,
			&o.ExecutionID, &o.Ended, &o.Completed)
		o.State, o.Since, o.Error = state, instant(since), problem.String
		if next.Int64 != 0 {
			o.Next = instant(next)
		}
		return err
	}, s.sql["outside"], execution, after.Execution, int64(after.Step), int64(after.Epoch), store.Limit(n, 1000, 10_000))
	if err != nil && strings.Contains(err.Error(), "no such table") { // a database of version 4 or older, open for reading
		return nil, nil
	}
	return out, err
}

// DeleteOutsideWork removes a row.
func (s *Store) DeleteOutsideWork(ctx context.Context, execution int64, step int32, epoch uint32) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.transaction("write to "+s.path, func(w *writer) error {
		return w.run("outside_delete", execution, int64(step), int64(epoch))
	})
}
