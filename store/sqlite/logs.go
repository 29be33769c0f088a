package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"math"
	"strings"

	"github.com/stepwell/stepwell/store"
)

// Logs lists log lines in order. With Tail, the last ones that match the filter.
func (s *Store) Logs(ctx context.Context, execution int64, f store.LogFilter) ([]store.LogLine, error) {
	least, since, until, n, tail, err := f.Bounds()
	if err != nil {
		return nil, err
	}
	name := "logs"
	if least > 1 { // above info: an index has them
		name = "logs_loud"
	}
	if tail {
		name += "_tail"
	}
	return list(ctx, s, func(rows *sql.Rows, l *store.LogLine) error {
		var at sql.NullInt64
		var level int
		var attrs []byte
		err := rows.Scan(&l.Seq, &l.Execution, &l.Step, &l.StepKey, &l.Attempt, &at, &level, &l.Message, &attrs)
		l.At, l.Level, l.Attrs = instant(at), store.LevelName(level), attrs
		return err
	}, s.sql[name], execution, f.After, least, since, f.StepKey, n, before(f.Before), until, f.Attempt)
}

// LogTexts implements store.Reader.
func (s *Store) LogTexts(ctx context.Context, execution int64, f store.LogFilter) (out store.LogTexts, err error) {
	least, since, until, limit, tail, err := f.Bounds()
	if err != nil {
		return out, err
	}
	order := ""
	if tail {
		order = "_tail"
	}
	var n int
	var joined string
	near := false
	if least == 0 && f.Since.IsZero() && f.Until.IsZero() && f.StepKey == "" && f.Attempt == 0 {
		ends, args := "logs_texts_ends"+order, []any{execution, f.After, before(f.Before), limit}
		if f.Before > 0 && f.Before-f.After-1 <= int64(limit) { // there cannot be more
			ends, args = "logs_texts_ends_all", args[:3]
		}
		err = s.each(ctx, func(rows *sql.Rows) error { return rows.Scan(&out.First, &out.Last) }, s.sql[ends], args...)
		near = out.Last-out.First < int64(limit)*2 // at most half of the lines there are of other executions
	}
	switch {
	case err != nil:
	case near:
		err = s.each(ctx, func(rows *sql.Rows) error { return rows.Scan(&n, &joined) },
			s.sql["logs_texts_between"], execution, out.First, out.Last)
	default:
		err = s.each(ctx, func(rows *sql.Rows) error { return rows.Scan(&n, &out.First, &out.Last, &joined) },
			s.sql["logs_texts"+order], execution, f.After, least, since, f.StepKey, limit, before(f.Before), until, f.Attempt)
	}
	if err != nil || n == 0 {
		return store.LogTexts{}, fault("read "+s.path, err)
	}
	if out.Messages = strings.Split(joined, "\x00"); len(out.Messages) == n {
		return out, nil
	}
	// A message has a byte that is 0.
	lines, err := s.Logs(ctx, execution, f)
	return store.TextsOf(lines), err
}

// before is the Seq below which lines are listed.
func before(seq int64) int64 {
	if seq > 0 {
		return seq
	}
	return math.MaxInt64
}

// LogSpans implements store.Reader.
func (s *Store) LogSpans(ctx context.Context, execution int64, n int) ([]store.LogSpan, error) {
	return list(ctx, s, func(rows *sql.Rows, x *store.LogSpan) error {
		var at sql.NullInt64
		err := rows.Scan(&x.First, &x.Until, &at, &x.Lines, &x.Debug, &x.Warnings, &x.Errors)
		x.At = instant(at)
		return err
	}, s.sql["log_spans"], execution, store.Limit(n, 100, store.MaxLogSpans))
}

// LogWarnings implements store.Reader.
func (s *Store) LogWarnings(ctx context.Context, executions []int64, most int) (map[int64]int, error) {
	ids, err := json.Marshal(executions)
	if err != nil {
		return nil, err
	}
	out := map[int64]int{}
	err = s.each(ctx, func(rows *sql.Rows) error {
		var no int64
		var n int
		err := rows.Scan(&no, &n)
		if n > 0 {
			out[no] = n
		}
		return err
	}, s.sql["log_warnings"], string(ids), most)
	return out, fault("read "+s.path, err)
}
