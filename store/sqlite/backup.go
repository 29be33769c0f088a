package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"modernc.org/sqlite"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

// backupPages is how many pages are copied between two looks at the context: 4 MiB.
const backupPages = 1024

// Backup writes a copy of the database as of one moment to path, and of its blobs to path.blobs. Commits go on
// meanwhile and grow the write-ahead log. The copy appears at its path when it is whole. It has the same id, is
// read-only until TakeOver, and has the time of its making. Missing or damaged blobs are so in the copy too: see
// Verify. Progress, which may be nil, counts pages and, after them, blobs.
func (s *Store) Backup(ctx context.Context, path string, progress func(done, total int)) error {
	if progress == nil {
		progress = func(int, int) {}
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	for _, name := range []string{path, path + ".blobs"} {
		if _, err := os.Lstat(name); !errors.Is(err, os.ErrNotExist) {
			if err != nil {
				return err
			}
			return &stepwell.Error{Code: stepwell.CodeConflict, Message: name + " exists already", Hint: "name a file that does not exist yet"}
		}
	}
	part := path + ".part"
	f, err := os.OpenFile(part, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the copy cannot be written", Hint: "check the directory; remove what an interrupted copy has left there", Err: err}
	}
	err = errors.Join(f.Close(), s.backup(ctx, part, path, progress))
	if err == nil {
		return nil
	}
	for _, rest := range []string{part, part + "-wal", part + "-shm", part + "-journal", path + ".blobs"} {
		err = errors.Join(err, os.RemoveAll(rest))
	}
	return fault("copy "+s.path, err)
}

func (s *Store) backup(ctx context.Context, part, path string, progress func(done, total int)) error {
	pages, err := s.backupPages(ctx, part, progress)
	if err != nil {
		return err
	}
	if err := s.markCopy(ctx, part); err != nil {
		return err
	}
	if err := s.backupBlobs(ctx, part, path+".blobs", func(done, total int) { progress(pages+done, pages+total) }); err != nil {
		return err
	}
	if err := os.Rename(part, path); err != nil {
		return err
	}
	return store.SyncDir(filepath.Dir(path))
}

// markCopy makes the database a copy that can only be read. One of a version without identities stays as it is.
func (s *Store) markCopy(ctx context.Context, part string) (err error) {
	db, err := openWriterDB(part, "full")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	x, err := readIdentity(ctx, db, s.sql)
	if err != nil || x.id == "" {
		return err
	}
	_, err = db.ExecContext(ctx, s.sql["identity_copied"], s.now().UnixMicro())
	return err
}

// CopyOf is Backup of a database that may be a copy itself, of an earlier version too, and that no process uses.
func CopyOf(ctx context.Context, from, to string, progress func(done, total int)) (err error) {
	s, err := source(from)
	if err != nil {
		return fault("copy "+from, err)
	}
	return s.Backup(ctx, to, progress)
}

// source is as much of a store as reading a database of any version takes.
func source(path string) (s *Store, err error) {
	s = &Store{now: time.Now}
	if s.sql, err = loadQueries(); err != nil {
		return nil, err
	}
	if s.path, err = Resolve(path); err != nil {
		return nil, err
	}
	s.blobs = store.NewFolder(s.path + ".blobs")
	return s, s.checkFile(&Options{ReadOnly: true})
}

// TakeOver makes a copy a database of its own, which runs executions, and brings it to this program's version.
func TakeOver(ctx context.Context, path string, log *slog.Logger) (err error) {
	s, err := openAs(ctx, Options{Path: path, Exclusive: true, Log: log}, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return s.transaction("take over "+s.path, func(w *writer) error { return w.run("identity_own") })
}

// backupPages copies the database through a connection of its own, which stays in one read transaction: other commits
// do not restart the copy.
func (s *Store) backupPages(ctx context.Context, to string, progress func(done, total int)) (total int, err error) {
	db, err := openPool(s.path, false)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	conn, err := db.Conn(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if _, err := conn.ExecContext(ctx, "BEGIN"); err != nil {
		return 0, err
	}
	var tables int
	err = conn.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema").Scan(&tables) // the moment of the copy
	if err == nil {
		err = conn.Raw(func(c any) (err error) {
			total, err = copyPages(ctx, c, to, progress)
			return err
		})
	}
	_, end := conn.ExecContext(context.Background(), "ROLLBACK")
	return total, errors.Join(err, end)
}

// copyPages copies in steps, so that the end of ctx is heeded.
func copyPages(ctx context.Context, conn any, to string, progress func(done, total int)) (total int, err error) {
	source, ok := conn.(interface {
		NewBackup(string) (*sqlite.Backup, error)
	})
	if !ok {
		return 0, errors.New("the driver cannot copy a database")
	}
	b, err := source.NewBackup(dsn(to, url.Values{}))
	if err != nil {
		return 0, err
	}
	for more := true; more && err == nil; {
		if more, err = b.Step(backupPages); err == nil {
			total = b.PageCount()
			progress(total-b.Remaining(), total)
			err = ctx.Err()
		}
	}
	return total, errors.Join(err, b.Finish())
}

// backupBlobs copies the copy's blobs. They are still there: an unreferenced blob is removed only after a day.
func (s *Store) backupBlobs(ctx context.Context, part, folder string, progress func(done, total int)) (err error) {
	db, err := openPool(part, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	total, done := 0, 0
	if err := db.QueryRowContext(ctx, s.sql["blobs_count"]).Scan(&total); err != nil {
		return err
	}
	to := store.NewFolder(folder)
	x, err := readIdentity(ctx, db, s.sql)
	if err != nil {
		return err
	}
	if x.id != "" {
		if err := to.Own(x.id); err != nil {
			return err
		}
	}
	for after := ""; ; {
		page, err := blobPage(ctx, db, s.sql["blobs_all"], after)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, hash := range page {
			if err := ctx.Err(); err != nil {
				return err
			}
			if _, err := s.blobs.Copy(to, hash); err != nil {
				return err
			}
			done++
			progress(done, total)
		}
		after = page[len(page)-1]
	}
}

func blobPage(ctx context.Context, db *sql.DB, query, after string) (page []string, err error) {
	rows, err := db.QueryContext(ctx, query, after, 1000)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var hash string
		if err := rows.Scan(&hash); err != nil {
			return nil, err
		}
		page = append(page, hash)
	}
	return page, rows.Err()
}
