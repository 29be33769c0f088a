package app

import (
	"context"
	"log/slog"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/store/postgres"
	"github.com/stepwell/stepwell/store/sqlite"
)

// Store is a database that executions run in.
type Store interface {
	store.Store
	// Path is where it is: what opens it again.
	Path() string
	// Watch calls f when another process may have changed it, until ctx ends; an error means that it sees nothing any more.
	Watch(ctx context.Context, interval time.Duration, f func()) error
	// BackupInto makes a checked copy with a name of its own in a folder and keeps the newest ones there.
	BackupInto(ctx context.Context, folder string, keep int, progress func(done, total int)) (*store.Copied, error)
}

// storeKind is a kind of databases.
type storeKind struct {
	open func(context.Context, store.Options) (Store, error)
	// resolve follows the links of a file: what belongs to the database is beside it. nil: a database is no file.
	resolve func(path string) (string, error)
	// shared: several processes run the executions of a database together (sharedStore).
	shared bool
}

// storeKinds are the kinds of databases by the scheme of their URL. A new one is a package and one line here.
var storeKinds = map[string]storeKind{
	"sqlite":     {open: opener(sqlite.Open), resolve: sqlite.Resolve},
	"postgres":   {open: opener(postgres.OpenStore), shared: true},
	"postgresql": {open: opener(postgres.OpenStore), shared: true},
}

// opener is the open of a kind.
func opener[S Store](open func(context.Context, store.Options) (S, error)) func(context.Context, store.Options) (Store, error) {
	return func(ctx context.Context, o store.Options) (Store, error) {
		s, err := open(ctx, o)
		if err != nil {
			return nil, err
		}
		return s, nil
	}
}

// findStore finds the kind of a database, and its place: a file, or the whole URL. A name without a scheme is a file's.
func findStore(db string) (kind storeKind, place string, err error) {
	scheme, rest, _ := strings.Cut(db, ":")
	kind, ok := storeKinds[scheme]
	switch {
	case ok && kind.resolve != nil:
		return kind, rest, nil
	case ok:
		return kind, db, nil
	case strings.HasPrefix(rest, "//"):
		return kind, "", stepwell.Invalid("name a file, or use "+strings.Join(slices.Sorted(maps.Keys(storeKinds)), ": or ")+":", "this version has no database %s:", scheme)
	}
	return storeKinds["sqlite"], db, nil
}

// storeName is the name of the kind of a database.
func storeName(db string) string {
	if kind, _, err := findStore(db); err == nil && kind.resolve == nil {
		return "postgresql"
	}
	return "sqlite"
}

// shared reports whether several processes run the executions of the database.
func (o *Options) shared() bool {
	kind, _, err := findStore(o.DB)
	return err == nil && kind.shared
}

// openStore opens a database of any kind.
func openStore(ctx context.Context, o store.Options) (Store, error) {
	kind, place, err := findStore(o.Path)
	if err != nil {
		return nil, err
	}
	o.Path = place
	return kind.open(ctx, o)
}

// OpenReader opens a database for reading, also while another process runs its executions.
func OpenReader(ctx context.Context, db string, log *slog.Logger) (Store, error) {
	return openStore(ctx, store.Options{Path: db, ReadOnly: true, Log: log})
}

// OpenWriter opens a database, and creates or migrates it where needed, beside the process that runs its executions.
func OpenWriter(ctx context.Context, db string, log *slog.Logger) (Store, error) {
	return openStore(ctx, store.Options{Path: db, Log: log})
}

// DatabaseFile is the file of a database; CodeInvalid for one that is no file.
func DatabaseFile(db string) (string, error) {
	kind, file, err := findStore(db)
	if err == nil && kind.resolve == nil {
		err = stepwell.Invalid("use the tools of that database", "%s is not a file", DatabaseName(db))
	}
	return file, err
}

// DatabaseName is what people are shown of a database: the whole path of a file, a URL without its password.
func DatabaseName(db string) string {
	if kind, place, err := findStore(db); err == nil && kind.resolve != nil {
		if whole, err := filepath.Abs(place); err == nil {
			return whole
		}
		return place
	}
	if u, err := url.Parse(db); err == nil {
		return u.Redacted()
	}
	return "the database"
}

// DatabaseExists reports whether there is a database; of one that is no file only opening it can tell.
func DatabaseExists(db string) bool {
	kind, place, err := findStore(db)
	return err == nil && (kind.resolve == nil || IsFile(place))
}
