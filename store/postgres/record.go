package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

// PutMemo stores a memo durably; the first value of a key stays. It holds the row of the step's fence meanwhile, so that
// either a restart forgets the memo, or the memo is refused.
func (s *Store) PutMemo(ctx context.Context, m store.Memo) error {
	return s.transaction(ctx, "store a memo", func(tx pgx.Tx) error {
		b := &pgx.Batch{}
		b.Queue(`INSERT INTO memo_fence (execution, step, epoch) VALUES ($1, $2, 0) ON CONFLICT DO NOTHING`, m.Execution, m.Step)
		b.Queue(`SELECT epoch FROM memo_fence WHERE execution = $1 AND step = $2 FOR SHARE`, m.Execution, m.Step)
		b.Queue(`INSERT INTO memo (execution, step, key, value, epoch) SELECT $1, $2, $3, $4, $5::bigint FROM memo_fence WHERE execution = $1 AND step = $2 AND epoch <= $5::bigint
ON CONFLICT DO NOTHING`, m.Execution, m.Step, encode(m.Key), encode(string(m.Value)), int64(m.Epoch))
		sent := tx.SendBatch(ctx, b)
		_, err := sent.Exec()
		epoch := int64(0)
		if err == nil {
			err = sent.QueryRow().Scan(&epoch)
		}
		if end := sent.Close(); err == nil {
			err = end
		}
		if err == nil && epoch > int64(m.Epoch) {
			err = &stepwell.Error{Code: stepwell.CodeConflict, Message: fmt.Sprintf("step %d of execution %d has been restarted: the attempt no longer counts", m.Step, m.Execution)}
		}
		return err
	})
}

// Memo returns a step's record.
func (s *Store) Memo(ctx context.Context, execution int64, step int32, key string) (json.RawMessage, bool, error) {
	var v value
	there, err := s.one(ctx, []any{&v}, `SELECT value FROM memo WHERE execution = $1 AND step = $2 AND key = $3`, execution, step, encode(key))
	return json.RawMessage(v), there, err
}

// PutRequest leaves a request for a process that runs executions; see Watch.
func (s *Store) PutRequest(ctx context.Context, r store.Request) error {
	_, err := s.change(ctx, "leave a request", `INSERT INTO request (owner, execution, kind, body) VALUES ($1, $2, $3, $4)`, r.Owner, encode(r.Execution), encode(r.Kind), jsonOrNull(r.Body))
	if err == nil && s.listening != nil { // of a dead node's, whoever looks takes it
		_, _ = s.pool.Exec(ctx, sqlNotify+` WHERE $3::bigint = 0 OR EXISTS (SELECT 1 FROM node WHERE no = $3 AND until > clock_timestamp())`, store.TopicRequests, s.channel(), r.Owner)
	}
	return err
}

// owedRequest is the kind of requests that are not repeated by whoever has left them, and may be carried out twice
// (conductor.RequestDeliver).
const owedRequest = "deliver"

// RequestDone implements store.Committer.
func (s *Store) RequestDone(ctx context.Context, no int64) error {
	_, err := s.change(ctx, "remove a request", `DELETE FROM request WHERE no = $1`, no)
	return err
}

