package sqlite

import (
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

// rescode is SQLite's own code of an error, 0 if it is not one of SQLite's.
func rescode(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code()
	}
	return 0
}

// fault explains an error of SQLite and names the remedy. Stepwell's own errors pass through, others are wrapped with
// the operation.
func fault(op string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*stepwell.Error](err); ok {
		return err
	}
	for _, f := range faults {
		if rescode(err)&0xff == f.rescode {
			if f.code == stepwell.CodeUnavailable {
				return store.Away(op, f.message, f.hint, err)
			}
			return &stepwell.Error{Code: f.code, Message: op + ": " + f.message, Hint: f.hint, Err: err}
		}
	}
	return fmt.Errorf("%s: %w", op, err)
}

var faults = []struct {
	rescode       int
	code          stepwell.Code
	message, hint string
}{
	{sqlite3.SQLITE_FULL, stepwell.CodeUnavailable, "the disk is full", "free some space; nothing that was reported as done is lost"},
	{sqlite3.SQLITE_BUSY, stepwell.CodeUnavailable, "another process has been writing for too long", "try again, or stop the other process"},
	{sqlite3.SQLITE_LOCKED, stepwell.CodeUnavailable, "another connection is writing", "try again"},
	{sqlite3.SQLITE_NOTADB, stepwell.CodeInvalid, "the file is not a database", "use another --db"},
	{sqlite3.SQLITE_CORRUPT, stepwell.CodeInternal, "the database is damaged", "restore a copy, or save what is left with: sqlite3 FILE .recover"},
	{sqlite3.SQLITE_READONLY, stepwell.CodeUnavailable, "the file or its directory is read-only", "change its permissions, or use another --db"},
	{sqlite3.SQLITE_CANTOPEN, stepwell.CodeUnavailable, "the file cannot be opened or created", "check the permissions of the file and its directory, or use another --db"},
	{sqlite3.SQLITE_IOERR, stepwell.CodeUnavailable, "the disk reports an error", "check the disk and its file system"},
	{sqlite3.SQLITE_TOOBIG, stepwell.CodeLimit, "a value is larger than SQLite takes", "keep large values in files"},
	{sqlite3.SQLITE_NOMEM, stepwell.CodeUnavailable, "there is no memory left", ""},
}
