package sqlite

import (
	"context"
	"database/sql"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	sqlite3 "modernc.org/sqlite/lib"
)

const (
	busyTimeout = "10000" // ms that SQLite itself waits for another process
	readers     = 4
	// walLimit is the length in bytes to which the write-ahead log is cut when it starts over after it has grown
	// beyond, as it does during a backup.
	walLimit = "67108864"
	// The write-ahead log is made this long at the start: a commit then overwrites it, which is 1.6
	// times as fast as extending it. SQLite starts over after 1,000 pages.
	warmPages = 1100
)

// dsn is the address of a database for the driver.
func dsn(path string, params url.Values) string {
	params.Add("_pragma", "busy_timeout("+busyTimeout+")") // the driver applies this one first
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // a drive's letter comes first
	}
	u := url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: params.Encode()}
	return u.String()
}

// openPool opens the connections that read. They cannot write.
func openPool(path string, only bool) (*sql.DB, error) {
	params := url.Values{"_pragma": {"query_only(1)"}}
	if only {
		params.Set("mode", "ro")
	}
	db, err := sql.Open("sqlite", dsn(path, params))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(readers)
	db.SetMaxIdleConns(readers)
	return db, nil
}

// openWriterDB opens the one connection that writes.
func openWriterDB(path, synchronous string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", dsn(path, url.Values{"_txlock": {"immediate"},
		"_pragma": {"journal_mode(wal)", "synchronous(" + synchronous + ")", "temp_store(memory)", "journal_size_limit(" + walLimit + ")"}}))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return db, nil
}

// prewarm lengthens the write-ahead log. A transaction that is larger than its cache spills into
// the log, and rolling it back leaves the length without leaving a trace in the database.
func prewarm(ctx context.Context, conn *sql.Conn) error {
	for _, text := range []string{
		"PRAGMA cache_size = 16", "PRAGMA cache_spill = 16", "BEGIN IMMEDIATE", "CREATE TABLE warm (piece BLOB)",
	} {
		if _, err := conn.ExecContext(ctx, text); err != nil {
			return err
		}
	}
	_, err := conn.ExecContext(ctx, `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
		INSERT INTO warm SELECT zeroblob(65000) FROM n`, warmPages/16)
	for _, text := range []string{"ROLLBACK", "PRAGMA cache_size = -8000", "PRAGMA cache_spill = 1"} {
		if _, undo := conn.ExecContext(ctx, text); err == nil {
			err = undo
		}
	}
	return err
}

// busyPatience bounds the repetitions where SQLite answers "busy" without having waited, as it does
// while another process recovers the write-ahead log or turns it on.
const busyPatience = 2 * time.Second

// patiently retries f while another process blocks it for a moment.
func patiently(ctx context.Context, f func() error) error {
	begun := time.Now()
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		err := f()
		if rescode(err)&0xff != sqlite3.SQLITE_BUSY || time.Since(begun) > busyPatience {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}
