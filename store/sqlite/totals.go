package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

// Totals counts executions. It looks at an entry of an index for each: a tenth of a second for a million.
func (s *Store) Totals(ctx context.Context, since time.Time) (*store.Totals, error) {
	t := &store.Totals{Executions: map[string]int64{}, Since: map[string]int64{}}
	from := int64(0)
	if !since.IsZero() {
		from = since.UnixMicro()
	}
	err := s.each(ctx, func(rows *sql.Rows) error {
		var status stepwell.ExecutionStatus
		var count, recent, micros int64
		if err := rows.Scan(&status, &count, &recent, &micros); err != nil {
			return err
		}
		t.Executions[status.String()] = count
		if recent > 0 {
			t.Since[status.String()] = recent
		}
		if status == stepwell.ExecutionCompleted {
			t.Completed, t.Durations = recent, time.Duration(micros)*time.Microsecond
		}
		return nil
	}, s.sql["totals"], from)
	if err != nil {
		return nil, fault("read "+s.path, err)
	}
	return t, nil
}
