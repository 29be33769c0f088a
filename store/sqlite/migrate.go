package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/stepwell/stepwell"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migrationPatience is how long we wait for another process that migrates.
const migrationPatience = 10 * time.Second

// latest is the number of the last migration. Each sets PRAGMA user_version to its own number, so
// that opening an up-to-date database asks one question instead of many.
func latest() (int, error) {
	files, err := migrationFiles.ReadDir("migrations")
	if err != nil {
		return 0, err
	}
	number, _, _ := strings.Cut(files[len(files)-1].Name(), "_")
	last, err := strconv.Atoi(number)
	return max(last, viewsMigration), err
}

// version reads the database's own, and refuses a database of a later program or another one's.
func version(ctx context.Context, db *sql.DB) (have, want int, err error) {
	if want, err = latest(); err != nil {
		return 0, 0, err
	}
	var id, tables int
	err = db.QueryRowContext(ctx, `SELECT (SELECT user_version FROM pragma_user_version), (SELECT application_id FROM pragma_application_id),
		(SELECT count(*) FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' AND name NOT LIKE 'goose_%')`).Scan(&have, &id, &tables)
	switch {
	case err != nil:
		return 0, 0, err
	case id != applicationID && (tables > 0 || have > 0):
		return 0, 0, &stepwell.Error{Code: stepwell.CodeInvalid, Message: "the file is a database of another program", Hint: "use another --db"}
	case have > want:
		return 0, 0, &stepwell.Error{Code: stepwell.CodeInvalid, Hint: "use the newer stepwell, or another --db",
			Message: fmt.Sprintf("the database was written by a newer stepwell (version %d, this one knows %d)", have, want)}
	}
	return have, want, nil
}

// applicationID marks the file as Stepwell's ("Stpw"); the first migration sets it.
const applicationID = 0x53747077

// oldestRead is the first version whose tables this program can read: a migration that changes queried tables raises
// it.
const oldestRead = 3

// objectBlobs is the first version in which objects refer to blobs.
const objectBlobs = 12

// checkVersion is for callers that may not migrate.
func (s *Store) checkVersion(ctx context.Context, db *sql.DB) error {
	have, want, err := version(ctx, db)
	if err == nil && have < min(want, oldestRead) {
		err = &stepwell.Error{Code: stepwell.CodeConflict, Message: fmt.Sprintf("the database has version %d, this stepwell needs %d", have, want),
			Hint: "run any command that writes to it, such as stepwell run: it migrates the database"}
	}
	if have < objectBlobs {
		for _, name := range []string{"blobs_used", "blobs_count", "blobs_all"} {
			s.sql[name] = strings.ReplaceAll(s.sql[name], "object_blob", "blob_use")
		}
	}
	if have < 13 { // nothing has been summed
		s.sql["usage_of"] = "SELECT 0, 0, 0, 0 WHERE ?1 IS NULL AND ?2 IS NULL"
		s.sql["usage_in"] = "SELECT '', 0, 0, 0, 0 WHERE ?1 IS NULL AND ?2 IS NULL AND ?3 IS NULL LIMIT ?4"
	}
	if have < 15 {
		for _, name := range []string{"logs_loud", "logs_loud_tail", "log_spans", "log_warnings"} {
			s.sql[name] = strings.ReplaceAll(s.sql[name], "INDEXED BY log_line_level", "")
		}
	}
	for column, since := range map[string]int{"project": 10, "lesson": 11, "partition_key": 16} { // no execution of before has them
		for name, query := range s.sql {
			if have < since {
				s.sql[name] = strings.NewReplacer(", "+column+",", ", NULL,", "OR "+column+" = ?", "OR NULL = ?").Replace(query)
			}
		}
	}
	return err
}

// migrate brings the database up to date, which takes as long as it needs. Only one process at a time does; it waits patience for another.
func (s *Store) migrate(ctx context.Context, db *sql.DB, log *slog.Logger, patience time.Duration) error {
	patient := time.NewTimer(patience)
	defer patient.Stop()
	for {
		have, want, err := version(ctx, db)
		if err != nil || have == want {
			return err
		}
		if s.lock != nil {
			return migrateUp(ctx, db, log)
		}
		l := newLock(s.path)
		ok, err := l.TryLock()
		if err != nil {
			return err
		}
		if ok {
			// Without a dead holder's process id, this lock is no claim.
			return errors.Join(os.Truncate(l.Path(), 0), migrateUp(ctx, db, log), l.Close())
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-patient.C:
			return &stepwell.Error{Code: stepwell.CodeConflict, Message: fmt.Sprintf("the database has version %d, this stepwell needs %d, and another process uses it", have, want),
				Hint: "stop the other process, an older stepwell"}
		case <-time.After(claimPause):
		}
	}
}

// migrations returns all of them, and the names of files by number. SQLite takes a file as it is: goose's parser, which splits files into
// statements, allocates 4 MiB for each of the files that it reads side by side, and twice the garbage collections of a short run.
func migrations() ([]*goose.Migration, map[int64]string, error) {
	files, err := migrationFiles.ReadDir("migrations")
	if err != nil {
		return nil, nil, err
	}
	all, names := []*goose.Migration{views()}, map[int64]string{}
	for _, f := range files {
		number, err := goose.NumericComponent(f.Name())
		if err != nil {
			return nil, nil, err
		}
		text, err := migrationFiles.ReadFile("migrations/" + f.Name())
		if err != nil {
			return nil, nil, err
		}
		all, names[number] = append(all, migration(number, string(text))), f.Name()
	}
	return all, names, nil
}

// migration runs statements in one transaction.
func migration(number int64, statements string) *goose.Migration {
	return goose.NewGoMigration(number, &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, statements)
		return err
	}}, nil)
}

func migrateUp(ctx context.Context, db *sql.DB, log *slog.Logger) error {
	all, names, err := migrations()
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, nil, goose.WithDisableGlobalRegistry(true), goose.WithGoMigrations(all...), goose.WithSlog(log))
	if err != nil {
		return err
	}
	var level int
	if err := db.QueryRowContext(ctx, "PRAGMA synchronous").Scan(&level); err != nil {
		return err
	}
	// A loss of power may take the last migrations back, which are then made again: the first commit that has to survive one
	// writes what is before it in the write-ahead log to disk as well. So a new database waits for the disk once, not for each.
	_, err = db.ExecContext(ctx, "PRAGMA synchronous = normal")
	if err != nil {
		return err
	}
	done, err := p.Up(ctx)
	for _, m := range done {
		log.Info("migrated the database", "migration", cmp.Or(names[m.Source.Version], strconv.FormatInt(m.Source.Version, 10)), "took", m.Duration)
	}
	_, restored := db.ExecContext(context.WithoutCancel(ctx), fmt.Sprintf("PRAGMA synchronous = %d", level))
	return errors.Join(err, restored)
}
