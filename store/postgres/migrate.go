package postgres

import (
	"cmp"
	"context"
	"crypto/rand"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/stepwell/stepwell"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// latest is the number of the last migration.
func latest() (int, error) {
	files, err := migrationFiles.ReadDir("migrations")
	if err != nil {
		return 0, err
	}
	number, _, _ := strings.Cut(files[len(files)-1].Name(), "_")
	last, err := strconv.Atoi(number)
	return max(last, viewsMigration), err
}

// beside is the oldest version whose programs work on a database of this one's version: during an upgrade old processes work beside
// new ones. A migration that takes away or changes what they use raises it, one release after they have stopped using it at the earliest.
const beside = 14

// version reads the database's own, 0 for an empty one, and refuses one that this program does not know.
func (s *Store) version(ctx context.Context) (have, want int, err error) {
	if want, err = latest(); err != nil {
		return 0, 0, err
	}
	oldest := 0
	err = s.pool.QueryRow(ctx, `SELECT id, version, oldest FROM identity`).Scan(&s.id, &have, &oldest)
	if sqlstate(err) == undefinedColumn { // a program of before version 14 has migrated it, which refused what was two versions newer
		err = s.pool.QueryRow(ctx, `SELECT id, version, version - 1 FROM identity`).Scan(&s.id, &have, &oldest)
	}
	if sqlstate(err) == undefinedTable || errors.Is(err, pgx.ErrNoRows) {
		return 0, want, nil
	}
	if err == nil {
		err = tooNew(oldest, stepwell.CodeInvalid)
	}
	return have, want, err
}

// tooNew refuses a database whose oldest version is newer than this program.
func tooNew(oldest int, code stepwell.Code) error {
	want, err := latest()
	if err == nil && oldest > want {
		err = &stepwell.Error{Code: code, Hint: "use the newer stepwell, or another database",
			Message: fmt.Sprintf("the database was written by a newer stepwell (for version %d and later, this one has %d)", oldest, want)}
	}
	return err
}

// The wait for another process that migrates: it holds a row of a table for so long after its death.
const (
	migrationLease = 10 * time.Second
	migrationPause = 100 * time.Millisecond
	migrationTries = 1200
)

// migrate brings the database up to date. Only one process at a time does; others wait for it.
func (s *Store) migrate(ctx context.Context) error {
	have, want, err := s.version(ctx)
	if err != nil || have >= want {
		return err
	}
	if s.readOnly {
		return &stepwell.Error{Code: stepwell.CodeConflict, Message: fmt.Sprintf("the database has version %d, this stepwell needs %d", have, want),
			Hint: "start a server on it, which migrates it"}
	}
	if have > 0 && s.o.Check != nil {
		if err := s.o.Check(ctx, s); err != nil {
			return err
		}
	}
	files, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		return err
	}
	locker, err := lock.NewPostgresTableLocker(lock.WithTableName("goose_lock"), lock.WithTableLeaseDuration(migrationLease), lock.WithTableHeartbeatInterval(migrationLease/5),
		lock.WithTableLockTimeout(migrationPause, migrationTries))
	if err != nil {
		return err
	}
	cc := s.pool.Config().ConnConfig
	cc.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol // a file has many statements
	db := stdlib.OpenDB(*cc)
	defer db.Close()
	p, err := goose.NewProvider(goose.DialectPostgres, db, files, goose.WithDisableGlobalRegistry(true), goose.WithGoMigrations(views()), goose.WithLocker(locker), goose.WithSlog(s.o.Log))
	if err != nil {
		return err
	}
	done, err := p.Up(ctx)
	for _, m := range done {
		s.o.Log.Info("migrated the database", "migration", cmp.Or(m.Source.Path, strconv.FormatInt(m.Source.Version, 10)), "took", m.Duration)
	}
	if err != nil {
		return err
	}
	id := make([]byte, 16)
	_, _ = rand.Read(id) // it never fails
	_, err = s.pool.Exec(ctx, `INSERT INTO identity AS i (one, id, version, oldest) VALUES (1, $1, $2, $3)
ON CONFLICT (one) DO UPDATE SET version = greatest(i.version, $2), oldest = greatest(i.oldest, $3)`, hex.EncodeToString(id), want, beside)
	if err == nil {
		_, _, err = s.version(ctx)
	}
	return err
}
