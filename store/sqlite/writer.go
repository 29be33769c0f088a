package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"sync"

	"github.com/stepwell/stepwell"
)

// writer is the one connection that writes, with its statements.
//
// Its statements run with context.Background: a context that can end costs an interrupt hook per
// statement, and half a commit is useless.
type writer struct {
	mu   sync.Mutex
	db   *sql.DB
	conn *sql.Conn

	begin, commit, create, update, addUsage direct
	rollback, before, supersede, spawned    *sql.Stmt
	logLine, definition, stored             *sql.Stmt
	logs, steps                             bulk
	stmts                                   []*sql.Stmt          // all of them
	rare                                    map[string]*sql.Stmt // those prepared when they are first needed, by name
	queries                                 queries
	waits                                   map[int64]bool  // executions with a step that has waited for a signal
	latest                                  map[int64]int64 // the version that was committed last, of executions that go on
	quick                                   bool            // Synchronous is "normal" anyway
	extra                                   []byte          // scratch
}

// openWriter migrates, prepares and, for the process that runs executions, warms up.
func (s *Store) openWriter(ctx context.Context, o *Options) error {
	db, err := openWriterDB(s.path, o.Synchronous)
	if err != nil {
		return err
	}
	w := &writer{db: db, queries: s.sql, rare: map[string]*sql.Stmt{}, waits: map[int64]bool{}, latest: map[int64]int64{}, quick: o.Synchronous == "normal"}
	s.write = w
	if err := patiently(ctx, func() error { return s.prepareFile(ctx, db, o) }); err != nil {
		return err
	}
	if w.conn, err = db.Conn(ctx); err != nil {
		return err
	}
	if o.Exclusive {
		if err := prewarm(ctx, w.conn); err != nil {
			return err
		}
	}
	return w.prepare(s.sql)
}

// prepareFile migrates a writable database and reads its identity.
func (s *Store) prepareFile(ctx context.Context, db *sql.DB, o *Options) error {
	if _, _, err := version(ctx, db); err != nil { // before anything else is read of it
		return err
	}
	before, err := readIdentity(ctx, db, s.sql)
	if err != nil {
		return err
	}
	if err := s.admits(before, o); err != nil {
		return err
	}
	if err := s.migrate(ctx, db, o.Log, migrationPatience); err != nil {
		return err
	}
	if s.identity, err = readIdentity(ctx, db, s.sql); err != nil || !o.Exclusive {
		return err
	}
	if err := s.settle(ctx, db, s.identity); err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, s.sql["release"]); err != nil {
		return err
	}
	return s.blobs.Own(s.id)
}

func (w *writer) prepare(q queries) error {
	for name, d := range map[string]*direct{"begin": &w.begin, "commit": &w.commit, "create": &w.create, "update": &w.update, "usage_add": &w.addUsage} {
		if err := d.prepare(w.conn, q[name]); err != nil {
			return err
		}
	}
	stmts := map[string]**sql.Stmt{"rollback": &w.rollback, "log_before": &w.before, "supersede": &w.supersede, "spawned": &w.spawned,
		"log_line": &w.logLine, "definition": &w.definition, "definition_stored": &w.stored}
	for name, to := range stmts {
		if err := w.prepareOne(to, q[name]); err != nil {
			return err
		}
	}
	w.logs, w.steps = bulk{text: q["log"], columns: 4}, bulk{text: q["step"], columns: 12}
	return nil
}

func (w *writer) prepareOne(to **sql.Stmt, text string) (err error) {
	if *to, err = w.conn.PrepareContext(context.Background(), text); err == nil {
		w.stmts = append(w.stmts, *to)
	}
	return err
}

// run executes a query that is prepared when it is first needed.
func (w *writer) run(name string, args ...any) error {
	_, err := w.change(name, args...)
	return err
}

// change is run that says how many rows it has changed.
func (w *writer) change(name string, args ...any) (int64, error) {
	stmt := w.rare[name]
	if stmt == nil {
		if err := w.prepareOne(&stmt, w.queries[name]); err != nil {
			return 0, err
		}
		w.rare[name] = stmt
	}
	res, err := stmt.ExecContext(context.Background(), args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// close also closes the statements: a connection with open ones would not take the write-ahead log
// back into the database.
func (w *writer) close() error {
	var errs []error
	for _, stmt := range w.stmts {
		errs = append(errs, stmt.Close())
	}
	errs = append(errs, w.logs.close(), w.steps.close(), closeAll(&w.begin, &w.commit, &w.create, &w.update, &w.addUsage))
	if w.conn != nil {
		errs = append(errs, w.conn.Close())
	}
	return errors.Join(append(errs, w.db.Close())...)
}

// writing is the writer, or an error when the store was opened read-only.
func (s *Store) writing() (*writer, error) {
	if s.write == nil {
		return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: s.path + " is open for reading only"}
	}
	return s.write, nil
}

// transaction runs f in a transaction that is durable when it returns nil.
func (s *Store) transaction(op string, f func(*writer) error) error {
	w, err := s.writing()
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return fault(op, w.transaction(f))
}

func (w *writer) transaction(f func(*writer) error) error {
	err := patiently(context.Background(), func() error { return w.begin.exec(w.conn) })
	if err != nil {
		return err
	}
	if err = f(w); err == nil {
		err = w.commit.exec(w.conn)
	}
	if err == nil {
		return nil
	}
	// SQLite may have rolled back by itself, as it does when the disk is full; there is then
	// nothing left to roll back, and its error would say just that.
	if undo := execute(w.rollback); undo != nil && rescode(undo)&0xff != sqliteError {
		err = errors.Join(err, undo)
	}
	return err
}

// sqliteError is SQLITE_ERROR, among others "no transaction is active".
const sqliteError = 1

func execute(stmt *sql.Stmt, args ...any) error {
	_, err := stmt.ExecContext(context.Background(), args...)
	return err
}
