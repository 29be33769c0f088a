package app

import (
	"context"
	"errors"
	"log/slog"
	"os"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/store/postgres"
	"github.com/stepwell/stepwell/store/sqlite"
)

// Migrated is behind the name of a database that another one has taken over.
const Migrated = ".migrated"

// importer is a Store that can take over an embedded database.
type importer interface {
	Import(ctx context.Context, from postgres.Source, progress func(table string, rows int64)) (*postgres.Imported, error)
}

// Import takes the embedded database from over into the empty database to, with its large outputs and the executions that
// are under way, and compares both. Then it gives from another name (Migrated), so that its executions do not go on in
// both. After a failure it can be called again and goes on. CodeConflict: a process uses one of them, or to is not empty.
// Progress may be nil.
func Import(ctx context.Context, from, to string, log *slog.Logger, progress func(table string, rows int64)) (_ *postgres.Imported, err error) {
	file, err := DatabaseFile(from)
	if err != nil {
		return nil, err
	}
	if !IsFile(file) {
		return nil, stepwell.Errorf(stepwell.CodeNotFound, "name it with --data, --db or --from", "there is no database at %s", file)
	}
	source, err := sqlite.Open(ctx, sqlite.Options{Path: file, Exclusive: true, Log: log})
	if err != nil {
		return nil, err
	}
	done, err := importInto(ctx, source, to, log, progress)
	if err = errors.Join(err, source.Close()); err != nil {
		return nil, err
	}
	return done, os.Rename(file, file+Migrated)
}

func importInto(ctx context.Context, source *sqlite.Store, to string, log *slog.Logger, progress func(table string, rows int64)) (_ *postgres.Imported, err error) {
	kind, place, err := findStore(to)
	if err != nil {
		return nil, err
	}
	if kind.resolve != nil {
		return nil, stepwell.Invalid("use `stepwell backup` and `stepwell restore` for a copy", "%s is not a database that takes another one over: give a postgres:// address", DatabaseName(to))
	}
	target, err := kind.open(ctx, store.Options{Path: place, Exclusive: true, Log: log})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	taker, ok := target.(importer)
	if !ok {
		return nil, stepwell.Invalid("", "%s cannot take a database over", DatabaseName(to))
	}
	return taker.Import(ctx, source, progress)
}
