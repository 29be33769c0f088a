package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// States implements store.StateReader. The queued lists are read first: a step that is dispatched meanwhile has a newer row.
func (s *Store) States(ctx context.Context, execution int64, of []int32) ([]store.StepState, error) {
	names := map[string]string{} // of workers: each is kept once
	scan := func(rows *sql.Rows, x *store.StepState) error {
		var worker, rare sql.RawBytes
		var idx, status, attempt int64 // database/sql converts to other types by way of text
		if err := rows.Scan(&idx, &x.Version, &status, &attempt, &worker, &x.Queued, &x.Started, &x.Ended, &rare); err != nil {
			return err
		}
		known, ok := names[string(worker)]
		if !ok {
			known = string(worker)
			names[known] = known
		}
		x.Idx, x.Status, x.Attempt, x.Worker = int32(idx), stepwell.StepStatus(status), int(attempt), known
		return x.SetExtra(rare)
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
	var end int
	err = s.each(ctx, func(rows *sql.Rows) error { return rows.Scan(&end) }, s.sql["states_end"], execution)
	if err != nil {
		return nil, fault("read "+s.path, err)
	}
	states := make([]store.StepState, 0, end) // a list that grows costs a quarter of the time
	if err = s.each(ctx, into(&states, scan), s.sql["states"], execution); err != nil {
		return nil, fault("read "+s.path, err)
	}
	return store.WithQueued(states, runs, engine.MaxSteps), nil
}
