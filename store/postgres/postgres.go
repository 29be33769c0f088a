// Package postgres is the store of a fleet: many processes on one PostgreSQL database.
//
// Executions that have not ended are in a small table, all others in one that is written once (execution_live,
// execution_past). The large tables (step, step_log, log_line) are partitioned by the numbers of executions, in slots of a
// day or some gigabytes. A Commit is one pipelined batch of statements, which the server runs as one transaction, whatever
// the number of executions and steps in it. The key of the step log fences every write, also that of a process that has
// lost its connection in mid-commit. Nothing depends on a session: the store works behind a pooler in transaction mode
// (default_query_exec_mode=exec in the URL). The views pipeline_steps and pipeline_step_log show everything in SQL.
//
// Stability: the tables are private and change by migration; the two views are kept.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

// Options say which database, and how it is used.
type Options struct {
	// URL is the address: postgres://user:password@host:port/database?sslmode=…, with the parameters of pgx
	// (pool_max_conns, default_query_exec_mode), of the server (search_path), and two of this package. blobs: where large outputs are,
	// s3://bucket/folder or the path of a folder that all processes share. Without it they are in a table. listen_url: the address at which
	// notifications are heard, "none": nowhere. Defaults to the same one, and to none with a default_query_exec_mode, as for a pooler.
	URL string
	// Exclusive takes all executions from their owners and keeps nodes from joining: CodeConflict while a process runs
	// executions, and for Lease after it was killed. Defaults to false.
	Exclusive bool
	// ReadOnly refuses every write. Defaults to false.
	ReadOnly bool
	// SlotAge and SlotSize say when new executions go to new tables: when the present ones are older, or larger in bytes.
	// Defaults to a day and 20 GB.
	SlotAge  time.Duration
	SlotSize int64
	// Check looks at the objects of a database before it is migrated; its error ends the opening. Defaults to nothing.
	Check func(context.Context, store.Objects) error
	// Now is the clock of all times that are recorded or decide. Defaults to time.Now.
	Now func() time.Time
	// Log hears of migrations and slots. Defaults to no log.
	Log *slog.Logger
}

