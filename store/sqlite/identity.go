package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/stepwell/stepwell"
)

// identity is the database's record of itself.
type identity struct {
	id     string
	home   string // "": it has not been opened for running executions
	copied int64  // µs; 0: it is no copy
}

// Resolve gives the path of a database file without symbolic links, so that its companion files are found under every
// name. The file need not exist.
func Resolve(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) { // its directory may be a link
		var dir string
		if dir, err = filepath.EvalSymlinks(filepath.Dir(path)); errors.Is(err, fs.ErrNotExist) {
			return path, nil // the open reports it
		}
		real = filepath.Join(dir, filepath.Base(path))
		if to, linkErr := os.Readlink(path); err == nil && linkErr == nil { // a link to a file that does not exist yet
			if !filepath.IsAbs(to) {
				to = filepath.Join(dir, to)
			}
			return filepath.Clean(to), nil
		}
	}
	if err != nil {
		return "", &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "find " + path, Hint: "check the permissions of its directories, or use another --db", Err: err}
	}
	return real, nil
}

// readIdentity is zero for a database of a version that had none.
func readIdentity(ctx context.Context, db *sql.DB, q queries) (x identity, err error) {
	there := 0
	if err := db.QueryRowContext(ctx, q["identity_exists"]).Scan(&there); err != nil || there == 0 {
		return x, err
	}
	err = db.QueryRowContext(ctx, q["identity"]).Scan(&x.id, &x.home, &x.copied)
	return x, err
}

// admits refuses to write to a copy that was not taken over, and to use a file under one name while its write-ahead
// log and blobs are under another.
func (s *Store) admits(x identity, o *Options) error {
	if x.copied != 0 && !o.ReadOnly && !s.takeOver {
		return &stepwell.Error{Code: stepwell.CodeConflict, Message: fmt.Sprintf("%s is a copy of %s, which can only be read", s.path, instantText(x.copied)),
			Hint: "to continue with it: stepwell restore " + s.path}
	}
	if x.home == "" || x.home == s.path || !linked(s.path) {
		return nil
	}
	here, err := os.Stat(s.path)
	if err != nil {
		return err
	}
	if there, err := os.Stat(x.home); err != nil || !os.SameFile(here, there) {
		return nil // it was moved
	}
	return &stepwell.Error{Code: stepwell.CodeConflict, Message: fmt.Sprintf("%s is a second name of the database %s", s.path, x.home),
		Hint: "use --db " + x.home + ": what belongs to the database is beside that name"}
}

func instantText(us int64) string { return time.UnixMicro(us).UTC().Format(time.RFC3339) }

// settle notes under which name the database is used. That must be in the file itself and not only in its log, which is
// found by the name.
func (s *Store) settle(ctx context.Context, db *sql.DB, x identity) error {
	if x.home == s.path {
		return nil
	}
	if _, err := db.ExecContext(ctx, s.sql["identity_home"], s.path); err != nil {
		return err
	}
	_, err := db.ExecContext(ctx, "PRAGMA wal_checkpoint(FULL)")
	return err
}

// ID names the blobs, keys and objects that are the database's own. A copy has the same.
func (s *Store) ID() string { return s.identity.id }

// Copied is when this copy was made; zero if it is no copy, or was taken over.
func (s *Store) Copied() time.Time {
	if s.identity.copied == 0 {
		return time.Time{}
	}
	return time.UnixMicro(s.identity.copied)
}
