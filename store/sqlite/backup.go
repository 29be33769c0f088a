package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"runtime"

	"modernc.org/sqlite"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

// backupPages is how many pages are copied between two looks at the context: 4 MiB.
const backupPages = 1024

// Backup writes a copy of the database as it was at one moment to path, and of the blobs that it refers to
// to path.blobs. Commits go on meanwhile; the write-ahead log grows by what they write. The copy appears at
// its path when it is whole. A blob whose file is missing is missing in the copy too. Progress, which may be
// nil, counts pages and, after them, blobs.
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
	if err := s.backupBlobs(ctx, part, path+".blobs", func(done, total int) { progress(pages+done, pages+total) }); err != nil {
		return err
	}
	if err := os.Rename(part, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// backupPages copies the database by way of a connection of its own, which stays in one read transaction: so
// what others commit meanwhile does not begin the copy anew.
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

// backupBlobs copies the blobs that the copy refers to. A day passes before a blob that nobody refers to any
// more is removed, so those that the copy refers to are there.
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

// syncDir makes the names in a directory durable. Windows has no such call and does it by itself.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