func (o *Options) validate() error {
	if o.URL == "" {
		return &stepwell.Error{Code: stepwell.CodeInvalid, Message: "a PostgreSQL store needs its address", Hint: "postgres://user@host/database"}
	}
	if o.ReadOnly && o.Exclusive {
		return &stepwell.Error{Code: stepwell.CodeInvalid, Message: "an exclusive database cannot be read-only"}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.SlotAge <= 0 {
		o.SlotAge = 24 * time.Hour
	}
	if o.SlotSize <= 0 {
		o.SlotSize = 20 << 30
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}

// Store is an open database. Its methods may be called from many goroutines.
type Store struct {
	o        Options
	id       string
	readOnly bool
	pool     *pgxpool.Pool // for everything but commits, log lines and beats
	beats    *pgxpool.Pool // one connection, so that no reader delays the renewal of a lease
	commits  *committer
	lines    *liner
	slots    *slots
	blobs    store.Blobs
	held     *holder // with Exclusive

	sessions  atomic.Int64    // connections that have committed or renewed leases
	listening *pgx.ConnConfig // nil: no notifications
	hears     atomic.Bool     // a connection listens
	requested chan struct{}   // there may be a request

	closing sync.Once
	used    definitions
	cache   outlines
	sweep   store.Sweep
	bad     store.Unremovable
}

var _ store.Store = (*Store)(nil)

var errReadOnly error = &stepwell.Error{Code: stepwell.CodeInvalid, Message: "the database is open for reading only"}

// Open opens a database, migrating it first where needed. Errors have codes: CodeInvalid for a malformed address, another
// program's or a later version's database; CodeUnavailable when the server cannot be reached or refuses.
func Open(ctx context.Context, o Options) (*Store, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	address, own, err := takeOwn(o.URL)
	if err != nil {
		return nil, err
	}
	pc, err := pgxpool.ParseConfig(address)
	if err != nil { // its text leaves out the password
		return nil, badAddress(err)
	}
	s := &Store{o: o, readOnly: o.ReadOnly, requested: make(chan struct{}, 1)}
	if err = s.open(ctx, pc); err == nil {
		s.listening, err = listener(pc, own["listen_url"])
	}
	if err == nil {
		err = s.openBlobs(own["blobs"])
	}
	if err == nil && o.Exclusive {
		err = s.hold(ctx)
	}
	if err == nil && o.Exclusive {
		_, err = s.change(ctx, "release executions", `UPDATE execution_live SET owner = NULL WHERE owner IS NOT NULL`)
	}
	if err != nil {
		return nil, errors.Join(fault("open the database", err), s.Close())
	}
	return s, nil
}

// OpenStore is Open with the options that all databases have.
func OpenStore(ctx context.Context, o store.Options) (*Store, error) {
	return Open(ctx, Options{URL: o.Path, Exclusive: o.Exclusive, ReadOnly: o.ReadOnly, Check: o.Check, Now: o.Now, Log: o.Log})
}

// connectTimeout bounds the wait for a connection where the address does not say so.
const connectTimeout = 5 * time.Second

// keepAlive is how often an idle connection is asked for a sign of life.
const keepAlive = 15 * time.Second

func (s *Store) open(ctx context.Context, pc *pgxpool.Config) (err error) {
	cc := pc.ConnConfig
	if cc.ConnectTimeout == 0 {
		cc.ConnectTimeout = connectTimeout
	}
	cc.DialFunc = (&net.Dialer{KeepAlive: keepAlive, Control: userTimeout}).DialContext
	prepares := cc.DefaultQueryExecMode == pgx.QueryExecModeCacheStatement
	if prepares { // a pooler refuses parameters that it does not know
		if cc.RuntimeParams["application_name"] == "" {
			cc.RuntimeParams["application_name"] = "stepwell"
		}
		cc.RuntimeParams["jit"] = "off" // statements are short: compiling one takes longer than running it
		if s.readOnly {
			cc.RuntimeParams["default_transaction_read_only"] = "on"
		}
	}
	pc.MaxConns = max(pc.MaxConns, minConns)
	if s.pool, err = pgxpool.NewWithConfig(ctx, pc); err != nil {
		return err
	}
	single := pc.Copy() // it connects when it is used
	single.MaxConns, single.MinConns, single.MinIdleConns = 1, 0, 0
	single.ConnConfig.AfterConnect = s.connected
	if s.beats, err = pgxpool.NewWithConfig(ctx, single); err != nil {
		return err
	}
	if err := s.migrate(ctx); err != nil {
		return err
	}
	s.slots = &slots{s: s}
	if err := s.slots.reload(ctx); err != nil {
		return err
	}
	committing := cc.Copy()
	committing.AfterConnect = s.connected
	// Plans are made once, when the tables may still be empty: they always use the keys.
	s.commits = &committer{s: s, rows: newBatch(), last: map[int64]last{}, waits: map[int64]bool{}, doubt: map[int64]int64{}, here: map[int64]int64{},
		link: link{config: tuned(committing, prepares, map[string]string{"enable_hashjoin": "off", "enable_mergejoin": "off", "enable_seqscan": "off", "plan_cache_mode": "force_generic_plan"}), prepares: prepares}}
	s.lines = &liner{s: s, next: map[int64]int64{}, link: link{config: tuned(cc, prepares, map[string]string{"synchronous_commit": "off"}), prepares: prepares}}
	return nil
}

func badAddress(err error) error {
	return &stepwell.Error{Code: stepwell.CodeInvalid, Message: "the address of the PostgreSQL server", Hint: "postgres://user@host:5432/database", Err: err}
}

// connected counts connections (store.Beat.Session).
func (s *Store) connected(context.Context, *pgconn.PgConn) error {
	s.sessions.Add(1)
	return nil
}

// listener is the connection for notifications: to another address, or to the same one unless that seems to lead to a pooler.
func listener(pc *pgxpool.Config, address string) (*pgx.ConnConfig, error) {
	switch {
	case address == "none", address == "" && pc.ConnConfig.DefaultQueryExecMode != pgx.QueryExecModeCacheStatement:
		return nil, nil
	case address == "":
		return pc.ConnConfig.Copy(), nil
	}
	c, err := pgx.ParseConfig(address)
	if err != nil {
		return nil, badAddress(err)
	}
	return c, nil
}

// takeOwn takes the parameters that are this package's own out of an address.
func takeOwn(address string) (rest string, own map[string]string, err error) {
	u, err := url.Parse(address)
	if err != nil {
		var e *url.Error
		if errors.As(err, &e) { // without the address, which may have a password
			err = e.Err
		}
		return "", nil, badAddress(err)
	}
	query := u.Query()
	own = map[string]string{}
	for _, name := range []string{"blobs", "listen_url"} {
		own[name] = query.Get(name)
		query.Del(name)
	}
	u.RawQuery = query.Encode()
	return u.String(), own, nil
}

// openBlobs opens the place of the large outputs. A folder belongs to this database alone.
func (s *Store) openBlobs(place string) error {
	t := &table{s: s}
	s.blobs = t
	if strings.HasPrefix(place, "s3://") {
		var err error
		t.bodies, err = openBucket(place)
		return err
	}
	if place == "" {
		return nil
	}
	folder := store.NewFolder(place)
	s.blobs = folder
	if s.readOnly {
		return nil
	}
	return folder.Own(s.id)
}

// minConns is the least number of connections in the pool.
const minConns = 4

// tuned is a configuration with more parameters of the session, which only make it faster.
func tuned(cc *pgx.ConnConfig, prepares bool, params map[string]string) *pgx.ConnConfig {
	c := cc.Copy()
	if prepares {
		maps.Copy(c.RuntimeParams, params)
	}
	return c
}

// ID names the blobs, keys and objects that are the database's own.
func (s *Store) ID() string { return s.id }

// Blobs is where large outputs are.
func (s *Store) Blobs() store.Blobs { return s.blobs }

// Backup refuses: a server is copied with its own tools.
func (s *Store) Backup(context.Context, string, func(done, total int)) error {
	return &stepwell.Error{Code: stepwell.CodeInvalid, Message: "a PostgreSQL database is not copied to a file", Hint: "use pg_dump or pg_basebackup"}
}

// BackupInto refuses, as Backup does.
func (s *Store) BackupInto(ctx context.Context, folder string, _ int, progress func(done, total int)) (*store.Copied, error) {
	return nil, s.Backup(ctx, folder, progress)
}

// Path is the address that opens the database again.
func (s *Store) Path() string { return s.o.URL }

// watchHeard is how often a store that hears of requests looks for those of which it has not heard.
const watchHeard = time.Second

// Watch calls f about every interval while there is a request, until ctx ends, returning nil; where Listen hears of requests, at once, and looks
// once a second besides. An error means that the database cannot be asked for a reason that does not pass.
func (s *Store) Watch(ctx context.Context, interval time.Duration, f func()) error {
	tick := time.NewTimer(interval)
	defer tick.Stop()
	for {
		var pending bool
		_, err := s.one(ctx, []any{&pending}, `SELECT EXISTS (SELECT 1 FROM request)`)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !store.IsAway(err):
			return err
		case pending:
			f()
		}
		pause := interval
		if s.hears.Load() {
			pause = max(interval, watchHeard)
		}
		tick.Reset(pause)
		select {
		case <-ctx.Done():
			return nil
		case <-s.requested:
		case <-tick.C:
		}
	}
}

// Close ends the connections. The store must not be in use. Closing once more changes nothing.
func (s *Store) Close() error {
	s.closing.Do(func() {
		s.release()
		for _, l := range []*link{s.committing(), s.writing()} {
			if l != nil {
				l.close()
			}
		}
		for _, pool := range []*pgxpool.Pool{s.pool, s.beats} {
			if pool != nil {
				pool.Close()
			}
		}
	})
	return nil
}

func (s *Store) committing() *link {
	if s.commits == nil {
		return nil
	}
	return &s.commits.link
}

func (s *Store) writing() *link {
	if s.lines == nil {
		return nil
	}
	return &s.lines.link
}

// beginChange ends a transaction whose process says nothing more, because it is frozen: others wait for the rows that it holds.
const beginChange = `BEGIN; SET LOCAL idle_in_transaction_session_timeout = '2s'`

// transaction runs f in a transaction, again where others were in its way.
func (s *Store) transaction(ctx context.Context, op string, f func(tx pgx.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.readOnly {
		return errReadOnly
	}
	var err error
	for try := range commitTries {
		if try > 0 {
			time.Sleep(commitPause << (try - 1))
		}
		if err = pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{BeginQuery: beginChange}, f); !again(err) {
			break
		}
	}
	return fault(op, err)
}

// change runs one statement, again where others were in its way. It says how many rows it has changed.
func (s *Store) change(ctx context.Context, op, sql string, args ...any) (n int64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if s.readOnly {
		return 0, errReadOnly
	}
	for try := range commitTries {
		if try > 0 {
			time.Sleep(commitPause << (try - 1))
		}
		tag, err2 := s.pool.Exec(ctx, sql, args...)
		if n, err = tag.RowsAffected(), err2; !again(err) {
			break
		}
	}
	return n, fault(op, err)
}

// list reads all rows of a query.
func list[T any](ctx context.Context, s *Store, scan func(pgx.CollectableRow) (T, error), sql string, args ...any) ([]T, error) {
	rows, err := s.pool.Query(ctx, sql, args...)
	if err != nil {
		return nil, fault("read", err)
	}
	out, err := pgx.CollectRows(rows, scan)
	if len(out) == 0 {
		out = nil
	}
	return out, fault("read", err)
}

// one reads the only row of a query; there is false if there is none.
func (s *Store) one(ctx context.Context, to []any, sql string, args ...any) (there bool, err error) {
	err = s.pool.QueryRow(ctx, sql, args...).Scan(to...)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return err == nil, fault("read", err)
}

func notFound(format string, args ...any) error {
	return &stepwell.Error{Code: stepwell.CodeNotFound, Message: fmt.Sprintf(format, args...)}
}
