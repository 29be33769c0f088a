package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync"

	"github.com/stepwell/stepwell"
)

// stepSizes are the numbers of step rows that a prepared statement takes, largest first.
var stepSizes = [...]int{500, 64, 8, 1}

const stepColumns = 12

// writer is the one connection that writes, with its statements.
//
// Its statements run with context.Background: a context that can end costs an interrupt hook per
// statement, and half a commit is of no use to anybody.
type writer struct {
	mu   sync.Mutex
	db   *sql.DB
	conn *sql.Conn

	begin, commit, rollback                                *sql.Stmt
	log, create, update, supersede, forget, spawned, taken *sql.Stmt
	logLine, definition, stored                            *sql.Stmt
	memo, request, take                                    *sql.Stmt
	steps                                                  [len(stepSizes)]driver.Stmt
	stepText                                               string
	stmts                                                  []*sql.Stmt          // all of them
	rare                                                   map[string]*sql.Stmt // those prepared when they are first needed, by name
	queries                                                queries
	waits                                                  map[int64]bool      // executions with a step that has waited for a signal
	args                                                   []driver.NamedValue // of the step rows on their way, reused
	quick                                                  bool                // Synchronous is "normal" anyway
}

// openWriter migrates, prepares and, for the process that runs executions, warms up.
func (s *Store) openWriter(ctx context.Context, o *Options) error {
	db, err := openWriterDB(s.path, o.Synchronous)
	if err != nil {
		return err
	}
	w := &writer{db: db, queries: s.sql, rare: map[string]*sql.Stmt{}, waits: map[int64]bool{}, quick: o.Synchronous == "normal"}
	s.write = w
	if err := patiently(ctx, func() error { return s.migrate(ctx, db, o.Log) }); err != nil {
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

func (w *writer) prepare(q queries) error {
	stmts := map[string]**sql.Stmt{"begin": &w.begin, "commit": &w.commit, "rollback": &w.rollback, "log": &w.log,
		"create": &w.create, "update": &w.update, "supersede": &w.supersede, "forget": &w.forget, "spawned": &w.spawned, "taken": &w.taken, "log_line": &w.logLine,
		"definition": &w.definition, "definition_stored": &w.stored, "memo": &w.memo, "request": &w.request, "take_requests": &w.take}
	for name, to := range stmts {
		if err := w.prepareOne(to, q[name]); err != nil {
			return err
		}
	}
	w.stepText = q["step"]
	return nil
}

// insert writes stepSizes[i] rows. It talks to the driver itself, on the same connection: database/sql
// would copy every argument, which costs a seventh of a large commit. A statement is prepared when
// it is first needed: the large ones are costly, and a small pipeline never needs them.
func (w *writer) insert(i int, args []driver.NamedValue) error {
	for j := range args {
		args[j].Ordinal = j + 1
	}
	return w.conn.Raw(func(conn any) (err error) {
		ctx := context.Background()
		if w.steps[i] == nil {
			if w.steps[i], err = conn.(driver.ConnPrepareContext).PrepareContext(ctx, values(w.stepText, stepSizes[i])); err != nil {
				return err
			}
		}
		_, err = w.steps[i].(driver.StmtExecContext).ExecContext(ctx, args)
		return err
	})
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
	for _, stmt := range w.steps {
		if stmt != nil {
			errs = append(errs, stmt.Close())
		}
	}
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
	err := patiently(context.Background(), func() error { return execute(w.begin) })
	if err != nil {
		return err
	}
	if err = f(w); err == nil {
		err = execute(w.commit)
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
