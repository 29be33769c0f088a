//go:build unix

package main

import (
	"context"
	"errors"
	"maps"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell/chaos"
	"github.com/stepwell/stepwell/proxytest"
	"github.com/stepwell/stepwell/redistest"
	"github.com/stepwell/stepwell/store/postgres/postgrestest"
)

// faultRuns is how many executions of 105 steps each row meets: STEPWELL_FAULT_RUNS of them. 100 are the 10,500 steps of the full form.
func faultRuns() int {
	if n, err := strconv.Atoi(os.Getenv("STEPWELL_FAULT_RUNS")); err == nil {
		return n
	}
	return 12
}

// faultRig is what the rows disturb beside the processes: a PostgreSQL server behind two proxies, of which the first knows its protocol.
type faultRig struct {
	t       *testing.T
	server  *postgrestest.Server
	address string // of the database, through the proxies
	commits *postgrestest.Proxy
	line    *proxytest.Proxy
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

// neighbours is what programs on another database of the server do all the while: they write as fast as they can.
func (f *faultRig) neighbours(ctx context.Context) error {
	return nil
}

// trial runs the rows, and fails with what is wrong in the books.
func (f *faultRig) trial(o chaos.Options) *chaos.Result {
	f.t.Helper()
	os.Args[0] = "stepwell" // what the trial starts is this program under that name
	var said strings.Builder
	o.DB, o.Each, o.For, o.Pause, o.InFlight, o.Said = f.address, faultRuns(), time.Minute, 200*time.Millisecond, max(4, faultRuns()/3), &said
	r, err := chaos.Run(f.t.Context(), o)
	if err != nil || len(r.Wrong) > 0 {
		f.t.Fatalf("%v\n%s\n%s", err, r.Text(), said.String())
	}
	f.t.Log("\n" + r.Text())
	if r.Executions != len(o.Faults)*faultRuns() {
		f.t.Errorf("%d executions", r.Executions)
	}
	return r
}

// rows are those of a table, or those of STEPWELL_FAULTS.
func rows(names []string, more map[string]func(context.Context) error) []string {
	if only := os.Getenv("STEPWELL_FAULTS"); only != "" {
		return strings.Split(only, ",")
	}
	return slices.Concat(names, slices.Sorted(maps.Keys(more)))
}

// TestFaultTable has everything happen that may happen to servers, workers and PostgreSQL, each to executions of its own, and asks the tables after each.
func TestFaultTable(t *testing.T) {
	f := newFaultRig(t)
	more := f.database()
	f.trial(chaos.Options{Seed: 12, Nodes: 2, Workers: 2, More: more, Faults: rows([]string{"node-killed", "worker-killed", "worker-and-node-killed", "node-stopped", "worker-stopped",
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
	f.trial(chaos.Options{Seed: 34, Nodes: 2, Workers: 2, More: more, Queue: "redis://" + line.Address(), Faults: rows([]string{"node-killed", "worker-killed", "worker-and-node-killed",
		"queue-flushed", "queue-cut", "queue-stalled", "queue-slow", "queue-popped", "queue-doubled"}, more)})
	if info, err := redistest.Do(redis.Address(), "INFO", "commandstats"); err != nil || !strings.Contains(info, "cmdstat_lpush") || !strings.Contains(info, "cmdstat_blmpop") {
		t.Errorf("the steps were not in Redis: %v\n%s", err, info)
	}
}
