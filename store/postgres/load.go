package postgres

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// Numbers reserves a block of n numbers in the newest slot, and begins the next slot when that one is old or large.
func (s *Store) Numbers(ctx context.Context, n int) (first int64, err error) {
	due, err := s.slots.due(ctx)
	if due && err == nil {
		err = s.slots.open(ctx)
	}
	if err != nil && ctx.Err() == nil { // the present one does for now
		s.o.Log.Warn("the size of a slot is not kept", "error", err)
	}
	err = s.transaction(ctx, "hand out numbers", func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, `UPDATE counter SET next = greatest(next, coalesce((SELECT max(no) FROM execution_live), 0) + 1, coalesce((SELECT max(no) FROM execution_past), 0) + 1) + $1
WHERE name = 'execution' RETURNING next - $1`, int64(n)).Scan(&first)
	})
	return first, err
}

// Claim makes owner the owner of unfinished executions without an owner. Of concurrent callers each skips what another is
// claiming.
func (s *Store) Claim(ctx context.Context, owner int64, limit int) (list []store.Execution, err error) {
	err = s.transaction(ctx, "claim executions", func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `WITH free AS MATERIALIZED (
    SELECT no FROM execution_live WHERE owner IS NULL ORDER BY priority DESC, no LIMIT $2 FOR UPDATE SKIP LOCKED
)
UPDATE execution_live x SET owner = $1 FROM free WHERE x.no = free.no RETURNING `+of("x", readColumns)+lastVersion+", x.outputs", owner, limit)
		if err != nil {
			return err
		}
		list, err = pgx.CollectRows(rows, scanExecution)
		return err
	})
	for i := range list {
		list[i].Owner = owner
	}
	slices.SortFunc(list, func(a, b store.Execution) int { return cmp.Or(b.Priority-a.Priority, cmp.Compare(a.No, b.No)) })
	return list, err
}

// definitions are those whose time of use this process has written lately: retention removes only what nobody has used
// for a day.
type definitions struct {
	mu   sync.Mutex
	used map[string]time.Time
}

const (
	usedEvery      = time.Hour
	unusedFor      = 24 * time.Hour
	maxDefinitions = 100_000
)

// fresh reports whether a definition's time of use need not be written.
func (d *definitions) fresh(hash []byte) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Since(d.used[string(hash)]) < usedEvery
}

func (d *definitions) note(hash []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.used == nil || len(d.used) >= maxDefinitions {
		d.used = map[string]time.Time{}
	}
	d.used[string(hash)] = time.Now()
}

// PutDefinition stores a snapshot under its hash. One that this process has stored or read within the hour costs nothing.
func (s *Store) PutDefinition(ctx context.Context, hash, body []byte) error {
	if err := ctx.Err(); err != nil || s.used.fresh(hash) {
		return err
	}
	now := s.o.Now().UnixMicro()
	n, err := s.change(ctx, "store a definition", `UPDATE definition SET used = greatest(used, $2) WHERE hash = $1`, hash, now)
	if err == nil && n == 0 {
		_, err = s.change(ctx, "store a definition", `INSERT INTO definition AS d (hash, body, used) VALUES ($1, $2, $3) ON CONFLICT (hash) DO UPDATE SET used = greatest(d.used, $3)`,
			hash, encode(string(body)), now)
	}
	if err == nil {
		s.used.note(hash)
	}
	return err
}

// Definition is the snapshot with the hash, CodeNotFound if there is none.
func (s *Store) Definition(ctx context.Context, hash []byte) ([]byte, error) {
	if !s.readOnly && !s.used.fresh(hash) { // whoever reads it may start it again
		if n, err := s.change(ctx, "use a definition", `UPDATE definition SET used = greatest(used, $2) WHERE hash = $1`, hash, s.o.Now().UnixMicro()); err == nil && n > 0 {
			s.used.note(hash)
		}
	}
	var body value
	there, err := s.one(ctx, []any{&body}, `SELECT body FROM definition WHERE hash = $1`, hash)
	if err == nil && !there {
		err = notFound("no definition %s", hex.EncodeToString(hash))
	}
	return body, err
}

// A page of the step log ends at either limit, so that no transaction stays open while its entries are worked on.
const (
	logPage      = 1000
	logPageBytes = 4 << 20
)

// StepLog yields the execution's log bodies in order of version, from after the given one. A body is the caller's.
func (s *Store) StepLog(ctx context.Context, execution, after int64) iter.Seq2[store.LogEntry, error] {
	return store.LogPages(ctx, execution, after, s.logPage)
}

