// Package sqlite is the embedded store: one file, nothing to install.
//
// One connection writes, and a small pool reads; both see a write-ahead log, so readers never wait
// for the writer nor it for them. A Commit is one transaction of one fsync, whatever the number of
// executions and steps in it (docs/decisions.md, "commit path"). With Exclusive, this process is
// the only one that runs the executions of the file; others may read, and leave requests, at any
// time. The views pipeline_steps and pipeline_step_log show everything in SQL.
//
// Stability: the tables are private and change by migration; the two views are kept.
package sqlite

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

// Options are store.Options. Path is the file, whose directory must exist; "" and ":memory:" are a private one that Close
// removes.
type Options = store.Options

func validate(o *Options) error {
	if o.ReadOnly && private(o.Path) {
		return &stepwell.Error{Code: stepwell.CodeInvalid, Message: "a private database cannot be read-only"}
	}
	return o.Validate()
}

func private(path string) bool { return path == "" || path == ":memory:" }

// Store is an open database. Its methods may be called from many goroutines.
type Store struct {
	path  string
	temp  string // directory to remove, "" if none
	sql   queries
	now   func() time.Time
	lock  *flock.Flock
	let   func() error // releases the file; nil: not held
	write *writer      // nil: read-only
	read  *reader      // nil: not yet
	blobs *store.Folder
	identity
	takeOver bool // a copy may be written to

	closing sync.Once
	closed  error
	copying sync.Mutex // held by BackupInto

	ids   idCache
	used  used
	bad   store.Unremovable
	sweep store.Sweep

	halves sync.Mutex // held while two connections read the halves of what one caller wants
}

var _ store.Store = (*Store)(nil)

// Open opens a database, creating or migrating it first where needed. Errors have codes:
// CodeConflict when another process claims the file (Exclusive), CodeInvalid when the file is not
// one of Stepwell's or of a later version, CodeNotFound when there is none to read,
// CodeUnavailable when the file system refuses. A copy made by Backup can only be read (CodeConflict), until TakeOver.
func Open(ctx context.Context, o Options) (*Store, error) { return openAs(ctx, o, false) }

// openAs is Open, also of a copy, to make it a database of its own.
func openAs(ctx context.Context, o Options, takeOver bool) (*Store, error) {
	if err := validate(&o); err != nil {
		return nil, err
	}
	s := &Store{path: o.Path, now: o.Now, takeOver: takeOver}
	if err := s.open(ctx, &o); err != nil {
		return nil, errors.Join(fault("open "+s.path, err), s.Close())
	}
	return s, nil
}

// open runs the steps in order; after a failure Close closes the opened ones.
func (s *Store) open(ctx context.Context, o *Options) (err error) {
	if s.sql, err = loadQueries(); err != nil {
		return err
	}
	if private(s.path) {
		if s.temp, err = os.MkdirTemp("", "stepwell-"); err != nil {
			return err
		}
		s.path = filepath.Join(s.temp, "store.db")
	}
	if s.path, err = Resolve(s.path); err != nil {
		return err
	}
	if err = s.checkFile(o); err != nil {
		return err
	}
	s.blobs = store.NewFolder(s.path + ".blobs")
	if o.Exclusive {
		if err = s.claim(ctx, o.Log); err != nil {
			return err
		}
	}
	if err = s.hold(o.Exclusive); err != nil {
		return err
	}
	if !o.ReadOnly {
		if err = s.openWriter(ctx, o); err != nil {
			return err
		}
	}
	pool, err := openPool(s.path, o.ReadOnly)
	if err != nil {
		return err
	}
	s.read = newReader(pool)
	if !o.ReadOnly {
		return nil
	}
	if err := s.checkVersion(ctx, pool); err != nil {
		return err
	}
	if s.identity, err = readIdentity(ctx, pool, s.sql); err != nil {
		return err
	}
	return s.admits(s.identity, o)
}

// hold keeps other processes from running executions of the file under another name.
func (s *Store) hold(exclusive bool) error {
	let, ok, err := hold(s.path, exclusive)
	switch {
	case errors.Is(err, os.ErrNotExist): // it could not be made: SQLite says why
		return nil
	case err != nil:
		return err
	case !ok:
		return s.claimed(", under another name of the file,")
	}
	s.let = let
	return nil
}

// checkFile finds faults that SQLite would report in its own words.
func (s *Store) checkFile(o *Options) error {
	dir := filepath.Dir(s.path)
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) && !o.ReadOnly {
		return &stepwell.Error{Code: stepwell.CodeNotFound, Message: "the directory " + dir + " does not exist", Hint: "create it, or use another --db"}
	}
	info, err := os.Stat(s.path)
	switch {
	case errors.Is(err, os.ErrNotExist) && o.ReadOnly:
		return &stepwell.Error{Code: stepwell.CodeNotFound, Message: "there is no database " + s.path, Hint: "run a pipeline first, or use another --db"}
	case err == nil && info.IsDir():
		return &stepwell.Error{Code: stepwell.CodeInvalid, Message: s.path + " is a directory, not a database", Hint: "use another --db"}
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return err
	case err != nil:
		// Created here for its mode: executions' parameters and outputs are private.
		if f, err := os.OpenFile(s.path, os.O_CREATE|os.O_RDWR, 0o600); err == nil {
			return f.Close()
		} // else SQLite fails at the same, and says why
	}
	return nil
}

// Path is the database file.
func (s *Store) Path() string { return s.path }

// Blobs stores large outputs in a folder next to the database.
func (s *Store) Blobs() store.Blobs { return s.blobs }

// Close ends everything. The store must not be in use. Closing once more changes nothing.
func (s *Store) Close() error {
	s.closing.Do(func() { s.closed = s.close() })
	return s.closed
}

func (s *Store) close() error {
	var errs []error
	if s.read != nil {
		errs = append(errs, s.read.Close())
	}
	if s.write != nil {
		errs = append(errs, s.write.close())
	}
	if s.let != nil {
		errs = append(errs, s.let())
	}
	errs = append(errs, s.unclaim())
	if s.temp != "" {
		errs = append(errs, os.RemoveAll(s.temp))
	}
	return errors.Join(errs...)
}
