//go:build unix

package main

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/stepwell/stepwell/chaos"
	"github.com/stepwell/stepwell/proxytest"
	"github.com/stepwell/stepwell/redistest"
	"github.com/stepwell/stepwell/store/postgres/postgrestest"
)

// faultRuns is how many executions of 105 steps each row meets: STEPWELL_FAULT_RUNS of them. 100 are the 10,500 steps of the full form, in which
// all rows happen.
func faultRuns() (n int, full bool) {
	if n, err := strconv.Atoi(os.Getenv("STEPWELL_FAULT_RUNS")); err == nil {
		return n, true
	}
	return 6, false
}

// faultRig is what the rows disturb beside the processes: a PostgreSQL server behind two proxies, of which the first knows its protocol.
type faultRig struct {
	t       *testing.T
	server  *postgrestest.Server
	address string // of the database, through the proxies
	commits *postgrestest.Proxy
	line    *proxytest.Proxy
	lines   []*repeater // to the servers
}

func newFaultRig(t *testing.T) *faultRig {
	t.Helper()
	f := &faultRig{t: t, server: postgrestest.New(t)}
	address, err := postgrestest.Create(f.server.URL(), "")
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	f.line = proxytest.New(t, u.Host)
	f.commits = postgrestest.NewProxy(t, f.line.Address(), "force_generic_plan") // the connection of the commits
	f.address = f.commits.URL(t, address)
	return f
}

// servers lead to servers through a proxy each, of which the last takes no streams.
func (f *faultRig) servers(names ...string) {
	var all []string
	for i, name := range names {
		address := freeAddress()
		line := newRepeater(f.t, address, i < len(names)-1)
		f.lines = append(f.lines, line)
		all = append(all, name+"="+address+"="+line.Address())
	}
	f.t.Setenv(linesVariable, strings.Join(all, ","))
}

// messages are the faults of the lines to the servers.
func (f *faultRig) messages() map[string]func(context.Context) error {
	each := func(do func(*repeater)) {
		for _, l := range f.lines {
			do(l)
		}
	}
	return map[string]func(context.Context) error{
		"worker-messages-doubled": func(ctx context.Context) error {
			before := f.repeated()
			each(func(l *repeater) { l.on.Store(true) })
			defer each(func(l *repeater) { l.on.Store(false) })
			for begun := time.Now(); ctx.Err() == nil && (time.Since(begun) < 2*time.Second || f.repeated() == before); {
				time.Sleep(time.Millisecond)
			}
			return nil
		},
		"worker-lines-cut": func(ctx context.Context) error {
			for begun := time.Now(); ctx.Err() == nil && time.Since(begun) < time.Second; time.Sleep(50 * time.Millisecond) {
				each(func(l *repeater) { l.Cut() })
			}
			return nil
		},
	}
}

// repeated is how many messages have been sent twice.
func (f *faultRig) repeated() (n int64) {
	for _, l := range f.lines {
		n += l.repeated.Load()
	}
	return n
}

// commit has a fault of the protocol happen to one of the next commits, and waits until it has.
func (f *faultRig) commit(fault postgrestest.Fault) func(context.Context) error {
	return func(ctx context.Context) error {
		for range 3 {
			before := f.commits.Happened()
			f.commits.Next(fault, 2)
			for f.commits.Happened() == before && ctx.Err() == nil {
				time.Sleep(time.Millisecond)
			}
		}
		return nil
	}
}

// during has the line between the program and its database be otherwise for a time.
func during(ctx context.Context, length time.Duration, begin, end func()) error {
	begin()
	defer end()
	select {
	case <-ctx.Done():
	case <-time.After(length):
	}
	return nil
}

// database are the faults of the rig's server.
func (f *faultRig) database() map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"database-restarted":    func(context.Context) error { return f.server.Restart() },
		"database-immediate":    func(context.Context) error { return f.server.RestartImmediate() },
		"commit-cut":            f.commit(postgrestest.CutRequest),
		"commit-cut-in-between": f.commit(postgrestest.CutBetween),
		"commit-answer-lost":    f.commit(postgrestest.CutAnswer),
		"commit-answer-muted":   f.commit(postgrestest.MuteAnswer),
		"database-line-slow": func(ctx context.Context) error {
			return during(ctx, 2*time.Second, func() { f.line.Slow(5 * time.Millisecond) }, func() { f.line.Slow(0) })
		},
		"database-line-stalled": func(ctx context.Context) error { return during(ctx, 15*time.Second, f.line.Stall, f.line.Resume) },
		"database-neighbours":   f.neighbours,
	}
}

