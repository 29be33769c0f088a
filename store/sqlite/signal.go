package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"math"

	"github.com/stepwell/stepwell/store"
)

// PutSignal stores a signal durably; fresh is false when one with its key and id was there already.
func (s *Store) PutSignal(ctx context.Context, x store.Signal) (fresh bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	err = s.transaction("store a signal in "+s.path, func(w *writer) error {
		n, err := w.change("signal_put", x.Key, x.ID, blob(x.Body), x.At.UnixMicro())
		fresh = n > 0
		return err
	})
	return fresh && err == nil, err
}

// KeepFirst stores a signal that no step will take, unless one has its key and id, and returns the stored body.
func (s *Store) KeepFirst(ctx context.Context, x store.Signal) (first json.RawMessage, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	err = s.transaction("store what has come in "+s.path, func(w *writer) error {
		if err := w.run("first_put", x.Key, x.ID, blob(x.Body), x.At.UnixMicro()); err != nil {
			return err
		}
		var body []byte
		err := w.conn.QueryRowContext(context.Background(), w.queries["first"], x.Key, x.ID).Scan(&body)
		first = body
		return err
	})
	return first, err
}

// SignalsFor gives the oldest signal of each key that no commit has taken.
func (s *Store) SignalsFor(ctx context.Context, keys []string) ([]store.Signal, error) {
	return list(ctx, s, func(rows *sql.Rows, x *store.Signal) error {
		var at sql.NullInt64
		var body []byte
		err := rows.Scan(&x.Key, &x.ID, &body, &at)
		x.Body, x.At = body, instant(at)
		return err
	}, s.sql["signals_for"], jsonList(keys))
}

// Awaiting lists the steps of unfinished executions that wait for one of the keys.
func (s *Store) Awaiting(ctx context.Context, keys []string) ([]store.Waiter, error) {
	return list(ctx, s, func(rows *sql.Rows, w *store.Waiter) error {
		w.Seen = s.now()
		return rows.Scan(&w.Key, &w.Execution, &w.Owner, &w.Step)
	}, s.sql["awaiting"], jsonList(keys))
}

// Kept is about how many bytes the signals take that no commit has taken.
func (s *Store) Kept(ctx context.Context) (bytes int64, err error) {
	err = s.read.QueryRowContext(ctx, s.sql["signals_kept"]).Scan(&bytes)
	return bytes, fault("read "+s.path, err)
}

// Outbox lists entries in the order of their commits.
func (s *Store) Outbox(ctx context.Context, after int64, n int) (out []store.Outgoing, err error) {
	return list(ctx, s, func(rows *sql.Rows, o *store.Outgoing) error {
		var at sql.NullInt64
		var body []byte
		err := rows.Scan(&o.No, &o.Kind, &o.Execution, &body, &at)
		o.Body, o.At = body, instant(at)
		return err
	}, s.sql["outgoing"], after, store.Limit(n, 1000, 10_000))
}

// Delivered removes entries. Missing ones are ignored.
func (s *Store) Delivered(ctx context.Context, nos []int64) error {
	if err := ctx.Err(); err != nil || len(nos) == 0 {
		return err
	}
	list, err := json.Marshal(nos)
	if err != nil {
		return err
	}
	return s.transaction("write to "+s.path, func(w *writer) error { return w.run("outgoing_delete", string(list)) })
}

// AppendAudit stores entries durably, in order.
func (s *Store) AppendAudit(ctx context.Context, entries []store.AuditEntry) error {
	if err := ctx.Err(); err != nil || len(entries) == 0 {
		return err
	}
	return s.transaction("write the audit log to "+s.path, func(w *writer) error {
		for i := range entries {
			e := &entries[i]
			if err := w.run("audit_put", e.At.UnixMicro(), e.Actor, text(e.Role), text(e.Remote), e.Action, text(e.Object), e.Result, blob(e.Detail)); err != nil {
				return err
			}
		}
		return nil
	})
}

// AuditEntries lists entries, newest first.
func (s *Store) AuditEntries(ctx context.Context, f store.AuditFilter) (out []store.AuditEntry, err error) {
	before, since := int64(math.MaxInt64), int64(math.MinInt64)
	if f.Before > 0 {
		before = f.Before
	}
	if !f.Since.IsZero() {
		since = f.Since.UnixMicro()
	}
	query := s.sql["audit"]
	if f.Object != "" {
		query = plain(query, "object", 5)
	}
	return list(ctx, s, func(rows *sql.Rows, e *store.AuditEntry) error {
		var at sql.NullInt64
		var role, remote, object sql.NullString
		var detail []byte
		err := rows.Scan(&e.No, &at, &e.Actor, &role, &remote, &e.Action, &object, &e.Result, &detail)
		e.At, e.Role, e.Remote, e.Object, e.Detail = instant(at), role.String, remote.String, object.String, detail
		return err
	}, query, before, since, f.Actor, f.Action, f.Object, store.Limit(f.Limit, 100, 1000))
}
