package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"time"
)

// Health is the result of a check of a database file.
type Health struct {
	Version, Wanted int       // of the tables, and of this program; Version 0: a new file
	Problems        []string  // of SQLite's own check, at most 100; none when the file is sound
	Size            int64     // of the file, in bytes
	Log             int64     // of the write-ahead log, in bytes
	Holder          string    // process id of its runner of executions, "" for none
	Copied          time.Time // when this copy was made; zero: not a copy
}

// Check checks a database that may be in use and changes nothing. It reads the whole file, about a second for each
// gigabyte. Errors have the codes of Open.
func Check(ctx context.Context, path string) (h *Health, err error) {
	if path, err = Resolve(path); err != nil {
		return nil, fault("check "+path, err)
	}
	s := &Store{path: path}
	if err := s.checkFile(&Options{ReadOnly: true}); err != nil {
		return nil, fault("check "+path, err)
	}
	db, err := openPool(path, true)
	if err != nil {
		return nil, fault("check "+path, err)
	}
	defer func() { err = errors.Join(err, fault("check "+path, db.Close())) }()
	h = &Health{}
	if h.Version, h.Wanted, err = version(ctx, db); err != nil {
		return nil, fault("check "+path, err)
	}
	q, err := loadQueries()
	if err != nil {
		return nil, fault("check "+path, err)
	}
	if s.identity, err = readIdentity(ctx, db, q); err != nil {
		return nil, fault("check "+path, err)
	}
	h.Copied = s.Copied()
	if h.Problems, err = quickCheck(ctx, db); err != nil {
		return nil, fault("check "+path, err)
	}
	h.Size, h.Log = fileSize(path), fileSize(path+"-wal")
	if l := newLock(path); fileSize(l.Path()) > 0 {
		if free, err := l.TryRLock(); err == nil && !free {
			h.Holder = s.holder()
		}
		_ = l.Close() // nothing was written
	}
	return h, nil
}

func quickCheck(ctx context.Context, db *sql.DB) (problems []string, err error) {
	rows, err := db.QueryContext(ctx, "PRAGMA quick_check(100)")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, err
		}
		if text != "ok" {
			problems = append(problems, text)
		}
	}
	return problems, rows.Err()
}

func fileSize(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}
