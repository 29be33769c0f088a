//go:build unix

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/store/postgres/postgrestest"
)

// booksPipeline has, for each execution, a fan-out of 40 steps, a chain of 20, a question between the two, a place of a concurrency
// key, and outputs that depend on each other.
func booksPipeline() string {
	var b strings.Builder
	b.WriteString(`name: books
parameters: [{name: n, type: integer}]
settings: {concurrency: {key: "books-{{ params.n % 4 }}", limit: 8}}
steps:
  - {id: fan, action: util.set_output, for_each: 40, params: {v: "{{ item }}"}}
  - {id: ask, action: util.approval, depends_on: [fan], params: {message: "continue?"}}
  - {id: c0, action: util.set_output, depends_on: [ask], params: {v: "{{ params.n }}"}}
`)
	for i := 1; i < chainSteps; i++ {
		fmt.Fprintf(&b, "  - {id: c%d, action: util.set_output, depends_on: [c%d], params: {v: \"{{ steps.c%d.outputs.v + 1 }}\"}}\n", i, i-1, i-1)
	}
	fmt.Fprintf(&b, "outputs: {n: \"{{ steps.c%d.outputs.v }}\"}\n", chainSteps-1)
	return b.String()
}

const (
	chainSteps = 20
	bookSteps  = chainSteps + 40 + 2 // rows of an execution's steps
)

// fleetRuns is how many executions a fault meets: STEPWELL_FLEET_RUNS of them, such as 162 for 10,000 steps.
func fleetRuns() int {
	if n, err := strconv.Atoi(os.Getenv("STEPWELL_FLEET_RUNS")); err == nil {
		return n
	}
	return 24
}

// fleetRig is a database and the servers on it.
type fleetRig struct {
	t        *testing.T
	url      string
	settings string // of all servers, beside the usual ones
	steps    string // that a server runs at once
	nodes    []*fleetNode
	made     int
}

// fleetNode is a server, as a process of its own.
type fleetNode struct {
	*crashRig
	out bytes.Buffer
}

func newFleetRig(t *testing.T, server string, nodes int) *fleetRig {
	t.Helper()
	return newSetFleetRig(t, server, nodes, "")
}

// newSetFleetRig is newFleetRig with settings of the servers.
func newSetFleetRig(t *testing.T, server string, nodes int, settings string) *fleetRig {
	t.Helper()
	r := newServers(t, server, nodes, "16", settings)
	document := api.Object{"document": booksPipeline()}
	if err := r.nodes[0].client.Call(t.Context(), "POST", "/api/v1/pipelines", nil, document, nil); err != nil {
		t.Fatal(err)
	}
	return r
}

// newServers is a rig without a pipeline.
func newServers(t *testing.T, server string, nodes int, steps, settings string) *fleetRig {
	t.Helper()
	url, err := postgrestest.Create(server, "")
	if err != nil {
		t.Fatal(err)
	}
	r := &fleetRig{t: t, url: url, settings: settings, steps: steps}
	t.Cleanup(func() {
		if t.Failed() {
			r.logOpen()
		}
		for _, n := range r.nodes {
			if n.kill(); t.Failed() {
				t.Logf("%s:\n%s", n.address, n.out.String())
			}
		}
	})
	for range nodes {
		r.add(url)
	}
	return r
}

// add starts one more server, which reaches the database at an address of its own.
func (r *fleetRig) add(database string) *fleetNode {
	r.t.Helper()
	n := &fleetNode{crashRig: newCrashRig(r.t)}
	n.set(r.settings)
	n.process = exec.Command("stepwell", "serve", "--listen", n.address, "--workers", r.steps, "--db", database)
	n.process.Dir = n.dir
	n.process.Env = append(os.Environ(), "STEPWELL_SECRETS_KEY=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=")
	n.process.Stdout, n.process.Stderr = &n.out, &n.out
	if err := n.process.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.nodes = append(r.nodes, n)
	n.until("a server", n.ready)
	return n
}

func (n *fleetNode) ready() bool {
	var ready struct{ Ready bool }
	return n.client.Call(n.t.Context(), "GET", "/api/v1/ready", nil, nil, &ready) == nil && ready.Ready
}

