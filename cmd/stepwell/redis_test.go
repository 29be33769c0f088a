package main

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/api/client"
	"github.com/stepwell/stepwell/redistest"
	"github.com/stepwell/stepwell/store/postgres/postgrestest"
)

// redisRig is a server whose steps are in Redis lists, as other programs see it.
type redisRig struct {
	t       *testing.T
	redis   *redistest.Server
	dir     string
	url     string
	client  *client.Client
	process *exec.Cmd
}

var givenAddresses sync.Map

// freeAddress is an address where nothing listens, with a port below those that systems choose by themselves: nobody gets it before the
// server that is told of it, or between two lives of that server.
func freeAddress() string {
	for range 1000 {
		address := fmt.Sprint("127.0.0.1:", 20_000+rand.IntN(10_000))
		if l, err := net.Listen("tcp", address); err == nil {
			_ = l.Close() // it has had no connections
			if _, given := givenAddresses.LoadOrStore(address, true); !given {
				return address
			}
		}
	}
	panic("no port is free")
}

func newRedisRig(t *testing.T, settings string, args ...string) *redisRig {
	t.Helper()
	return serveRedis(t, redistest.New(t), settings, args...)
}

func serveRedis(t *testing.T, redis *redistest.Server, settings string, args ...string) *redisRig {
	t.Helper()
	return serveRedisIn(t, redis, t.TempDir(), settings, args...)
}

func serveRedisIn(t *testing.T, redis *redistest.Server, dir, settings string, args ...string) *redisRig {
	t.Helper()
	r := &redisRig{t: t, redis: redis, dir: dir}
	address := freeAddress()
	r.url = "http://" + address
	var err error
	if r.client, err = client.New(client.Options{URL: r.url, HTTP: http.DefaultClient}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(r.dir, "stepwell.yaml"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	r.process = r.program(append([]string{"serve", "--listen", address, "--queue", "redis://" + r.redis.Address()}, args...)...)
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		var ready struct{ Ready bool }
		if r.client.Call(t.Context(), "GET", "/api/v1/ready", nil, nil, &ready) == nil && ready.Ready {
			return r
		}
		if time.Now().After(end) {
			t.Fatalf("the server is not ready: %s", r.process.Stderr)
		}
	}
}

// program starts stepwell in the rig's folder, until the test's end.
func (r *redisRig) program(args ...string) *exec.Cmd {
	r.t.Helper()
	c := exec.Command("stepwell", args...)
	c.Dir = r.dir
	c.Env = append(os.Environ(), "STEPWELL_SECRETS_KEY=AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=")
	var out bytes.Buffer
	c.Stdout, c.Stderr = io.Discard, &out
	if err := c.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { r.kill(c) })
	return c
}

func (r *redisRig) kill(c *exec.Cmd) {
	if c.ProcessState == nil {
		_ = c.Process.Kill()
		_ = c.Wait() // it was killed
	}
}

// execute starts a pipeline under its name.
func (r *redisRig) execute(name, document string) string {
	r.t.Helper()
	if err := r.client.Call(r.t.Context(), "POST", "/api/v1/pipelines", nil, object{"document": "name: " + name + "\n" + document}, nil); err != nil {
		r.t.Fatal(err)
	}
	answer, err := r.client.Execute(r.t.Context(), api.ExecuteRequest{Workflow: name}, "")
	if err != nil {
		r.t.Fatal(err)
	}
	return answer.ID
}

// status waits until an execution has ended.
func (r *redisRig) status(id string) string {
	r.t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		var x struct{ Status string }
		if err := r.client.Call(r.t.Context(), "GET", "/api/v1/executions/"+id, nil, nil, &x); err != nil {
			r.t.Fatal(err)
		}
		if x.Status == "completed" || x.Status == "failed" || x.Status == "cancelled" {
			return x.Status
		}
		if time.Now().After(end) {
			r.t.Fatalf("the execution is %s", x.Status)
		}
	}
}

