package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

// AppendLogs stores lines in order. They survive the death of the process at once, and a loss of
// power from the next commit on: lines alone are not worth a wait for the disk.
func (s *Store) AppendLogs(ctx context.Context, lines []store.LogLine) error {
	if err := ctx.Err(); err != nil || len(lines) == 0 {
		return err
	}
	return s.relaxed("write logs to "+s.path, func(w *writer) error { return w.lines(lines) })
}

// relaxed is transaction without a wait for the disk: the next commit that waits for it makes this one durable too.
func (s *Store) relaxed(op string, f func(*writer) error) error {
	w, err := s.writing()
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return fault(op, w.relaxed(f))
}

func (w *writer) relaxed(f func(*writer) error) error {
	if w.quick {
		return w.transaction(f)
	}
	ctx := context.Background()
	if _, err := w.conn.ExecContext(ctx, "PRAGMA synchronous = normal"); err != nil {
		return err
	}
	err := w.transaction(f)
	_, back := w.conn.ExecContext(ctx, "PRAGMA synchronous = full")
	return errors.Join(err, back)
}

func (w *writer) lines(lines []store.LogLine) error {
	for i := range lines {
		l := &lines[i]
		level, err := store.LevelNumber(l.Level)
		if err != nil {
			return err
		}
		if err := execute(w.logLine, l.Execution, int64(l.Step), l.StepKey, int64(l.Attempt), l.At.UnixMicro(), int64(level), l.Message, blob(l.Attrs)); err != nil {
			return err
		}
	}
	return nil
}

// PutDefinition stores a snapshot under its hash. A stored one costs no transaction.
func (s *Store) PutDefinition(ctx context.Context, hash, body []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w, err := s.writing()
	if err != nil {
		return err
	}
	s.used.definition(hash) // before a removal
	w.mu.Lock()
	defer w.mu.Unlock()
	var one int
	err = w.stored.QueryRowContext(context.Background(), hash).Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		err = w.transaction(func(w *writer) error { return execute(w.definition, hash, string(body)) })
	}
	return fault("store a definition in "+s.path, err)
}

// PutMemo stores a memo durably; the first value of a key stays.
func (s *Store) PutMemo(ctx context.Context, m store.Memo) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.transaction("store a memo in "+s.path, func(w *writer) error {
		n, err := w.change("memo", m.Execution, int64(m.Step), m.Key, string(m.Value), int64(m.Epoch))
		if err != nil || n > 0 {
			return err
		}
		var late bool
		err = w.conn.QueryRowContext(context.Background(), w.queries["memo_refused"], m.Execution, m.Step, m.Epoch).Scan(&late)
		if err == nil && late {
			err = &stepwell.Error{Code: stepwell.CodeConflict, Message: fmt.Sprintf("step %d of execution %d has been restarted: the attempt no longer counts", m.Step, m.Execution)}
		}
		return err
	})
}

// PutRequest leaves a request for the process that runs executions; see Watch.
func (s *Store) PutRequest(ctx context.Context, r store.Request) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.transaction("leave a request in "+s.path, func(w *writer) error {
		return w.run("request", r.Execution, r.Kind, blob(r.Body), r.Owner)
	})
}

// TakeRequests removes and returns up to limit requests, oldest first. Each is returned once,
// whichever process asks.
func (s *Store) TakeRequests(ctx context.Context, owner int64, limit int) (out []store.Request, err error) {
	if pending, err := s.RequestsPending(ctx); err != nil || !pending || limit <= 0 {
		return nil, err
	}
	err = s.transaction("take requests from "+s.path, func(w *writer) error {
		return eachRow(context.Background(), w.conn, into(&out, func(rows *sql.Rows, r *store.Request) error {
			var body []byte
			err := rows.Scan(&r.No, &r.Execution, &r.Kind, &body, &r.Owner)
			r.Body = body
			return err
		}), w.queries["take_requests"], owner, limit)
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(out, func(a, b store.Request) int { return int(a.No - b.No) })
	return out, nil
}

// RequestDone implements store.Committer: TakeRequests has removed it.
func (s *Store) RequestDone(context.Context, int64) error { return nil }

// RequestsPending reports whether there is a request. It does not wait for the writer.
func (s *Store) RequestsPending(ctx context.Context) (yes bool, err error) {
	err = s.read.QueryRowContext(ctx, s.sql["requests_pending"]).Scan(&yes)
	return yes, fault("look for requests in "+s.path, err)
}