// neighbours is what programs on another database of the server do for a while: each writes a megabyte after the other.
func (f *faultRig) neighbours(ctx context.Context) error {
	other, err := postgrestest.Create(f.server.URL(), "")
	if err != nil {
		return err
	}
	defer func() { f.must(postgrestest.Drop(other)) }()
	if err := postgrestest.Exec(other, `CREATE TABLE pgbench (n bigserial, body text)`); err != nil {
		return err
	}
	ctx, end := context.WithTimeout(ctx, 3*time.Second)
	defer end()
	var all errgroup.Group
	for range 8 {
		all.Go(func() error {
			conn, err := pgx.Connect(ctx, other)
			for err == nil {
				_, err = conn.Exec(ctx, `INSERT INTO pgbench (body) SELECT repeat(md5(n::text), 32) FROM generate_series(1, 1000) n`)
			}
			if conn != nil {
				_ = conn.Close(context.WithoutCancel(ctx))
			}
			if ctx.Err() != nil {
				return nil
			}
			return err
		})
	}
	return all.Wait()
}

func (f *faultRig) must(err error) {
	if err != nil {
		f.t.Error(err)
	}
}

// trial runs the rows, and fails with what is wrong in the books.
func (f *faultRig) trial(o chaos.Options) *chaos.Result {
	f.t.Helper()
	each, _ := faultRuns()
	os.Args[0] = "stepwell" // what the trial starts is this program under that name
	var said strings.Builder
	o.Said = &said
	if testing.Verbose() {
		o.Said = io.MultiWriter(&said, os.Stderr)
	}
	o.DB, o.Each, o.For, o.Pause, o.InFlight = f.address, each, 2*time.Minute, 200*time.Millisecond, max(4, each/3)
	r, err := chaos.Run(f.t.Context(), o)
	if err != nil {
		f.t.Fatalf("%v\n%s", err, said.String())
	}
	if len(r.Wrong) > 0 {
		f.t.Fatalf("%s\n%s", r.Text(), said.String())
	}
	f.t.Log("\n" + r.Text())
	if r.Executions != len(o.Faults)*each {
		f.t.Errorf("%d executions", r.Executions)
	}
	return r
}

// rows are those of a table: the first ones, in the full form all, or those of STEPWELL_FAULTS.
func rows(first, names []string, more map[string]func(context.Context) error) []string {
	if only := os.Getenv("STEPWELL_FAULTS"); only != "" {
		return strings.Split(only, ",")
	}
	if _, full := faultRuns(); !full {
		return first
	}
	return slices.Concat(names, slices.Sorted(maps.Keys(more)))
}

// TestFaultTable has everything happen that may happen to servers, workers and PostgreSQL, each to executions of its own, and asks the tables after each.
// The clocks of the two servers are two hours apart.
func TestFaultTable(t *testing.T) {
	t.Setenv(clocksVariable, "node-1=1h,node-2=-1h")
	f := newFaultRig(t)
	f.servers("node-1", "node-2")
	more := f.database()
	maps.Copy(more, f.messages())
	f.trial(chaos.Options{Seed: 12, Nodes: 2, Workers: 2, More: more, Faults: rows([]string{"worker-and-node-killed", "owners-swapped", "database-restarted",
		"commit-answer-lost"}, []string{"node-killed", "worker-killed", "worker-and-node-killed", "node-stopped", "worker-stopped",
		"node-frozen", "worker-frozen", "owners-swapped", "database-cut", "database-slow", "database-stall"}, more)})
}

// TestFaultTableRedis is TestFaultTable for what may happen to a Redis server through whose lists all steps go.
func TestFaultTableRedis(t *testing.T) {
	f, redis := newFaultRig(t), redistest.New(t)
	line := proxytest.New(t, redis.Address())
	more := map[string]func(context.Context) error{
		"queue-restarted-empty": func(context.Context) error { return errors.Join(redis.Kill(), redis.Begin()) },
		"queue-killed": func(ctx context.Context) error {
			return during(ctx, 7*time.Second, func() { _ = redis.Kill() }, func() { _ = redis.Begin() })
		},
		"queue-line-slow": func(ctx context.Context) error {
			return during(ctx, 2*time.Second, func() { line.Slow(5 * time.Millisecond) }, func() { line.Slow(0) })
		},
		"queue-partitioned": func(ctx context.Context) error {
			return during(ctx, 5*time.Second, func() { line.Stall(); line.Refuse(true) }, func() { line.Cut(); line.Refuse(false); line.Resume() })
		},
	}
	f.trial(chaos.Options{Seed: 34, Nodes: 2, Workers: 2, More: more, Queue: "redis://" + line.Address(), Faults: rows([]string{"queue-doubled", "queue-restarted-empty"}, []string{"node-killed", "worker-killed", "worker-and-node-killed", "node-stopped", "worker-stopped", "queue-flushed", "queue-cut", "queue-stalled", "queue-slow", "queue-popped", "queue-doubled"}, more)})
}