// post makes a call as any HTTP client makes it.
func (r *redisRig) post(path string, in, out any) int {
	r.t.Helper()
	raw, err := json.Marshal(in)
	if err != nil {
		r.t.Fatal(err)
	}
	resp, err := http.Post(r.url+path, "application/json", bytes.NewReader(raw))
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err = io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode == http.StatusOK && out != nil {
		err = json.Unmarshal(raw, out)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		r.t.Logf("%s: %s", path, raw)
	}
	return resp.StatusCode
}

// message is what the specification says of a list's.
type message struct {
	Step      string `json:"step_id"`
	Name      string `json:"step_name"`
	Execution string `json:"execution_id"`
}

// pop is BRPOP.
func (r *redisRig) pop(list string) (m message) {
	r.t.Helper()
	out, err := redistest.Do(r.redis.Address(), "BRPOP", list, "30")
	_, raw, ok := strings.Cut(out, "\n")
	if err != nil || !ok {
		r.t.Fatalf("BRPOP %s: %q, %v", list, out, err)
	}
	if err := json.Unmarshal([]byte(raw), &m); err != nil {
		r.t.Fatal(err)
	}
	return m
}

// work does one step as a program that knows BRPOP and HTTP.
func (r *redisRig) work(list string, output object) message {
	r.t.Helper()
	m := r.pop(list)
	var task struct {
		Epoch  int
		Params object
	}
	if status := r.post("/api/v1/worker/claim", object{"worker": "foreign", "step_id": m.Step}, &task); status != 200 {
		r.t.Fatalf("claim of %s: %d", m.Name, status)
	}
	if status := r.post("/api/v1/worker/claim", object{"worker": "second", "step_id": m.Step}, nil); status != http.StatusConflict {
		r.t.Errorf("a second claim of %s: %d", m.Name, status)
	}
	var out struct{ Committed []object }
	outcome := object{"step_id": m.Step, "epoch": task.Epoch, "status": "completed", "output": output}
	if status := r.post("/api/v1/worker/turn", object{"worker": "foreign", "outcomes": []object{outcome}}, &out); status != 200 || len(out.Committed) != 1 {
		r.t.Fatalf("the outcome of %s: %d, %v", m.Name, status, out)
	}
	return m
}

const redisPipeline = `
steps:
  - {id: a, action: util.wait, params: {seconds: 60}, priority: -2}
  - {id: b, action: util.wait, params: {seconds: 60}, depends_on: [a], priority: 9}
  - {id: c, action: util.wait, params: {seconds: 60}, depends_on: [b], queue: gpu}
`

// A program that knows `BRPOP pipeline:steps` and HTTP completes a pipeline, and the database's own tools show the same ids.
func TestRedisStranger(t *testing.T) {
	stores := map[string]func(t *testing.T, r *redisRig) *sql.DB{
		"sqlite": func(t *testing.T, r *redisRig) *sql.DB {
			db, err := sql.Open("sqlite", filepath.Join(r.dir, ".stepwell", "stepwell.db"))
			if err != nil {
				t.Fatal(err)
			}
			return db
		},
		"postgres": nil,
	}
	for _, name := range []string{"sqlite", "postgres"} {
		t.Run(name, func(t *testing.T) {
			open, args := stores[name], []string{"--workers", "0"}
			if open == nil {
				address := postgrestest.New(t).URL()
				args = append(args, "--db", address)
				open = func(t *testing.T, _ *redisRig) *sql.DB {
					u, err := url.Parse(address)
					if err != nil {
						t.Fatal(err)
					}
					db, err := sql.Open("pgx", u.String())
					if err != nil {
						t.Fatal(err)
					}
					return db
				}
			}
			r := newRedisRig(t, "log: {level: warn}\n", args...)
			id := r.execute("foreign", redisPipeline)
			want := map[string]string{}
			for _, step := range []struct{ list, name string }{{"pipeline:steps", "a"}, {"pipeline:steps", "b"}, {"pipeline:steps:gpu", "c"}} {
				m := r.work(step.list, object{"by": step.name})
				if m.Name != step.name || m.Execution != id {
					t.Errorf("%s has %+v, want step %s of %s", step.list, m, step.name, id)
				}
				want[m.Step] = fmt.Sprintf(`completed foreign {"by":%q}`, step.name)
			}
			if status := r.status(id); status != "completed" {
				t.Errorf("the execution is %s", status)
			}
			db := open(t, r)
			defer db.Close()
			rows, err := db.QueryContext(t.Context(), "SELECT id, status, worker_id, output_data FROM pipeline_steps WHERE execution_id = $1", id)
			if err != nil {
				t.Fatal(err)
			}
			defer rows.Close()
			got := map[string]string{}
			for rows.Next() {
				var step, status, worker, output string
				if err := rows.Scan(&step, &status, &worker, &output); err != nil {
					t.Fatal(err)
				}
				got[step] = status + " " + worker + " " + strings.ReplaceAll(output, " ", "")
			}
			if !maps.Equal(got, want) {
				t.Errorf("the view has %v, want %v", got, want)
			}
			if left, err := redistest.Do(r.redis.Address(), "KEYS", "*"); err != nil || left != "" {
				t.Errorf("left in Redis: %q, %v", left, err)
			}
			if name == "postgres" {
				checkPSQL(t, args[len(args)-1], id, len(want))
			}
		})
	}
}

