package postgres

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/stepwell/stepwell/store"
)

// Logs lists log lines in order. With Tail, the last ones that match the filter.
func (s *Store) Logs(ctx context.Context, execution int64, f store.LogFilter) ([]store.LogLine, error) {
	least, since, until, n, tail, err := f.Bounds()
	if err != nil {
		return nil, err
	}
	order, loud := "", ""
	if least > 1 { // above info: an index has them
		loud = " AND level <> 1"
	}
	if tail {
		order = " DESC"
	}
	out, err := list(ctx, s, func(row pgx.CollectableRow) (l store.LogLine, err error) {
		var key, message text
		var at instant
		var level int
		var attrs value
		err = row.Scan(&l.Seq, &l.Execution, &l.Step, &key, &l.Attempt, &at, &level, &message, &attrs)
		l.StepKey, l.Message, l.At, l.Level, l.Attrs = string(key), string(message), at.time(), store.LevelName(level), json.RawMessage(attrs)
		return l, err
	}, `SELECT seq, execution, step, step_key, attempt, at, level, message, attrs FROM log_line
WHERE execution = $1 AND seq > $2 AND ($7 <= 0 OR seq < $7) AND level >= $3 AND at >= $4 AND at < $8 AND ($9 = 0 OR attempt = $9) AND ($5 = '' OR step_key = $5)`+loud+` ORDER BY seq`+order+` LIMIT $6`, execution, f.After, least, since, encode(f.StepKey), n, f.Before, until, f.Attempt)
	if f.Tail > 0 {
		slices.Reverse(out)
	}
	return out, err
}

// LogTexts implements store.Reader.
func (s *Store) LogTexts(ctx context.Context, execution int64, f store.LogFilter) (out store.LogTexts, err error) {
	least, since, until, n, tail, err := f.Bounds()
	if err != nil {
		return out, err
	}
	order := ""
	if tail {
		order = " DESC"
	}
	type line struct {
		seq     int64
		message text
	}
	lines, err := list(ctx, s, func(row pgx.CollectableRow) (l line, err error) {
		err = row.Scan(&l.seq, &l.message)
		return l, err
	}, `SELECT seq, message FROM log_line
WHERE execution = $1 AND seq > $2 AND ($7 <= 0 OR seq < $7) AND level >= $3 AND at >= $4 AND at < $8 AND ($9 = 0 OR attempt = $9) AND ($5 = '' OR step_key = $5) ORDER BY seq`+order+` LIMIT $6`, execution, f.After, least, since, encode(f.StepKey), n, f.Before, until, f.Attempt)
	for i := range lines {
		out.Add(lines[i].seq, string(lines[i].message))
	}
	return out, err
}

// LogWarnings implements store.Reader.
func (s *Store) LogWarnings(ctx context.Context, executions []int64, most int) (map[int64]int, error) {
	rows, err := s.pool.Query(ctx, `SELECT e, n FROM unnest($1::bigint[]) e CROSS JOIN LATERAL (SELECT count(*) FILTER (WHERE level = 2) AS n
    FROM (SELECT level FROM log_line WHERE execution = e AND level <> 1 ORDER BY seq LIMIT $2) l) c WHERE n > 0`, executions, most)
	if err != nil {
		return nil, fault("read", err)
	}
	out := map[int64]int{}
	var no int64
	var n int
	_, err = pgx.ForEachRow(rows, []any{&no, &n}, func() error { out[no] = n; return nil })
	return out, fault("read", err)
}

// LogSpans implements store.Reader. Every count is of entries of an index that has all it needs.
func (s *Store) LogSpans(ctx context.Context, execution int64, n int) ([]store.LogSpan, error) {
	return list(ctx, s, func(row pgx.CollectableRow) (x store.LogSpan, err error) {
		var at instant
		err = row.Scan(&x.First, &x.Until, &at, &x.Lines, &x.Debug, &x.Warnings, &x.Errors)
		x.At = at.time()
		return x, err
	}, `WITH ends AS MATERIALIZED (SELECT min(seq) AS lo, max(seq) + 1 AS hi, (max(seq) - min(seq)) / $2::bigint + 1 AS width FROM log_line WHERE execution = $1),
span AS (SELECT n, lo + n * width AS lo, least(hi, lo + (n + 1) * width) AS hi FROM ends, generate_series(0, $2::bigint - 1) n WHERE lo IS NOT NULL),
odd AS MATERIALIZED (SELECT (seq - e.lo) / e.width AS n, count(*) FILTER (WHERE level = 0) AS debug, count(*) FILTER (WHERE level = 2) AS warnings, count(*) FILTER (WHERE level = 3) AS errors
    FROM ends e, log_line WHERE execution = $1 AND level <> 1 GROUP BY 1)
SELECT f.seq, s.hi, f.at, c.lines, coalesce(o.debug, 0), coalesce(o.warnings, 0), coalesce(o.errors, 0) FROM span s
CROSS JOIN LATERAL (SELECT seq, at FROM log_line WHERE execution = $1 AND seq >= s.lo AND seq < s.hi ORDER BY seq LIMIT 1) f
CROSS JOIN LATERAL (SELECT count(*) AS lines FROM log_line WHERE execution = $1 AND seq >= s.lo AND seq < s.hi) c
LEFT JOIN odd o ON o.n = s.n
ORDER BY s.n`, execution, store.Limit(n, 100, store.MaxLogSpans))
}
