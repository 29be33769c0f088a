package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5"

	"github.com/stepwell/stepwell/store"
)

const putSignal = `INSERT INTO signal (key, id, body, at, taken) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING`

// PutSignal stores a signal durably; fresh is false when one with its key and id was there already.
func (s *Store) PutSignal(ctx context.Context, x store.Signal) (fresh bool, err error) {
	n, err := s.change(ctx, "store a signal", putSignal, encode(x.Key), encode(x.ID), jsonOrNull(x.Body), x.At.UnixMicro(), nil)
	return n > 0 && err == nil, err
}

// KeepFirst stores a signal that no step will take, unless one has its key and id, and returns the stored body.
func (s *Store) KeepFirst(ctx context.Context, x store.Signal) (first json.RawMessage, err error) {
	for range commitTries { // retention may remove one in between
		if _, err := s.change(ctx, "store a signal", putSignal, encode(x.Key), encode(x.ID), jsonOrNull(x.Body), x.At.UnixMicro(), 0); err != nil {
			return nil, err
		}
		var body value
		there, err := s.one(ctx, []any{&body}, `SELECT body FROM signal WHERE key = $1 AND id = $2`, encode(x.Key), encode(x.ID))
		if err != nil || there {
			return json.RawMessage(body), err
		}
	}
	return nil, store.Away("store a signal", "it is removed all the time", "try again", errors.New("removed"))
}

// SignalsFor gives the oldest signal of each key that no commit has taken.
func (s *Store) SignalsFor(ctx context.Context, keys []string) ([]store.Signal, error) {
	return list(ctx, s, func(row pgx.CollectableRow) (x store.Signal, err error) {
		var key, id text
		var body value
		var at instant
		err = row.Scan(&key, &id, &body, &at)
		x.Key, x.ID, x.Body, x.At = string(key), string(id), json.RawMessage(body), at.time()
		return x, err
	}, `SELECT s.key, s.id, s.body, s.at FROM unnest($1::text[]) AS k (key)
    CROSS JOIN LATERAL (SELECT * FROM signal WHERE key = k.key AND taken IS NULL ORDER BY at, id LIMIT 1) s`, texts(keys))
}

// Awaiting lists the steps of unfinished executions that wait for one of the keys.
func (s *Store) Awaiting(ctx context.Context, keys []string) ([]store.Waiter, error) {
	return list(ctx, s, func(row pgx.CollectableRow) (w store.Waiter, err error) {
		var key, id text
		var owner number
		err = row.Scan(&key, &id, &owner, &w.Step, &w.Seen)
		w.Key, w.Execution, w.Owner = string(key), string(id), int64(owner)
		return w, err
	}, `SELECT w.external, x.id, x.owner, w.idx, clock_timestamp()
FROM waiting w JOIN execution_live x ON x.no = w.execution
    JOIN step r ON r.execution = w.execution AND r.idx = w.idx AND r.status = 4 AND r.external = w.external AND r.superseded IS NULL
WHERE w.external = ANY ($1) ORDER BY w.execution, w.idx`, texts(keys))
}

// Unheard lists keys of pending signals, at most limit, that steps of unfinished executions of an owner wait for.
func (s *Store) Unheard(ctx context.Context, owner int64, limit int) ([]string, error) {
	return list(ctx, s, func(row pgx.CollectableRow) (string, error) {
		var key text
		err := row.Scan(&key)
		return string(key), err
	}, `SELECT DISTINCT w.external
FROM signal s JOIN waiting w ON w.external = s.key JOIN execution_live x ON x.no = w.execution AND x.owner = $1
    JOIN step r ON r.execution = w.execution AND r.idx = w.idx AND r.status = 4 AND r.external = w.external AND r.superseded IS NULL
WHERE s.taken IS NULL LIMIT $2`, owner, limit)
}