// logPage reads a page; the sizes of bodies bound it on the server, so that large ones are not sent in vain.
func (s *Store) logPage(ctx context.Context, execution, after int64) ([]store.LogEntry, error) {
	return list(ctx, s, scanEntry, `SELECT execution, version, body FROM (
    SELECT execution, version, body, sum(octet_length(body)) OVER (ORDER BY version) - octet_length(body) AS before
    FROM (SELECT * FROM step_log WHERE execution = $1 AND version > $2 ORDER BY version LIMIT $3) l
) l WHERE before < $4 ORDER BY version`, execution, after, logPage, logPageBytes)
}

func scanEntry(row pgx.CollectableRow) (e store.LogEntry, err error) {
	var body value
	err = row.Scan(&e.Execution, &e.Version, &body)
	e.Body = body
	return e, err
}

// logsTogether bounds the executions whose logs one query reads.
const logsTogether = 500

// StepLogs yields the whole logs of many executions, one execution after the other, in their order. The logs of many short
// ones are read together.
func (s *Store) StepLogs(ctx context.Context, executions []int64) iter.Seq2[store.LogEntry, error] {
	return func(yield func(store.LogEntry, error) bool) {
		for len(executions) > 0 {
			part := executions[:min(logsTogether, len(executions))]
			executions = executions[len(part):]
			if !s.yieldLogs(ctx, part, yield) {
				return
			}
		}
	}
}

// logsEach bounds the versions of one execution that a query for many reads; longer logs are read on in pages.
const logsEach = 50

// yieldLogs yields the logs of some executions as they come, holding a connection. It reports whether to go on.
func (s *Store) yieldLogs(ctx context.Context, executions []int64, yield func(store.LogEntry, error) bool) bool {
	rows, err := s.pool.Query(ctx, `SELECT l.execution, l.version, l.body
FROM unnest($1::bigint[]) WITH ORDINALITY AS u (execution, n)
    CROSS JOIN LATERAL (SELECT * FROM step_log WHERE execution = u.execution ORDER BY version LIMIT $2) l
ORDER BY u.n, l.version`, executions, logsEach)
	if err != nil {
		yield(store.LogEntry{}, fault("read", err))
		return false
	}
	defer rows.Close()
	for rows.Next() {
		e, err := scanEntry(rows)
		if err != nil {
			yield(e, fault("read", err))
			return false
		}
		if !yield(e, nil) {
			return false
		}
		if e.Version < logsEach {
			continue
		}
		for e, err := range s.StepLog(ctx, e.Execution, e.Version) {
			if !yield(e, err) || err != nil {
				return false
			}
		}
	}
	if err := rows.Err(); err != nil {
		yield(store.LogEntry{}, fault("read", err))
		return false
	}
	return true
}

// StartKey finds the execution started under a key; CodeNotFound.
func (s *Store) StartKey(ctx context.Context, key string) (*store.StartKey, error) {
	k := &store.StartKey{Key: key}
	var id text
	var created instant
	there, err := s.one(ctx, []any{&k.Hash, &id, &created}, `SELECT k.hash, x.id, k.created FROM start_key k JOIN execution x ON x.no = k.execution WHERE k.key = $1`, encode(key))
	if err != nil {
		return nil, err
	}
	if !there {
		return nil, notFound("nothing was started under the key %q", key)
	}
	k.Execution, k.Created = string(id), created.time()
	return k, nil
}