// TakeRequests removes and returns up to limit requests, oldest first. Each is returned to one process, whichever asks. Those for a
// node that has left or died are for any.
func (s *Store) TakeRequests(ctx context.Context, owner int64, limit int) (out []store.Request, err error) {
	if limit <= 0 {
		return nil, ctx.Err()
	}
	err = s.transaction(ctx, "take requests", func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `WITH mine AS MATERIALIZED (
    SELECT * FROM request q WHERE owner IN (0, $1)
        OR owner >= `+firstNode+` AND NOT EXISTS (SELECT 1 FROM node n WHERE n.no = q.owner AND n.until > clock_timestamp())
    ORDER BY no LIMIT $2 FOR UPDATE SKIP LOCKED
), done AS (
    DELETE FROM request r USING mine WHERE r.no = mine.no AND mine.kind <> $3
), owed AS (
    UPDATE request r SET owner = $1 FROM mine WHERE r.no = mine.no AND mine.kind = $3 AND r.owner <> $1
)
SELECT no, owner, execution, kind, body FROM mine`, owner, limit, owedRequest)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (r store.Request, err error) {
			var execution, kind text
			var body value
			err = row.Scan(&r.No, &r.Owner, &execution, &kind, &body)
			r.Execution, r.Kind, r.Body, r.Owed = string(execution), string(kind), json.RawMessage(body), kind == owedRequest
			return r, err
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(out, func(a, b store.Request) int { return int(a.No - b.No) })
	return out, nil
}

// PutOutsideWork stores a row durably, or replaces it.
func (s *Store) PutOutsideWork(ctx context.Context, o store.OutsideWork) error {
	return s.transaction(ctx, "store work outside", func(tx pgx.Tx) error {
		if o.Held { // an attempt takes over its predecessors' work
			if _, err := tx.Exec(ctx, `DELETE FROM outside_work WHERE execution = $1 AND idx = $2 AND epoch < $3 AND held`, o.Execution, o.Step, int64(o.Epoch)); err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, `INSERT INTO outside_work (execution, idx, epoch, attempt, key, action, state, since, held, tries, next, error) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
ON CONFLICT (execution, idx, epoch) DO UPDATE SET attempt = excluded.attempt, state = excluded.state, since = excluded.since, held = excluded.held,
    tries = excluded.tries, next = excluded.next, error = excluded.error`,
			o.Execution, o.Step, int64(o.Epoch), o.Attempt, encode(o.StepKey), encode(o.Action), jsonOrNull(o.State), o.Since.UnixMicro(), o.Held, o.Tries, micros(o.Next), orNull(o.Error))
		return err
	})
}

// OutsideWork lists rows by execution, step and epoch.
func (s *Store) OutsideWork(ctx context.Context, execution int64, after store.OutsideWork, n int) ([]store.OutsideWork, error) {
	return list(ctx, s, func(row pgx.CollectableRow) (o store.OutsideWork, err error) {
		var key, action, problem, id text
		var state value
		var since instant
		var next int64
		err = row.Scan(&o.Execution, &o.Step, &o.Epoch, &o.Attempt, &key, &action, &state, &since, &o.Held, &o.Tries, &next, &problem, &id, &o.Ended, &o.Completed)
		o.StepKey, o.Action, o.State, o.Since, o.Error, o.ExecutionID = string(key), string(action), json.RawMessage(state), since.time(), string(problem), string(id)
		if next != 0 {
			o.Next = micro(next).UTC()
		}
		return o, err
	}, `SELECT w.execution, w.idx, w.epoch, w.attempt, w.key, w.action, w.state, w.since, w.held, w.tries, w.next, w.error,
    x.id, x.status >= 4 OR coalesce(r.status >= 5, false), coalesce(r.status = 5, false)
FROM outside_work w JOIN execution x ON x.no = w.execution LEFT JOIN step r ON r.execution = w.execution AND r.idx = w.idx
WHERE ($1::bigint = 0 OR w.execution = $1) AND (w.execution, w.idx, w.epoch) > ($2, $3, $4)
ORDER BY w.execution, w.idx, w.epoch LIMIT $5`, execution, after.Execution, after.Step, int64(after.Epoch), store.Limit(n, 1000, 10_000))
}

// DeleteOutsideWork removes a row.
func (s *Store) DeleteOutsideWork(ctx context.Context, execution int64, step int32, epoch uint32) error {
	_, err := s.change(ctx, "remove work outside", `DELETE FROM outside_work WHERE execution = $1 AND idx = $2 AND epoch = $3`, execution, step, int64(epoch))
	return err
}
