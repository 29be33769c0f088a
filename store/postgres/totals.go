package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

// Totals counts executions. It looks at an entry of an index for each that has ended.
func (s *Store) Totals(ctx context.Context, since time.Time) (*store.Totals, error) {
	t, from := &store.Totals{Executions: map[string]int64{}, Since: map[string]int64{}}, int64(0)
	if !since.IsZero() {
		from = since.UnixMicro()
	}
	rows, err := s.pool.Query(ctx, `SELECT status, count(*), count(*) FILTER (WHERE ended >= $1), coalesce(sum(ended - coalesce(started, created)) FILTER (WHERE ended >= $1), 0)::bigint
FROM execution_past GROUP BY status
UNION ALL SELECT status, count(*), 0, 0 FROM execution_live GROUP BY status`, from)
	if err != nil {
		return nil, fault("read", err)
	}
	var status stepwell.ExecutionStatus
	var count, recent, micros int64
	_, err = pgx.ForEachRow(rows, []any{&status, &count, &recent, &micros}, func() error {
		t.Executions[status.String()] += count
		if recent > 0 {
			t.Since[status.String()] = recent
		}
		if status == stepwell.ExecutionCompleted {
			t.Completed, t.Durations = recent, time.Duration(micros)*time.Microsecond
		}
		return nil
	})
	if err != nil {
		return nil, fault("read", err)
	}
	return t, nil
}
