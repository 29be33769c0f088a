package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

const stateColumns = `SELECT idx, version, status, attempt, coalesce(worker, ''), coalesce(queued, 0), coalesce(started, 0), coalesce(ended, 0), coalesce(key, ''),
    CASE WHEN rare LIKE '%"c":%' THEN rare ELSE NULL END, superseded IS NOT NULL FROM step WHERE execution = $1`

// States implements store.StateReader.
func (s *Store) States(ctx context.Context, execution int64, of []int32) (out []store.StepState, err error) {
	names := map[string]string{} // of workers: each is kept once
	err = s.snapshot(ctx, func(tx pgx.Tx) error {
		query, args := stateColumns+` ORDER BY idx`, []any{execution}
		var p stepList
		if of != nil {
			query, args = stateColumns+` AND idx = ANY ($2) ORDER BY idx`, append(args, of)
		} else {
			var running bool
			err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM execution WHERE no = $1 AND status < 4)`, execution).Scan(&running)
			if err != nil {
				return err
			}
			p.execution = execution
			if running {
				if err := p.queued(ctx, tx); err != nil {
					return err
				}
			}
		}
		rows, err := tx.Query(ctx, query, args...)
		if err != nil {
			return err
		}
		out = nil
		var x store.StepState
		var worker, key text
		var rare value
		_, err = pgx.ForEachRow(rows, []any{&x.Idx, &x.Version, &x.Status, &x.Attempt, &worker, &x.Queued, &x.Started, &x.Ended, &key, &rare, &x.Superseded}, func() error {
			known, ok := names[string(worker)]
			if !ok {
				known = string(worker)
				names[known] = known
			}
			x.Worker, x.Key = known, string(key)
			var extra engine.StepRow
			err := store.DecodeExtra(rare, &extra)
			x.Cost = extra.Cost
			out = append(out, x)
			return err
		})
		out = store.WithQueued(out, p.runs, engine.MaxSteps)
		return err
	})
	return out, err
}