// Outputs yields completed steps with their outputs in the order of their ends. It holds a connection while it yields:
// end the loop soon.
func (s *Store) Outputs(ctx context.Context, execution int64) iter.Seq2[engine.StepRow, error] {
	return func(yield func(engine.StepRow, error) bool) {
		rows, err := s.pool.Query(ctx, `SELECT idx, seq, status, attempt, key, external, output, worker, queued, started, ended, rare FROM step
WHERE execution = $1 AND status = 5 AND seq IS NOT NULL AND superseded IS NULL ORDER BY seq`, execution)
		if err != nil {
			yield(engine.StepRow{}, fault("read", err))
			return
		}
		defer rows.Close()
		for rows.Next() {
			row, err := scanOutput(rows)
			if err != nil {
				yield(row, fault("read", err))
				return
			}
			if !yield(row, nil) {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(engine.StepRow{}, fault("read", err))
		}
	}
}

func scanOutput(rows pgx.Rows) (r engine.StepRow, err error) {
	var worker, key, external text
	var output, rare value
	var queued, started, ended number
	if err := rows.Scan(&r.Idx, &r.Seq, &r.Status, &r.Attempt, &key, &external, &output, &worker, &queued, &started, &ended, &rare); err != nil {
		return r, err
	}
	err = store.DecodeExtra(rare, &r)
	r.Key, r.External, r.Output, r.Worker, r.Queued, r.Started, r.Ended = string(key), string(external), output, string(worker), int64(queued), int64(started), int64(ended)
	return r, err
}

// readColumns are the columns that scanExecution reads, before the version and the outputs.
const readColumns = `no, id, pipeline, status, definition, parent, caused_by, dir, created, started, ended, failure, progress, params,
    workflow, workflow_version, job, actor, concurrency, priority, project, lesson, partition_key`

const lastVersion = `, (SELECT coalesce(max(version), 0) FROM step_log l WHERE l.execution = x.no)`

func scanExecution(row pgx.CollectableRow) (x store.Execution, err error) {
	var id, pipeline, parent, cause, dir, workflow, job, actor, concurrency, project, lesson, part text
	var created, started, ended instant
	var version number
	var failure, progress, params, outputs value
	err = row.Scan(&x.No, &id, &pipeline, &x.Status, &x.Definition, &parent, &cause, &dir, &created, &started, &ended, &failure, &progress, &params,
		&workflow, &version, &job, &actor, &concurrency, &x.Priority, &project, &lesson, &part, &x.Version, &outputs)
	if err != nil {
		return x, err
	}
	x.ID, x.Pipeline, x.Parent, x.Trigger, x.Dir = string(id), string(pipeline), string(parent), string(cause), string(dir)
	x.Params, x.Outputs = json.RawMessage(params), json.RawMessage(outputs)
	x.Workflow, x.WorkflowVersion, x.Job, x.Actor, x.Concurrency, x.Project, x.Lesson, x.Partition = string(workflow), int(version), string(job), string(actor), string(concurrency), string(project), string(lesson), string(part)
	x.Created, x.Started, x.Ended = created.time(), started.time(), ended.time()
	if failure != nil {
		err = json.Unmarshal(failure, &x.Failure)
	}
	if progress != nil {
		err = errors.Join(err, json.Unmarshal(progress, &x.Progress))
	}
	if err != nil {
		err = fmt.Errorf("execution %s: %w", x.ID, err)
	}
	return x, err
}

// Execution finds one by id or by a unique beginning of it; CodeNotFound, CodeConflict when several begin so.
func (s *Store) Execution(ctx context.Context, id string) (*store.Execution, error) {
	found, err := s.Beginning(ctx, id, 2)
	if err != nil {
		return nil, err
	}
	return store.TheExecution(found, id)
}

// Beginning lists executions by the beginning of their ids.
func (s *Store) Beginning(ctx context.Context, id string, limit int) ([]store.Execution, error) {
	if id == "" {
		return nil, store.NoID()
	}
	begin, n := id, limit
	for begin != "" && !utf8.ValidString(begin) { // it ends within a character
		begin, n = begin[:len(begin)-1], max(limit, 100)
	}
	found, err := list(ctx, s, scanExecution, `SELECT `+readColumns+lastVersion+`, outputs FROM execution x WHERE id >= $1 AND id < $1 || chr(1114111) ORDER BY id LIMIT $2`, encode(begin), n)
	found = slices.DeleteFunc(found, func(x store.Execution) bool { return !strings.HasPrefix(x.ID, id) })
	return found[:min(len(found), limit)], err
}

// Executions lists, newest first, without outputs.
func (s *Store) Executions(ctx context.Context, f store.Filter) ([]store.Execution, error) {
	if f.Before != "" {
		before, err := s.Execution(ctx, f.Before)
		if err != nil {
			return nil, err
		}
		f.Before = before.ID
	}
	query, args := executionsQuery(f)
	return list(ctx, s, scanExecution, query, args...)
}

// UnfinishedRuns lists executions of lessons that are queued or running, oldest first. It reads the table of executions under way.
func (s *Store) UnfinishedRuns(ctx context.Context, after string, limit int) ([]store.Execution, error) {
	return list(ctx, s, scanExecution, fmt.Sprintf(`SELECT %s%s, NULL FROM (SELECT * FROM execution_live
    WHERE status <> 2 AND lesson IS NOT NULL AND id > $1 ORDER BY id LIMIT %d) x ORDER BY id`, readColumns, lastVersion, store.Limit(limit, 50, 1000)), encode(after))
}
