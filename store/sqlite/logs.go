package sqlite

import (
	"context"
	"database/sql"
	"math"

	"github.com/stepwell/stepwell/store"
)

// Logs lists log lines in order. With Tail, the last ones that match the filter.
func (s *Store) Logs(ctx context.Context, execution int64, f store.LogFilter) ([]store.LogLine, error) {
	least := 0
	if f.Level != "" {
		var err error
		if least, err = store.LevelNumber(f.Level); err != nil {
			return nil, err
		}
	}
	since := int64(math.MinInt64)
	if !f.Since.IsZero() {
		since = f.Since.UnixMicro()
	}
	query, n := s.sql["logs"], limit(f.Limit, 1000, 10_000)
	if f.Tail > 0 {
		query, n = s.sql["logs_tail"], min(f.Tail, 10_000)
	}
	return list(ctx, s, func(rows *sql.Rows, l *store.LogLine) error {
		var at sql.NullInt64
		var level int
		var attrs []byte
		err := rows.Scan(&l.Seq, &l.Execution, &l.Step, &l.StepKey, &l.Attempt, &at, &level, &l.Message, &attrs)
		l.At, l.Level, l.Attrs = instant(at), store.LevelName(level), attrs
		return err
	}, query, execution, f.After, least, since, f.StepKey, n)
}