// alive are the servers whose processes run.
func (r *fleetRig) alive() (list []*fleetNode) {
	for _, n := range r.nodes {
		if n.process != nil {
			list = append(list, n)
		}
	}
	return list
}

// begin starts an execution under a key through any server, until one has answered.
func (r *fleetRig) begin(n int) error {
	for try := n; ; try++ {
		nodes := r.alive()
		_, err := nodes[try%len(nodes)].client.Execute(r.t.Context(), api.ExecuteRequest{Workflow: "books", Params: api.Object{"n": n}}, fmt.Sprint("books-", n))
		if err == nil || stepwell.CodeOf(err) != stepwell.CodeUnavailable {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// work starts executions through all servers, has a fault happen when half of them have been started, answers all questions at whichever
// server lists them, and waits until all have ended. Then it checks the books.
func (r *fleetRig) work(fault func()) {
	r.t.Helper()
	runs := fleetRuns()
	var started atomic.Int64
	half := make(chan struct{})
	var g errgroup.Group
	g.SetLimit(8)
	go func() {
		for n := range runs {
			g.Go(func() error {
				err := r.begin(n)
				if err != nil {
					r.t.Errorf("execution %d: %v", n, err)
				}
				if started.Add(1) == int64(runs/2) {
					close(half)
				}
				return err
			})
		}
	}()
	<-half
	fault()
	r.made = runs
	r.nodes[0].until("the end of all executions", func() bool {
		for _, n := range r.alive() {
			n.approve(maxList)
		}
		if r.t.Failed() {
			return true
		}
		return r.count(`SELECT count(*) FROM execution_past`) == runs
	})
	if err := g.Wait(); err != nil {
		r.t.Error(err)
	}
	r.checkBooks()
}

// count is the answer to a query with one number; -1 while the database does not answer.
func (r *fleetRig) count(query string) (n int) {
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, r.url)
	if err != nil {
		return -1
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := conn.QueryRow(ctx, query).Scan(&n); err != nil {
		return -1
	}
	return n
}

// logOpen logs what is open in the database.
func (r *fleetRig) logOpen() {
	ctx := context.Background() // the test's has ended
	conn, err := pgx.Connect(ctx, r.url)
	if err != nil {
		r.t.Log(err)
		return
	}
	defer conn.Close(ctx)
	for _, what := range []string{"no, since, until, address FROM node", "no, id, owner, status, concurrency FROM execution_live",
		"execution, max(version), count(*) FROM step_log WHERE execution IN (SELECT no FROM execution_live) GROUP BY execution",
		"execution, idx, status, external FROM step WHERE status < 5", "* FROM seat", "key, id, at, taken FROM signal", "* FROM request"} {
		var text *string
		if err := conn.QueryRow(ctx, "SELECT json_agg(x)::text FROM (SELECT "+what+" LIMIT 100) x").Scan(&text); err != nil || text == nil {
			r.t.Logf("%s: %v", what, err)
			continue
		}
		r.t.Logf("%s:\n%s", what, *text)
	}
}

// checkBooks asks the database, beside the program, whether every step has completed once.
func (r *fleetRig) checkBooks() {
	r.t.Helper()
	for query, want := range map[string]int{
		`SELECT count(*) FROM execution_past WHERE status = 4`: r.made,
		`SELECT count(*) FROM execution_live`:                  0,
		// In the rows: each step once, none open.
		`SELECT count(*) FROM step WHERE status = 5 AND superseded IS NULL`: r.made * bookSteps,
		`SELECT count(*) FROM step WHERE status <> 5`:                       0,
		// In the log: versions without gaps, each step completed once.
		`SELECT count(*) FROM (SELECT 1 FROM step_log GROUP BY execution HAVING count(*) <> max(version) OR min(version) <> 1) x`:                     0,
		`SELECT count(*) FROM (SELECT 1 FROM step_event WHERE type = 'completed' AND key IS NOT NULL GROUP BY execution, key HAVING count(*) <> 1) x`: 0,
		// The outputs are the model's.
		fmt.Sprintf(`SELECT count(*) FROM execution_past WHERE (outputs::json ->> 'n')::int <> (params::json ->> 'n')::int + %d`, chainSteps-1): 0,
		// Nothing is left.
		`SELECT count(*) FROM outgoing`:                       0,
		`SELECT count(*) FROM seat`:                           0,
		`SELECT count(*) FROM request`:                        0,
		`SELECT count(*) FROM signal WHERE taken IS NULL`:     0,
		`SELECT count(*) - count(DISTINCT id) FROM execution`: 0,
	} {
		got := -1
		// What is behind the end of an execution comes after it; seats that a replaced database has kept go with the comparison of every ten beats.
		for try := 0; try < 900 && got != want; try++ {
			if got = r.count(query); got != want {
				time.Sleep(50 * time.Millisecond)
			}
		}
		if got != want {
			r.t.Errorf("%s: %d, want %d", query, got, want)
		}
	}
}

// TestFleet looks into the database after work, also when a server is stopped in the middle of it: every step has completed exactly once, and
// nothing is left open. TestFaultTable has what fails.
func TestFleet(t *testing.T) {
	t.Parallel()
	server := postgrestest.New(t)
	t.Run("nothing fails", func(t *testing.T) { newFleetRig(t, server.URL(), 2).work(func() {}) })
	t.Run("a server is stopped in order", func(t *testing.T) {
		r := newFleetRig(t, server.URL(), 2)
		r.work(func() {
			if err := r.nodes[0].process.Process.Signal(os.Interrupt); err != nil {
				t.Error(err)
			}
			if err := r.nodes[0].process.Wait(); err != nil {
				t.Errorf("the server ended with %v", err)
			}
			r.nodes[0].process = nil
		})
	})
}

// TestFleetReplaced has a standby take over that lacks the last commits: what it knows goes on from there, also executions that had ended
// since, and what it does not know is lost, and starts anew under its key.
func TestFleetReplaced(t *testing.T) {
	t.Parallel()
	server := postgrestest.New(t)
	r := newFleetRig(t, server.URL(), 2)
	r.work(func() {
		copied, err := server.Copy()
		if err != nil {
			t.Fatal(err)
		}
		known := r.count(`SELECT count(*) FROM execution_past`)
		r.nodes[0].until("commits that the copy lacks", func() bool {
			for _, n := range r.alive() {
				n.approve(maxList)
			}
			return r.count(`SELECT count(*) FROM execution_past`) >= known+3
		})
		if err := server.Replace(copied); err != nil {
			t.Fatal(err)
		}
		for n := range fleetRuns() {
			if err := r.begin(n); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestTwoOwners stops a server for longer than its lease while executions of it wait for approvals, of which some come meanwhile, and lets it
// go on: for a moment two run the same executions. Those in which nothing happens it lets go, too.
func TestTwoOwners(t *testing.T) {
	t.Parallel()
	r := newFleetRig(t, postgrestest.URL(t), 2)
	asleep := r.nodes[0].process.Process
	r.work(func() {
		r.nodes[0].until("executions that wait", func() bool {
			return r.count(`SELECT count(*) FROM waiting w JOIN execution_live x ON x.no = w.execution WHERE x.owner = (SELECT min(no) FROM node)`) > 1
		})
		if err := asleep.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		r.nodes[1].until("the other server takes over", func() bool {
			return r.count(`SELECT count(*) FROM execution_live WHERE owner = (SELECT min(no) FROM node)`) == 0
		})
		r.nodes[1].until("the end of some", func() bool {
			return r.nodes[1].approve(maxList) >= 0 && r.count(`SELECT count(*) FROM execution_past`) > 1
		})
		if err := asleep.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	})
	for _, n := range r.nodes {
		n.until("an empty memory", func() bool { return n.metric("stepwell_executions_active") == "0" })
	}
}

// metric is the value of one that a server measures, "" without an answer.
func (n *fleetNode) metric(name string) string {
	resp, err := http.Get("http://" + n.address + "/metrics")
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body) // less of it lacks the value
	_, value, _ := strings.Cut("\n"+string(text), "\n"+name+" ")
	value, _, _ = strings.Cut(value, "\n")
	return value
}