// checkPSQL reads the views with PostgreSQL's own program, where it is installed beside the server.
func checkPSQL(t *testing.T, address, id string, steps int) {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/psql") // the pattern is a good one
	if path, err := exec.LookPath("psql"); err == nil {
		found = append(found, path)
	}
	if len(found) == 0 && os.Getenv("CI") != "true" {
		t.Log("no psql")
		return
	}
	if len(found) == 0 {
		t.Fatal("psql is not there")
	}
	query := "SELECT (SELECT count(*) FROM pipeline_steps WHERE execution_id = '" + id + "' AND status = 'completed'), (SELECT count(*) FROM pipeline_step_log WHERE execution_id = '" + id +
		"' AND event_type = 'completed' AND step_key IS NOT NULL)"
	out, err := exec.CommandContext(t.Context(), found[0], address, "-Atc", query).CombinedOutput()
	if want := fmt.Sprintf("%d|%d\n", steps, steps); err != nil || string(out) != want {
		t.Errorf("psql: %v, %q, want %q", err, out, want)
	}
}

// A step that was cancelled while it was in the list is refused at the claim.
func TestRedisCancelled(t *testing.T) {
	r := newRedisRig(t, "log: {level: warn}\n", "--workers", "0")
	id := r.execute("foreign", redisPipeline)
	m := r.pop("pipeline:steps")
	if err := r.client.Call(t.Context(), "POST", "/api/v1/executions/"+id+"/cancel", nil, object{}, nil); err != nil {
		t.Fatal(err)
	}
	if status := r.status(id); status != "cancelled" {
		t.Errorf("the execution is %s", status)
	}
	if status := r.post("/api/v1/worker/claim", object{"worker": "foreign", "step_id": m.Step}, nil); status != http.StatusConflict {
		t.Errorf("the claim of a cancelled step: %d", status)
	}
}

// The server's own workers and `stepwell worker --redis` take from the lists what the server offers there; queues that go via the
// nodes stay out of Redis, and so does everything while Redis is away.
func TestRedisWorkers(t *testing.T) {
	const steps = `
steps:
  - {id: each, action: util.wait, for_each: 50, params: {seconds: 0}}
  - {id: unnamed, action: util.wait, queue: unnamed, depends_on: [each], params: {seconds: 0}}
  - {id: own, action: util.set_output, queue: here, depends_on: [unnamed], params: {n: "{{ steps.each.outputs.completed }}"}}
outputs: {n: "{{ steps.own.outputs.n }}"}
`
	const settings = "log: {level: warn}\nqueues: {here: {via: nodes}}\n"
	for name, args := range map[string][]string{"own": nil, "another process": {"--workers", "0"}} {
		t.Run(name, func(t *testing.T) {
			r := newRedisRig(t, settings, args...)
			if args != nil {
				r.program("worker", "--server", r.url, "--redis", "redis://"+r.redis.Address(), "--name", "w1", "--queues", "default,here,unnamed")
			}
			if status := r.status(r.execute("all", steps)); status != "completed" {
				t.Errorf("the execution is %s", status)
			}
			info, err := redistest.Do(r.redis.Address(), "INFO", "commandstats")
			if err != nil || !strings.Contains(info, "cmdstat_lpush") || !strings.Contains(info, "cmdstat_blmpop") {
				t.Errorf("the steps were not in Redis: %v\n%s", err, info)
			}
			if err := r.redis.Kill(); err != nil {
				t.Fatal(err)
			}
			if status := r.status(r.execute("away", steps)); status != "completed" {
				t.Errorf("the execution without Redis is %s", status)
			}
			for end := time.Now().Add(time.Minute); args == nil; time.Sleep(50 * time.Millisecond) {
				var health struct{ Status string }
				if err := r.client.Call(t.Context(), "GET", "/api/v1/health", nil, nil, &health); err != nil {
					t.Fatal(err)
				}
				if health.Status == "degraded" {
					break
				}
				if time.Now().After(end) {
					t.Fatalf("the server is %s without Redis", health.Status)
				}
			}
		})
	}
}

