package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"sync"

	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// Events reads a page of the step log and the rows that engine.History needs. The view step_event shows the same in
// SQL, for a whole execution; TestReaderAgrees compares them. The cost is that of the page, whatever the size of the
// execution; logs from before all rows were named (step_log.unnamed) cost a read of every row.
func (s *Store) Events(ctx context.Context, execution, after int64, n int) ([]engine.HistoryEvent, error) {
	h := &engine.History{Rows: map[int32]engine.HistoryRow{}, Started: map[engine.Attempt]bool{}}
	written, unknown, err := s.readVersions(ctx, h, execution, after, store.Limit(n, 1000, 10_000))
	if err == nil && len(h.Batches) > 0 {
		if err = s.readRows(ctx, h, execution, after, h.Steps(written), unknown); err == nil {
			h.IDs, err = s.stepIDs(ctx, execution)
		}
	}
	if err != nil {
		return nil, fault("read "+s.path, err)
	}
	return h.Events(), nil
}

// readVersions reads whole versions until they hold enough events. written are steps whose rows they wrote although
// no event names them; unknown says that some versions do not list theirs.
func (s *Store) readVersions(ctx context.Context, h *engine.History, execution, after int64, enough int) (written []int32, unknown bool, err error) {
	rows, err := s.read.QueryContext(ctx, s.sql["log_page"], execution, after)
	if err != nil {
		return nil, false, err
	}
	defer rows.Close()
	for count := 0; count < enough && rows.Next(); {
		var version int64
		var body, unnamed []byte
		if err := rows.Scan(&version, &body, &unnamed); err != nil {
			return nil, false, err
		}
		b, err := engine.DecodeBatch(version, body)
		if err != nil {
			return nil, false, err
		}
		if written, err = engine.AppendRuns(written, unnamed); err != nil {
			return nil, false, err
		}
		unknown = unknown || unnamed == nil
		h.Batches = append(h.Batches, b)
		count += len(b.Events) + len(b.Queued)
	}
	return written, unknown, rows.Err()
}

// readRows reads the rows of steps, with all also every row that the versions wrote, and the steps' earlier starts.
func (s *Store) readRows(ctx context.Context, h *engine.History, execution, after int64, steps []int32, all bool) error {
	list, err := json.Marshal(steps)
	if err != nil {
		return err
	}
	scan := func(rows *sql.Rows) error {
		var r engine.HistoryRow
		var worker sql.NullString
		var ended sql.NullInt64
		var raw []byte
		if err := rows.Scan(&r.Idx, &r.Version, &r.Status, &worker, &ended, &raw); err != nil {
			return err
		}
		err := store.DecodeExtra(raw, &r.StepRow)
		r.Worker, r.Ended = worker.String, ended.Int64
		h.Rows[r.Idx] = r
		return err
	}
	if err := s.each(ctx, scan, s.sql["rows_named"], execution, string(list)); err != nil {
		return err
	}
	if all {
		if err := s.each(ctx, scan, s.sql["rows_between"], execution, after, h.Batches[len(h.Batches)-1].Version); err != nil {
			return err
		}
	}
	return s.each(ctx, func(rows *sql.Rows) error {
		var a engine.Attempt
		err := rows.Scan(&a.Idx, &a.Epoch)
		h.Started[a] = true
		return err
	}, s.sql["seen_running"], execution, after, string(list))
}

// each calls f for every row of a query.
func (s *Store) each(ctx context.Context, f func(*sql.Rows) error, query string, args ...any) error {
	return eachRow(ctx, s.read, f, query, args...)
}

type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

func eachRow(ctx context.Context, db querier, f func(*sql.Rows) error, query string, args ...any) error {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// maxCachedIDs bounds the ids of the definitions that are kept, all together.
const maxCachedIDs = 500_000

// idCache has the top-level ids of definitions by hash: a follower needs them with every page, and reading them takes
// as long as the definition is large.
type idCache struct {
	mu    sync.Mutex
	ids   map[string][]string
	total int
}

func (c *idCache) get(hash string) ([]string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ids, ok := c.ids[hash]
	return ids, ok
}

func (c *idCache) put(hash string, ids []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ids == nil || c.total+len(ids) >= maxCachedIDs {
		c.ids, c.total = map[string][]string{}, 0
	}
	c.ids[hash] = ids
	c.total += len(ids) + 1
}

// stepIDs are the ids of the top level of an execution's definition, none if there is no such execution.
func (s *Store) stepIDs(ctx context.Context, execution int64) ([]string, error) {
	var hash string
	var body []byte
	err := s.read.QueryRowContext(ctx, s.sql["execution_definition"], execution).Scan(&hash)
	ids, cached := s.ids.get(hash)
	if err == nil && !cached {
		err = s.read.QueryRowContext(ctx, s.sql["definition_body"], []byte(hash)).Scan(&body)
	}
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil // a definition may be stored later
	case err != nil || cached:
		return ids, err
	}
	var definition struct {
		Steps []struct {
			ID string `json:"id"`
		} `json:"steps"`
	}
	if err := json.Unmarshal(body, &definition); err != nil {
		return nil, err
	}
	for _, step := range definition.Steps {
		ids = append(ids, step.ID)
	}
	s.ids.put(hash, ids)
	return ids, nil
}
