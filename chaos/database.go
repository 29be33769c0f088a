package chaos

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// retry calls do until the database has answered it, or ctx ends. A fault ends the trial's own connections too, and each of the pool fails
// the next statement on it. An error of the statement itself is returned at once. The database may do twice what do asks it for.
func retry(ctx context.Context, do func() error) error {
	for {
		err := do()
		if err == nil || !away(err) {
			return err
		}
		if wait(ctx, 100*time.Millisecond); ctx.Err() != nil {
			return err
		}
	}
}

// read returns the rows of a query.
func read[T any](ctx context.Context, db *pgxpool.Pool, to pgx.RowToFunc[T], query string, args ...any) (found []T, err error) {
	err = retry(ctx, func() error {
		rows, err := db.Query(ctx, query, args...)
		if err == nil {
			found, err = pgx.CollectRows(rows, to)
		}
		return err
	})
	return found, err
}

// exec runs a statement of a fault, which the end of the disturbing does not cut off.
func (t *trial) exec(ctx context.Context, query string, args ...any) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	return retry(ctx, func() error { _, err := t.db.Exec(ctx, query, args...); return err })
}

// lock holds tables against everybody until the transaction ends.
func (t *trial) lock(ctx context.Context, tables string) (tx pgx.Tx, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	err = retry(ctx, func() (err error) {
		if tx, err = t.db.Begin(ctx); err != nil {
			return err
		}
		if _, err = tx.Exec(ctx, "LOCK TABLE "+tables+" IN ACCESS EXCLUSIVE MODE"); err != nil {
			_ = tx.Rollback(ctx) // ended already where the connection has
		}
		return err
	})
	return tx, err
}

// passing begins the codes of errors after which the same statement may succeed: connections that end, a server that stops or starts, and
// a deadlock.
var passing = []string{"08", "57P01", "57P02", "57P03", "40"}

// away reports whether an error is that of the connection or of a server that stops or starts, not of the statement.
func away(err error) bool {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		for _, code := range passing {
			if strings.HasPrefix(pg.Code, code) {
				return true
			}
		}
		return false
	}
	_, network := errors.AsType[net.Error](err)
	_, connecting := errors.AsType[*pgconn.ConnectError](err)
	return network || connecting || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || pgconn.SafeToRetry(err)
}
