package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"

	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// States implements store.StateReader. The queued lists are read first: a step that is dispatched meanwhile has a newer row.
func (s *Store) States(ctx context.Context, execution int64, of []int32) ([]store.StepState, error) {
	names := map[string]string{} // of workers: each is kept once
	scan := func(rows *sql.Rows, x *store.StepState) error {
		var worker, key sql.RawBytes
		var queued, started, ended, cost sql.NullInt64
		var old sql.NullBool
		if err := rows.Scan(&x.Idx, &x.Version, &x.Status, &x.Attempt, &worker, &queued, &started, &ended, &key, &cost, &old); err != nil {
			return err
		}
		known, ok := names[string(worker)]
		if !ok {
			known = string(worker)
			names[known] = known
		}
		x.Worker, x.Key, x.Superseded = known, string(key), old.Bool
		x.Queued, x.Started, x.Ended, x.Cost = queued.Int64, started.Int64, ended.Int64, cost.Int64
		return nil
	}
	if of != nil {
		some, err := json.Marshal(of)
		if err != nil {
			return nil, err
		}
		return list(ctx, s, scan, s.sql["states_of"], execution, string(some))
	}
	runs, err := list(ctx, s, func(rows *sql.Rows, r *store.QueuedRun) error {
		return rows.Scan(&r.First, &r.End, &r.Version, &r.At)
	}, s.sql["queued"], execution)
	if err != nil {
		return nil, err
	}
	states, err := list(ctx, s, scan, s.sql["states"], execution)
	return store.WithQueued(states, runs, engine.MaxSteps), err
}
