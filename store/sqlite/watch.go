package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// Watch calls f soon after somebody, in this process or another, has left a request: about every
// interval it asks a connection of its own whether the file has changed (PRAGMA data_version, a
// look at shared memory), and only then whether there is a request. It calls f once at the
// beginning if requests are there already, and again as long as f leaves some. It ends with ctx,
// returning nil, or with the first error.
func (s *Store) Watch(ctx context.Context, interval time.Duration, f func()) error {
	w, err := s.watcher(ctx)
	if err != nil {
		return s.watchEnd(ctx, err)
	}
	defer w.db.Close()
	defer w.conn.Close()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		pending, err := w.once(ctx)
		if err != nil {
			return s.watchEnd(ctx, err)
		}
		if pending {
			f()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (s *Store) watchEnd(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return fault("watch "+s.path, err)
}

// watcher is the connection that Watch asks.
type watcher struct {
	queries queries
	conn    *sql.Conn
	db      *sql.DB
	version int64
	pending bool
}

// watcher opens a connection outside the pool: data_version is per connection.
func (s *Store) watcher(ctx context.Context) (*watcher, error) {
	db, err := openPool(s.path, false)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &watcher{queries: s.sql, conn: conn, db: db, version: -1}, nil
}

// once reports whether there is a request. It looks only when the file has changed since the last
// time, or when there was one then.
func (w *watcher) once(ctx context.Context) (bool, error) {
	var version int64
	if err := w.conn.QueryRowContext(ctx, w.queries["data_version"]).Scan(&version); err != nil {
		return false, err
	}
	if version == w.version && !w.pending {
		return false, nil
	}
	w.version = version
	err := w.conn.QueryRowContext(ctx, w.queries["requests_pending"]).Scan(&w.pending)
	return w.pending, err
}
