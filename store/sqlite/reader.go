package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"sync"
)

// reader is the connections that read, with prepared statements: SQLite takes longer to parse most of the queries
// than to run them. (Texts have LIMIT +?, not LIMIT ?, where SQLite would read the value and reprepare with each.)
type reader struct {
	*sql.DB
	mu    sync.Mutex
	stmts map[string]*sql.Stmt // by their text; the texts are this package's own, so there are few
}

func newReader(db *sql.DB) *reader { return &reader{DB: db, stmts: map[string]*sql.Stmt{}} }

// QueryContext is that of sql.DB.
func (r *reader) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	stmt, err := r.prepared(ctx, query)
	if err != nil {
		return nil, err
	}
	return stmt.QueryContext(ctx, args...)
}

// QueryRowContext is that of sql.DB.
func (r *reader) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	stmt, err := r.prepared(ctx, query)
	if err != nil { // asking without one gives the error as a row
		return r.DB.QueryRowContext(ctx, query, args...)
	}
	return stmt.QueryRowContext(ctx, args...)
}

func (r *reader) prepared(ctx context.Context, query string) (*sql.Stmt, error) {
	r.mu.Lock()
	stmt := r.stmts[query]
	r.mu.Unlock()
	if stmt != nil {
		return stmt, nil
	}
	stmt, err := r.PrepareContext(ctx, query) // without the lock: it may wait for a connection
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if first := r.stmts[query]; first != nil {
		return first, stmt.Close()
	}
	r.stmts[query] = stmt
	return stmt, nil
}

// Close ends the statements with the connections.
func (r *reader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	for _, stmt := range r.stmts {
		errs = append(errs, stmt.Close())
	}
	clear(r.stmts)
	return errors.Join(append(errs, r.DB.Close())...)
}
