package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// executionsQuery lists executions. Each table, and with statuses each status, is a query of its own that ends at the limit, by an index
// that has the order: its time does not depend on how many executions there are besides. The last version is read for the page alone.
func executionsQuery(f store.Filter) (query string, args []any) {
	where, order, args := conditions(f)
	limit := store.Limit(f.Limit, 50, 1000)
	var each []string
	add := func(table, where string) {
		each = append(each, fmt.Sprintf("(SELECT * FROM %s WHERE %s ORDER BY %s LIMIT %d)", table, where, order, limit))
	}
	for _, status := range slices.Compact(slices.Sorted(slices.Values(f.Statuses))) {
		table := "execution_live"
		if status.Terminal() {
			table = "execution_past"
		}
		add(table, fmt.Sprintf("%s AND status = %d", where, status))
	}
	if each == nil {
		add("execution_live", where)
		add("execution_past", where)
	}
	return fmt.Sprintf("SELECT %s%s, NULL FROM (SELECT * FROM (%s) e ORDER BY id DESC LIMIT %d) x ORDER BY id DESC", readColumns, lastVersion, strings.Join(each, " UNION ALL "), limit), args
}

// conditions are those of a filter, without its statuses: only what it asks for, so that the indexes are found. One that has an index
// is ANY of an array and the head of the order: with = the server would rather read all executions, newest first, where it believes
// that those it looks for are evenly spread among them.
func conditions(f store.Filter) (where, order string, args []any) {
	var list []string
	add := func(condition string, arg any) {
		args = append(args, arg)
		list = append(list, fmt.Sprintf(condition, fmt.Sprint("$", len(args))))
	}
	order = "id DESC"
	for i, x := range []struct{ column, value string }{{"partition_key", f.Partition}, {"parent", f.Parent}, {"job", f.Job}, {"lesson", f.Lesson}, {"project", f.Project}, {"workflow", f.Workflow}, {"pipeline", f.Pipeline}, {"caused_by", f.Trigger}} {
		switch {
		case x.value == "":
		case i < 6 && order == "id DESC":
			order = x.column + " DESC, id DESC"
			add(x.column+" = ANY (ARRAY[%s])", encode(x.value))
		default:
			add(x.column+" = %s", encode(x.value))
		}
	}
	if f.Footprints {
		list = append(list, `strpos(progress, '"footprints":true') > 0`)
	}
	if f.WorkflowVersion > 0 {
		add("workflow_version = %s", f.WorkflowVersion)
	}
	if f.Before != "" {
		add("id < %s", encode(f.Before))
	}
	if !f.From.IsZero() {
		add("created >= %s", f.From.UnixMicro())
	}
	if !f.To.IsZero() {
		add("created < %s", f.To.UnixMicro())
	}
	return strings.Join(append(list, "true"), " AND "), order, args
}

// outline is what a definition says of its top level, by index.
type outline []struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Action string `json:"action"`
}

// maxOutlined bounds the steps of the outlines that are kept, all together.
const maxOutlined = 500_000

// outlines are the definitions' by hash: a follower needs them with every page, and reading one takes as long as the
// definition is large.
type outlines struct {
	mu    sync.Mutex
	by    map[string]outline
	total int
}

func (c *outlines) get(hash []byte) (outline, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o, ok := c.by[string(hash)]
	return o, ok
}

func (c *outlines) put(hash []byte, o outline) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by == nil || c.total+len(o) >= maxOutlined {
		c.by, c.total = map[string]outline{}, 0
	}
	c.by[string(hash)] = o
	c.total += len(o) + 1
}

// querier is the pool or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// outline reads a definition's; nil if it is not there.
func (s *Store) outline(ctx context.Context, q querier, hash []byte) (o outline, err error) {
	o, ok := s.cache.get(hash)
	if ok || hash == nil {
		return o, nil
	}
	var body value
	err = q.QueryRow(ctx, `SELECT body FROM definition WHERE hash = $1`, hash).Scan(&body)
	if err == pgx.ErrNoRows {
		return nil, nil // it may be stored later
	}
	if err != nil {
		return nil, err
	}
	var definition struct {
		Steps outline `json:"steps"`
	}
	if err := json.Unmarshal(body, &definition); err != nil {
		return nil, err
	}
	s.cache.put(hash, definition.Steps)
	return definition.Steps, nil
}

// snapshot runs f on one state of the database.
func (s *Store) snapshot(ctx context.Context, f func(tx pgx.Tx) error) error {
	return fault("read", pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, f))
}