// Kept is about how many bytes the signals take that no commit has taken.
func (s *Store) Kept(ctx context.Context) (bytes int64, err error) {
	_, err = s.one(ctx, []any{&bytes}, `SELECT coalesce(sum(octet_length(key) + coalesce(octet_length(body), 0) + 200), 0)::bigint FROM signal WHERE taken IS NULL`)
	return bytes, err
}

// Outbox lists entries in the order of their numbers. With several writers, numbers may be committed in another order than
// they were given: begin at 0 and delete what is delivered.
func (s *Store) Outbox(ctx context.Context, after int64, n int) ([]store.Outgoing, error) {
	return list(ctx, s, func(row pgx.CollectableRow) (o store.Outgoing, err error) {
		var kind, execution text
		var body value
		var at instant
		err = row.Scan(&o.No, &kind, &execution, &body, &at)
		o.Kind, o.Execution, o.Body, o.At = string(kind), string(execution), json.RawMessage(body), at.time()
		return o, err
	}, `SELECT no, kind, execution, body, at FROM outgoing WHERE no > $1 ORDER BY no LIMIT $2`, after, store.Limit(n, 1000, 10_000))
}

// Delivered removes entries. Missing ones are ignored.
func (s *Store) Delivered(ctx context.Context, nos []int64) error {
	if err := ctx.Err(); err != nil || len(nos) == 0 {
		return err
	}
	_, err := s.change(ctx, "remove from the outbox", `DELETE FROM outgoing WHERE no = ANY ($1)`, nos)
	return err
}

// AppendAudit stores entries durably, in order.
func (s *Store) AppendAudit(ctx context.Context, entries []store.AuditEntry) error {
	if err := ctx.Err(); err != nil || len(entries) == 0 {
		return err
	}
	return s.transaction(ctx, "write the audit log", func(tx pgx.Tx) error {
		b := &pgx.Batch{}
		for i := range entries {
			e := &entries[i]
			b.Queue(`INSERT INTO audit (at, actor, role, remote, action, object, result, detail) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
				e.At.UnixMicro(), encode(e.Actor), orNull(e.Role), orNull(e.Remote), encode(e.Action), orNull(e.Object), encode(e.Result), jsonOrNull(e.Detail))
		}
		return tx.SendBatch(ctx, b).Close()
	})
}

// AuditEntries lists entries, newest first.
func (s *Store) AuditEntries(ctx context.Context, f store.AuditFilter) ([]store.AuditEntry, error) {
	at, since := int64(math.MaxInt64), int64(math.MinInt64)
	if f.Before > 0 {
		there, err := s.one(ctx, []any{&at}, `SELECT at FROM audit WHERE no = $1`, f.Before)
		if err != nil {
			return nil, err
		}
		if !there { // removed meanwhile, as all older ones
			return nil, nil
		}
	}
	if !f.Since.IsZero() {
		since = f.Since.UnixMicro()
	}
	where, args := "", []any{at, f.Before, since, store.Limit(f.Limit, 100, 1000)}
	for _, x := range []struct{ column, value string }{{"actor", f.Actor}, {"action", f.Action}, {"object", f.Object}} {
		if x.value != "" {
			args = append(args, encode(x.value))
			where += fmt.Sprintf(" AND %s = $%d", x.column, len(args))
		}
	}
	return list(ctx, s, func(row pgx.CollectableRow) (e store.AuditEntry, err error) {
		var at instant
		var actor, role, remote, action, object, result text
		var detail value
		err = row.Scan(&e.No, &at, &actor, &role, &remote, &action, &object, &result, &detail)
		e.At, e.Actor, e.Role, e.Remote, e.Action, e.Object, e.Result, e.Detail = at.time(), string(actor), string(role), string(remote), string(action), string(object), string(result), json.RawMessage(detail)
		return e, err
	}, `SELECT no, at, actor, role, remote, action, object, result, detail FROM audit WHERE (at, no) < ($1, $2) AND at >= $3`+where+` ORDER BY at DESC, no DESC LIMIT $4`, args...)
}