// Servers that share a database and the lists get each their own steps, from their own workers and from a worker that has joined one
// of them.
func TestRedisServers(t *testing.T) {
	t.Parallel()
	const steps = "steps:\n  - {id: each, action: util.wait, for_each: 20, params: {seconds: 0}}\n"
	for name, more := range map[string][]string{"own": nil, "another process": {"--workers", "0"}} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"--db", postgrestest.New(t).URL()}, more...)
			a := newRedisRig(t, "log: {level: warn}\n", args...)
			b := serveRedis(t, a.redis, "log: {level: warn}\n", args...)
			if more != nil {
				a.program("worker", "--server", a.url, "--redis", "redis://"+a.redis.Address(), "--name", "w1")
			}
			for i, r := range []*redisRig{a, b, a, b} {
				if status := r.status(r.execute(fmt.Sprint("p", i), steps)); status != "completed" {
					t.Errorf("the execution is %s", status)
				}
			}
		})
	}
}

// Messages of a server without workers do not hold up another server: a server's own workers find their steps behind it, and in the
// lists of other queues.
func TestRedisServersLeft(t *testing.T) {
	const steps = "steps:\n  - {id: each, action: util.wait, for_each: %d, params: {seconds: 0}}\n  - {id: other, action: util.set_output, queue: gpu, depends_on: [each], params: {n: 1}}\n"
	const settings = "log: {level: warn}\nqueues: {default: {lists: 1}, gpu: {lists: 1}}\n"
	db := postgrestest.New(t).URL()
	a := newRedisRig(t, settings, "--db", db, "--workers", "2")
	b := serveRedis(t, a.redis, settings, "--db", db, "--workers", "0")
	left := b.execute("left", fmt.Sprintf(steps, 600))
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		n, err := redistest.Do(a.redis.Address(), "LLEN", "pipeline:steps")
		if err != nil || time.Now().After(end) {
			t.Fatal(n, err)
		}
		if len(strings.TrimSpace(n)) == 3 {
			break
		}
	}
	if status := a.status(a.execute("behind", fmt.Sprintf(steps, 20))); status != "completed" {
		t.Errorf("the execution is %s", status)
	}
	a.program("worker", "--server", b.url, "--redis", "redis://"+a.redis.Address(), "--name", "w1", "--queues", "default,gpu")
	if status := b.status(left); status != "completed" {
		t.Errorf("what was left is %s", status)
	}
}