// Events reads a page of the step log and the rows that engine.History needs. The cost is that of the page, whatever the
// size of the execution.
func (s *Store) Events(ctx context.Context, execution, after int64, n int) ([]engine.HistoryEvent, error) {
	h := &engine.History{Rows: map[int32]engine.HistoryRow{}, Started: map[engine.Attempt]bool{}}
	err := s.snapshot(ctx, func(tx pgx.Tx) error {
		written, err := readVersions(ctx, tx, h, execution, after, store.Limit(n, 1000, 10_000))
		if err != nil || len(h.Batches) == 0 {
			return err
		}
		if err := readRows(ctx, tx, h, execution, after, h.Steps(written)); err != nil {
			return err
		}
		var hash []byte
		if err := tx.QueryRow(ctx, `SELECT definition FROM execution WHERE no = $1`, execution).Scan(&hash); err != nil && err != pgx.ErrNoRows {
			return err
		}
		o, err := s.outline(ctx, tx, hash)
		for i := range o {
			h.IDs = append(h.IDs, o[i].ID)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return h.Events(), nil
}

// versionsAtOnce bounds the versions that one query of a page reads.
const versionsAtOnce = 100

// readVersions reads whole versions until they hold enough events. written are steps whose rows they wrote although no
// event names them.
func readVersions(ctx context.Context, tx pgx.Tx, h *engine.History, execution, after int64, enough int) (written []int32, err error) {
	for count := 0; count < enough; {
		rows, err := tx.Query(ctx, `SELECT version, body, unnamed FROM step_log WHERE execution = $1 AND version > $2 ORDER BY version LIMIT $3`, execution, after, min(versionsAtOnce, enough-count))
		if err != nil {
			return nil, err
		}
		var version int64
		var body, unnamed value
		read := 0
		_, err = pgx.ForEachRow(rows, []any{&version, &body, &unnamed}, func() error {
			if read++; count >= enough {
				return nil
			}
			b, err := engine.DecodeBatch(version, body)
			if err != nil {
				return err
			}
			h.Batches = append(h.Batches, b)
			count += len(b.Events) + len(b.Queued)
			after = version
			written, err = engine.AppendRuns(written, unnamed)
			return err
		})
		if err != nil || read == 0 {
			return written, err
		}
	}
	return written, nil
}

// readRows reads the rows of steps and their earlier starts.
func readRows(ctx context.Context, tx pgx.Tx, h *engine.History, execution, after int64, steps []int32) error {
	rows, err := tx.Query(ctx, `SELECT idx, version, status, key, worker, ended, rare FROM step WHERE execution = $1 AND idx = ANY ($2)`, execution, steps)
	if err != nil {
		return err
	}
	var r engine.HistoryRow
	var worker, key text
	var ended number
	var rare value
	_, err = pgx.ForEachRow(rows, []any{&r.Idx, &r.Version, &r.Status, &key, &worker, &ended, &rare}, func() error {
		x := r
		err := store.DecodeExtra(rare, &x.StepRow)
		x.Key, x.Worker, x.Ended = string(key), string(worker), int64(ended)
		h.Rows[x.Idx] = x
		return err
	})
	if err != nil {
		return err
	}
	rows, err = tx.Query(ctx, `SELECT idx, epoch FROM seen WHERE execution = $1 AND version <= $2 AND idx = ANY ($3)`, execution, after, steps)
	if err != nil {
		return err
	}
	var a engine.Attempt
	_, err = pgx.ForEachRow(rows, []any{&a.Idx, &a.Epoch}, func() error {
		h.Started[a] = true
		return nil
	})
	return err
}

// Output is the stored output of one completed step by its key; CodeNotFound if there is none. A top-level step costs
// a look-up; any other, whose key is in its row, a scan of the execution's rows.
func (s *Store) Output(ctx context.Context, execution int64, key string) ([]byte, error) {
	var hash []byte
	if _, err := s.one(ctx, []any{&hash}, `SELECT definition FROM execution WHERE no = $1`, execution); err != nil {
		return nil, err
	}
	o, err := s.outline(ctx, s.pool, hash)
	if err != nil {
		return nil, fault("read", err)
	}
	sql, arg := `SELECT output FROM step WHERE execution = $1 AND status = 5 AND key = $2 AND superseded IS NULL ORDER BY idx LIMIT 1`, any(encode(key))
	for i := range o {
		if o[i].ID == key {
			sql, arg = `SELECT output FROM step WHERE execution = $1 AND idx = $2 AND status = 5`, i
			break
		}
	}
	var output value
	there, err := s.one(ctx, []any{&output}, sql, execution, arg)
	if err == nil && !there {
		err = notFound("step %q has not completed", key)
	}
	if output == nil && err == nil {
		output = []byte("{}")
	}
	return output, err
}
