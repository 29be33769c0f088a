package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// statement is one of a batch; its parameters are in binary form.
type statement struct {
	sql    string
	params [][]byte
}

// link is a connection that sends batches. It is opened when it is needed, and again after it was lost.
type link struct {
	config   *pgx.ConnConfig
	prepares bool // false: behind a pooler that keeps no statements
	conn     *pgconn.PgConn
	names    map[string]string // of prepared statements, by text
	opened   int               // how many connections there have been
	deadline time.Duration     // for the answer to a batch; 0: batchDeadline

	statements int64 // that have been sent
}

// batchDeadline bounds the wait for the answer to a batch. A server that has not answered by then is taken for lost.
const batchDeadline = 15 * time.Second

func (l *link) patience() time.Duration { return cmp.Or(l.deadline, batchDeadline) }

// open makes sure that there is a connection.
func (l *link) open(ctx context.Context) (err error) {
	if l.conn != nil && !l.conn.IsClosed() {
		return nil
	}
	l.conn, l.names = nil, map[string]string{}
	if l.conn, err = pgconn.ConnectConfig(ctx, &l.config.Config); err != nil {
		return err
	}
	l.opened++
	return nil
}

// send runs statements as one transaction: they are pipelined, so that they cost one round trip. An error that is
// unknown leaves open whether they were committed.
func (l *link) send(ctx context.Context, list []statement) error {
	ctx, cancel := context.WithTimeout(ctx, l.patience())
	defer cancel()
	if err := l.open(ctx); err != nil {
		return err
	}
	b := &pgconn.Batch{}
	l.statements += int64(len(list))
	for i := range list {
		x := &list[i]
		if !l.prepares {
			b.ExecParams(x.sql, x.params, nil, binaryFormat, nil)
			continue
		}
		name, err := l.prepared(ctx, x.sql)
		if err != nil {
			return err
		}
		b.ExecPrepared(name, x.params, binaryFormat, nil)
	}
	err := l.conn.ExecBatch(ctx, b).Close()
	if unknown(err) {
		err = &unknownError{err}
		l.close()
	}
	return err
}

// binaryFormat is the format of all parameters.
var binaryFormat = []int16{1}

func (l *link) prepared(ctx context.Context, sql string) (string, error) {
	name, ok := l.names[sql]
	if ok {
		return name, nil
	}
	name = fmt.Sprint("s", len(l.names))
	if _, err := l.conn.Prepare(ctx, name, sql, nil); err != nil {
		return "", err
	}
	l.names[sql] = name
	return name, nil
}

// close ends the connection. The server undoes what was under way, unless it is committing it.
func (l *link) close() {
	if l.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = l.conn.Close(ctx) // a lost connection cannot say goodbye
	l.conn = nil
}

// unknownError is the loss of a connection while a transaction was under way: it may have been committed.
type unknownError struct{ err error }

func (e *unknownError) Error() string { return e.err.Error() }
func (e *unknownError) Unwrap() error { return e.err }

// unknown reports whether a transaction that ended with an error may have been committed.
func unknown(err error) bool {
	if err == nil || pgconn.SafeToRetry(err) {
		return false
	}
	e, ok := errors.AsType[*pgconn.PgError](err)
	return !ok || e.SeverityUnlocalized != "ERROR" && e.Severity != "ERROR" || e.Code == completionUnknown
}