// The actions that a worker announces to one server are known to the other servers: they accept pipelines that name them.
func TestServersKnowWhatWorkersServe(t *testing.T) {
	t.Parallel()
	db := postgrestest.New(t).URL()
	a := newRedisRig(t, "log: {level: warn}\n", "--db", db)
	b := serveRedis(t, a.redis, "log: {level: warn}\n", "--db", db)
	join := object{"worker": "py", "protocol": 1, "concurrency": 1, "actions": []object{{"name": "python.resize", "open_params": true}}}
	if status := a.post("/api/v1/worker/join", join, nil); status != 200 {
		t.Fatalf("join: %d", status)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		err := b.client.Call(t.Context(), "GET", "/api/v1/actions/python.resize", nil, nil, nil)
		if err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// A Redis Cluster is refused at the start, with the reason; so is a queue via Redis without a server.
func TestRedisRefused(t *testing.T) {
	cluster := redistest.New(t, "--cluster-enabled", "yes")
	for name, c := range map[string]struct {
		settings, want string
		args           []string
	}{
		"cluster":     {"", "the Redis server is a cluster", []string{"--queue", "redis://" + cluster.Address()}},
		"no address":  {"", "queue: the address of the Redis server", []string{"--queue", "http://localhost"}},
		"no server":   {"queues: {gpu: {via: redis}}\n", "queues.gpu.via is redis, and no Redis server is named", nil},
		"wrong lists": {"queues: {gpu: {lists: 2}}\n", "queues.gpu.lists is 2", nil},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "stepwell.yaml"), []byte(c.settings), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), "stepwell", append([]string{"serve", "--listen", "127.0.0.1:0"}, c.args...)...)
			cmd.Dir = dir
			out, err := cmd.CombinedOutput()
			if exitCode(err) != 2 || !strings.Contains(string(out), c.want) {
				t.Errorf("exit %v, want 2: %s", err, out)
			}
		})
	}
}

// Entries of a stream start executions and end waiting steps, each once, also when the server is killed in between.
func TestRedisEvents(t *testing.T) {
	redis := redistest.New(t)
	settings := "log: {level: warn}\nevent_sources: {orders: {url: 'redis://" + redis.Address() + "', stream: orders, from: beginning}}\n"
	a := serveRedis(t, redis, settings)
	waiting := a.execute("waiting", "steps:\n  - {id: w, action: util.wait_for, params: {event: order-7}}\n")
	if err := a.client.Call(t.Context(), "POST", "/api/v1/pipelines", nil, object{"document": "name: started\nsteps:\n  - {id: s, action: util.wait, params: {seconds: 0}}\n"}, nil); err != nil {
		t.Fatal(err)
	}
	if err := a.client.Call(t.Context(), "POST", "/api/v1/event-triggers", nil, object{"name": "t", "event_type": "order.*", "callback": object{"type": "workflow", "workflow_id": "started"}}, nil); err != nil {
		t.Fatal(err)
	}
	add := func(from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			if _, err := redistest.Do(redis.Address(), "XADD", "orders", "*", "event", fmt.Sprintf(`{"id":"o%d","type":"order.new","key":"order-%d"}`, i, i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	add(0, 10)
	a.kill(a.process)
	add(10, 20)
	b := a.again(settings)
	if status := b.status(waiting); status != "completed" {
		t.Errorf("the execution that waits is %s", status)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		var list struct{ Executions []struct{ Status string } }
		if err := b.client.Call(t.Context(), "GET", "/api/v1/executions", url.Values{"pipeline": {"started"}, "status": {"completed"}, "limit": {"100"}}, nil, &list); err != nil {
			t.Fatal(err)
		}
		if pending, err := redistest.Do(redis.Address(), "XPENDING", "orders", "stepwell"); err != nil || len(list.Executions) > 20 {
			t.Fatalf("%d executions, want 20; %v", len(list.Executions), err)
		} else if len(list.Executions) == 20 && strings.HasPrefix(pending, "0\n") {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d executions, want 20", len(list.Executions))
		}
	}
}

// again starts the server in its folder once more.
func (r *redisRig) again(settings string) *redisRig {
	r.t.Helper()
	return serveRedisIn(r.t, r.redis, r.dir, settings)
}

// bench --queue measures steps that workers take from the lists.
func TestRedisBench(t *testing.T) {
	redis := redistest.New(t)
	out, err := exec.CommandContext(t.Context(), "stepwell", "bench", "chain", "--n", "5", "--runs", "1", "-o", "json", "--queue", "redis://"+redis.Address()).CombinedOutput()
	if err != nil || !strings.Contains(string(out), `"queue":"redis, workers in 1"`) {
		t.Errorf("%v: %s", err, out)
	}
	if info, err := redistest.Do(redis.Address(), "INFO", "commandstats"); err != nil || !strings.Contains(info, "cmdstat_lpush") {
		t.Errorf("the steps were not in Redis: %v\n%s", err, info)
	}
}
