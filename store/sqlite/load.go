package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// A page of the step log ends at either limit, so that no read stays open while its entries are
// being worked on: a long read keeps the write-ahead log from starting over.
const (
	logPage      = 1000
	logPageBytes = 4 << 20
)

// Numbers hands out a block of n numbers. They survive the death of the process at once and a loss of power with the next
// commit, which is the first that can use one.
func (s *Store) Numbers(ctx context.Context, n int) (first int64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	err = s.relaxed("hand out numbers in "+s.path, func(w *writer) error {
		return w.conn.QueryRowContext(context.Background(), w.queries["numbers"], n).Scan(&first)
	})
	return first, err
}

// Claim makes owner the owner of unfinished executions without an owner.
func (s *Store) Claim(ctx context.Context, owner int64, limit int) (list []store.Execution, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	err = s.relaxed("claim executions of "+s.path, func(w *writer) error {
		return eachRow(context.Background(), w.conn, into(&list, scanExecution), w.queries["claim"], owner, limit)
	})
	for i := range list {
		list[i].Owner = owner
	}
	slices.SortFunc(list, func(a, b store.Execution) int { return cmp.Or(b.Priority-a.Priority, cmp.Compare(a.No, b.No)) })
	return list, err
}

// Definition is the snapshot with the hash, CodeNotFound if there is none.
func (s *Store) Definition(ctx context.Context, hash []byte) ([]byte, error) {
	var body []byte
	s.used.definition(hash)
	err := s.read.QueryRowContext(ctx, s.sql["definition_body"], hash).Scan(&body)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, &stepwell.Error{Code: stepwell.CodeNotFound, Message: "no definition " + hex.EncodeToString(hash)}
	}
	return body, fault("read "+s.path, err)
}

// StepLog yields the execution's log bodies in order of version, from after the given one. A body
// is the caller's.
func (s *Store) StepLog(ctx context.Context, execution, after int64) iter.Seq2[store.LogEntry, error] {
	return func(yield func(store.LogEntry, error) bool) {
		if after == 0 { // perhaps to restart it
			s.used.note(execution)
		}
		for entry, err := range store.LogPages(ctx, execution, after, s.logPage) {
			if !yield(entry, fault("read "+s.path, err)) {
				return
			}
		}
	}
}

// StepLogs yields the whole logs of many executions, one execution after the other.
func (s *Store) StepLogs(ctx context.Context, executions []int64) iter.Seq2[store.LogEntry, error] {
	return func(yield func(store.LogEntry, error) bool) {
		for _, no := range executions {
			for entry, err := range s.StepLog(ctx, no, 0) {
				if !yield(entry, err) || err != nil {
					return
				}
			}
		}
	}
}

func (s *Store) logPage(ctx context.Context, execution, after int64) (page []store.LogEntry, err error) {
	rows, err := s.read.QueryContext(ctx, s.sql["step_log"], execution, after, logPage)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for size := 0; size < logPageBytes && rows.Next(); {
		e := store.LogEntry{Execution: execution}
		if err := rows.Scan(&e.Version, &e.Body); err != nil {
			return nil, err
		}
		size += len(e.Body)
		page = append(page, e)
	}
	return page, rows.Err()
}

// StartKey finds the execution started under a key; CodeNotFound.
func (s *Store) StartKey(ctx context.Context, key string) (*store.StartKey, error) {
	k := &store.StartKey{Key: key}
	var created sql.NullInt64
	err := s.read.QueryRowContext(ctx, s.sql["start_key"], key).Scan(&k.Hash, &k.Execution, &created)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, &stepwell.Error{Code: stepwell.CodeNotFound, Message: fmt.Sprintf("nothing was started under the key %q", key)}
	}
	if err != nil {
		return nil, fault("read "+s.path, err)
	}
	k.Created = instant(created)
	return k, nil
}

// Memo returns a step's record.
func (s *Store) Memo(ctx context.Context, execution int64, step int32, key string) (json.RawMessage, bool, error) {
	var value []byte
	err := s.read.QueryRowContext(ctx, s.sql["memo_value"], execution, step, key).Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, false, nil
	}
	return value, err == nil, fault("read "+s.path, err)
}

// Outputs yields completed steps with their outputs in the order of their ends. It holds a reader while it yields:
// end the loop soon.
func (s *Store) Outputs(ctx context.Context, execution int64) iter.Seq2[engine.StepRow, error] {
	return func(yield func(engine.StepRow, error) bool) {
		rows, err := s.read.QueryContext(ctx, s.sql["outputs"], execution)
		if err != nil {
			yield(engine.StepRow{}, fault("read "+s.path, err))
			return
		}
		defer rows.Close()
		for rows.Next() {
			row, err := scanOutput(rows)
			if err != nil {
				yield(row, fault("read "+s.path, err))
				return
			}
			if !yield(row, nil) {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(engine.StepRow{}, fault("read "+s.path, err))
		}
	}
}

func scanOutput(rows *sql.Rows) (r engine.StepRow, err error) {
	var worker sql.NullString
	var queued, started, ended sql.NullInt64
	var extra []byte
	if err := rows.Scan(&r.Idx, &r.Seq, &r.Status, &r.Attempt, &r.Output, &worker, &queued, &started, &ended, &extra); err != nil {
		return r, err
	}
	r.Worker, r.Queued, r.Started, r.Ended = worker.String, queued.Int64, started.Int64, ended.Int64
	return r, store.DecodeExtra(extra, &r)
}

// executions runs a query with the columns of an execution.
func (s *Store) executions(ctx context.Context, query string, args ...any) ([]store.Execution, error) {
	return list(ctx, s, scanExecution, query, args...)
}

func scanExecution(rows *sql.Rows, x *store.Execution) error {
	var parent, workflow, job, actor, concurrency, project, lesson, part sql.NullString
	var created, started, ended, version, priority sql.NullInt64
	var failure, progress, params, outputs []byte
	err := rows.Scan(&x.No, &x.ID, &x.Pipeline, &x.Status, &x.Definition, &parent, &x.Trigger, &x.Dir,
		&created, &started, &ended, &failure, &progress, &params,
		&workflow, &version, &job, &actor, &concurrency, &priority, &project, &lesson, &part, &x.Version, &outputs)
	if err != nil {
		return err
	}
	x.Parent, x.Params, x.Outputs = parent.String, params, outputs
	x.Origin = store.Origin{Workflow: workflow.String, WorkflowVersion: int(version.Int64), Job: job.String, Actor: actor.String,
		Concurrency: concurrency.String, Priority: int(priority.Int64), Project: project.String, Lesson: lesson.String, Partition: part.String}
	x.Created, x.Started, x.Ended = instant(created), instant(started), instant(ended)
	if failure != nil {
		if err := json.Unmarshal(failure, &x.Failure); err != nil {
			return fmt.Errorf("failure of execution %s: %w", x.ID, err)
		}
	}
	if progress != nil {
		if err := json.Unmarshal(progress, &x.Progress); err != nil {
			return fmt.Errorf("progress of execution %s: %w", x.ID, err)
		}
	}
	return nil
}

func instant(us sql.NullInt64) time.Time {
	if !us.Valid {
		return time.Time{}
	}
	return time.UnixMicro(us.Int64).UTC()
}
