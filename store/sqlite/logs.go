package sqlite

import (
	"context"
	"database/sql"

	"github.com/stepwell/stepwell/store"
)

// Logs lists log lines in order. With Tail, the last ones that match the filter.
func (s *Store) Logs(ctx context.Context, execution int64, f store.LogFilter) ([]store.LogLine, error) {
	least, since, n, tail, err := f.Bounds()
	if err != nil {
		return nil, err
	}
	query := s.sql["logs"]
	if tail {
		query = s.sql["logs_tail"]
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
