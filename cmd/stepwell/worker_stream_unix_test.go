//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"

	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/stac/geoparquet/geoparquettest"
	"github.com/stepwell/stepwell/store/postgres/postgrestest"
	"github.com/stepwell/stepwell/stream/durable/durabletest"
)

// streamItems is how many items each stream of the tests below moves. STEPWELL_TEST_LONG: 200,000.
func streamItems() int {
	if os.Getenv("STEPWELL_TEST_LONG") != "" {
		return 200_000
	}
	return 6_000
}

// streamRig is servers that only conduct, workers in processes of their own that run streams, and the bucket that they share.
type streamRig struct {
	t       *testing.T
	bucket  *durabletest.Bucket
	input   string
	items   int
	servers []*crashRig
	workers []*streamWorker
}

// streamWorker is a `stepwell worker`.
type streamWorker struct {
	name string
	cmd  *exec.Cmd
	log  *os.File
}

// newStreamRig starts servers, on the database if there is one.
func newStreamRig(t *testing.T, database string, servers int) *streamRig {
	r := &streamRig{t: t, bucket: durabletest.NewBucket(t), items: streamItems()}
	r.input = filepath.Join(t.TempDir(), "in.ndjson")
	f, err := os.Create(r.input)
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriter(f)
	for n := range r.items {
		fmt.Fprintf(w, `{"type":"Feature","stac_version":"1.0.0","id":"item-%06d","collection":"s2","geometry":{"type":"Point","coordinates":[%d,%d]},"bbox":[%d,%d,%d,%d],`+
			`"properties":{"datetime":"2026-01-01T00:00:00Z","n":%d},"links":[],"assets":{}}`+"\n", n, n%180, n%90, n%180, n%90, n%180, n%90, n)
	}
	if err := errors.Join(w.Flush(), f.Close()); err != nil {
		t.Fatal(err)
	}
	for range servers {
		c := newCrashRig(t)
		c.set("")
		r.settings(c.dir)
		if c.flags = []string{"--workers", "0"}; database != "" {
			c.flags = append(c.flags, "--db", database)
		}
		c.start()
		r.servers = append(r.servers, c)
	}
	for format, config := range map[string]string{"ndjson": "", "parquet": fmt.Sprint(", part_rows: ", r.items/3+7)} {
		document := fmt.Sprintf(`
name: flow-%[1]s
parameters: [{name: to}]
settings: {streams: {checkpoint_interval_seconds: 0.01, batch_size: 50}}
steps:
  - {id: read, module: stream.read, config: {path: %[2]q}, retry: {max_attempts: 8, backoff_seconds: 0.01}}
  - {id: mark, module: stream.map, depends_on: [read], config: {set: {properties.to: "{{ params.to }}"}}}
  - {id: write, module: stac.output, depends_on: [mark], config: {format: %[1]s, base_dir: "s3://data/out/{{ params.to }}", write: append%[3]s}}
`, format, r.input, config)
		if err := r.servers[0].client.Call(t.Context(), "POST", "/api/v1/pipelines", nil, api.Object{"document": document}, nil); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(r.end)
	return r
}

// settings writes those of a server or of a worker.
func (r *streamRig) settings(dir string) {
	r.t.Helper()
	text := fmt.Sprintf("http: {allow_private: true}\nserver: {worker_lease_seconds: 2}\nlog: {level: info}\nstreams: {shared: s3://data/streams}\ns3: {endpoint: %q, anonymous: true}\n", r.bucket.URL)
	if err := os.WriteFile(filepath.Join(dir, "stepwell.yaml"), []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// worker starts one, which works for the servers in their order, and waits until one has let it in.
func (r *streamRig) worker(name string) *streamWorker {
	r.t.Helper()
	dir := r.t.TempDir()
	r.settings(dir)
	var addresses []string
	for _, s := range r.servers {
		addresses = append(addresses, "http://"+s.address)
	}
	w := &streamWorker{name: name, cmd: exec.Command("stepwell", "worker", "--name", name, "--server", strings.Join(addresses, ","))}
	var err error
	if w.log, err = os.Create(filepath.Join(dir, "log")); err != nil {
		r.t.Fatal(err)
	}
	w.cmd.Dir, w.cmd.Stderr = dir, w.log
	w.cmd.Env = append(os.Environ(), "TMPDIR="+dir) // a machine of its own has its own locks
	if err := w.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.workers = append(r.workers, w)
	return w
}

func (w *streamWorker) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := w.cmd.Process.Signal(s); err != nil {
		t.Error(err)
	}
}

// wait waits for something that must happen.
func (r *streamRig) wait(what string, happened <-chan struct{}) {
	r.t.Helper()
	select {
	case <-happened:
	case <-time.After(r.patience()):
		var all api.Object
		err := r.servers[len(r.servers)-1].client.Call(r.t.Context(), "GET", "/api/v1/executions", nil, nil, &all)
		r.t.Fatalf("%s did not come; executions: %v %v", what, all, err)
	}
}

func (r *streamRig) patience() time.Duration {
	if r.items > 10_000 {
		return 30 * time.Minute
	}
	return 90 * time.Second
}

// end kills the workers.
func (r *streamRig) end() {
	for _, w := range r.workers {
		_ = w.cmd.Process.Kill()
		_ = w.cmd.Wait()
		if text, err := os.ReadFile(w.log.Name()); r.t.Failed() {
			r.t.Logf("%s (%v):\n%s", w.name, err, text)
		}
		_ = w.log.Close()
	}
	r.workers = nil
}

// start starts the stream, through the last server, which lives longest.
func (r *streamRig) start(format, to string) string {
	r.t.Helper()
	x, err := r.servers[0].client.Execute(r.t.Context(), api.ExecuteRequest{Workflow: "flow-" + format, Params: api.Object{"to": to}}, to)
	if err != nil {
		r.t.Fatal(err)
	}
	return x.ID
}

// completed waits for the end of an execution and returns the worker of the stream's last attempt.
func (r *streamRig) completed(id string) (worker string, attempt int) {
	r.t.Helper()
	last := r.servers[len(r.servers)-1]
	deadline := time.Now().Add(r.patience())
	for {
		x, err := last.client.Execution(r.t.Context(), id)
		switch {
		case err == nil && x.Status == "completed":
			for _, s := range x.Steps {
				if s.ID == "write" {
					return s.Worker, s.Attempt
				}
			}
			r.t.Fatalf("no step write: %+v", x)
		case err == nil && (x.Status == "failed" || x.Status == "cancelled" || x.Status == "completed_with_failures"):
			r.t.Fatalf("the execution is %s: %+v", x.Status, x.Error)
		case time.Now().After(deadline):
			r.t.Fatalf("the execution does not end: %v %+v", err, x)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// check reads the output as others do, and finds each item once.
func (r *streamRig) check(format, to string) {
	r.t.Helper()
	list, err := r.bucket.Backend.ListBucket("data", &gofakes3.Prefix{HasPrefix: true, Prefix: "out/" + to + "/"}, gofakes3.ListBucketPage{})
	if err != nil {
		r.t.Fatal(err)
	}
	dir, rows, ids := r.t.TempDir(), 0, map[string]bool{}
	for i, o := range list.Contents {
		switch {
		case strings.HasSuffix(o.Key, ".ndjson"):
			for lines := json.NewDecoder(bytes.NewReader(r.bucket.Object(o.Key))); lines.More(); rows++ {
				var doc struct {
					ID         string
					Properties struct{ To string }
				}
				if err := lines.Decode(&doc); err != nil || doc.Properties.To != to {
					r.t.Fatalf("%+v, %v", doc, err)
				}
				ids[doc.ID] = true
			}
		case strings.HasSuffix(o.Key, ".parquet"):
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.parquet", i)), r.bucket.Object(o.Key), 0o600); err != nil {
				r.t.Fatal(err)
			}
		}
	}
	different := len(ids)
	if format == "parquet" {
		found := geoparquettest.Query(r.t, "SELECT count(*) AS n, count(DISTINCT id) AS ids FROM read_parquet('"+dir+"/*.parquet', union_by_name=true)")
		rows, different = int(found[0]["n"].(float64)), int(found[0]["ids"].(float64))
	}
	if rows != r.items || different != rows {
		r.t.Errorf("%s: %d rows and %d ids, want %d", to, rows, different, r.items)
	}
}

// at has something happen when the n-th request of a kind comes; it is refused then, if the fault says so.
func (r *streamRig) at(kind string, n int, fault func() (refuse bool)) {
	r.bucket.When(func(k string, m int) (bool, func()) {
		if k != kind || m != n {
			return false, nil
		}
		return fault(), nil
	})
}

var streamFormats = []string{"ndjson", "parquet"}

// left reports whether the j-th format is left out of the i-th case: half of them, in the ordinary suite.
func (r *streamRig) left(i, j int) bool { return r.items < 10_000 && (i+j)%2 == 1 }

// TestStreamWorkerKilled kills one worker after the other, between two Saves and around a publication; another one, with files
// of its own, goes on each time.
func TestStreamWorkerKilled(t *testing.T) {
	t.Parallel()
	r := newStreamRig(t, "", 1)
	for _, format := range streamFormats {
		victim := make(chan *streamWorker, 1)
		dies := []struct {
			kind string
			n    int
		}{{durabletest.PutVersion, 3}, {durabletest.PutOutput, 1}}
		id := ""
		for i, die := range dies {
			gone := make(chan struct{})
			r.at(die.kind, die.n, func() bool {
				w := <-victim // it is there before the stream begins
				w.signal(t, os.Kill)
				close(gone)
				return true
			})
			victim <- r.worker(fmt.Sprint(format, "-", i))
			if id == "" {
				id = r.start(format, "killed-"+format)
			}
			r.wait("the fault", gone)
		}
		r.bucket.When(nil)
		last := r.worker(format + "-last")
		if name, attempt := r.completed(id); name != last.name || attempt != len(dies)+1 {
			t.Errorf("%s: attempt %d of %s", format, attempt, name)
		}
		r.check(format, "killed-"+format)
		r.end()
	}
}

// TestStreamTwoOwners stops the worker of a stream for longer than its lease, in the middle of a Save or of a publication: another
// one runs the stream to its end. Then the first goes on, looks at the place, and publishes nothing.
func TestStreamTwoOwners(t *testing.T) {
	t.Parallel()
	r := newStreamRig(t, "", 1)
	for i, kind := range []string{durabletest.PutVersion, durabletest.PutOutput} {
		for j, format := range streamFormats {
			if r.left(i, j) {
				continue
			}
			to := fmt.Sprint("owners-", i, "-", format)
			first := r.worker(to + "-first")
			stopped, goOn, more := make(chan struct{}), make(chan struct{}), make(chan struct{})
			var after atomic.Bool
			var once sync.Once
			r.bucket.When(func(k string, n int) (bool, func()) {
				if k == kind && n == map[string]int{durabletest.PutVersion: 3, durabletest.PutOutput: 1}[kind] {
					first.signal(t, syscall.SIGSTOP)
					close(stopped)
					<-goOn
				} else if after.Load() {
					once.Do(func() { close(more) })
				}
				return false, nil
			})
			id := r.start(format, to)
			r.wait("the fault", stopped)
			second := r.worker(to + "-second")
			if name, attempt := r.completed(id); name != second.name || attempt < 2 {
				t.Errorf("%s: attempt %d of %s", to, attempt, name)
			}
			r.check(format, to)
			after.Store(true)
			first.signal(t, syscall.SIGCONT)
			close(goOn)
			r.wait("the first worker's next request", more)
			first.signal(t, os.Interrupt)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_ = first.cmd.Wait() // what counts is the output
			}()
			r.wait("the end of the first worker", ended)
			r.check(format, to)
			r.end()
		}
	}
}

// TestStreamBucketAway has the bucket away while items flow, and when the output is published.
func TestStreamBucketAway(t *testing.T) {
	t.Parallel()
	r := newStreamRig(t, "", 1)
	r.worker("one")
	r.worker("two")
	for i, kind := range []string{durabletest.PutVersion, durabletest.PutOutput} {
		for j, format := range streamFormats {
			if r.left(i, j) {
				continue
			}
			to := fmt.Sprint("away-", kind, "-", format)
			var mu sync.Mutex
			refused := -1
			r.bucket.When(func(k string, n int) (bool, func()) {
				mu.Lock()
				defer mu.Unlock()
				if k == kind && n == 1 {
					refused = 0
				}
				if refused < 0 || refused >= 12 {
					return false, nil
				}
				refused++
				return true, nil
			})
			r.completed(r.start(format, to))
			r.bucket.When(nil)
			if mu.Lock(); refused < 12 {
				t.Errorf("%s: it was unavailable for %d requests only", to, refused)
			}
			mu.Unlock()
			r.check(format, to)
		}
	}
}

// TestStreamCancelled cancels an execution while a worker runs its stream.
func TestStreamCancelled(t *testing.T) {
	r := newStreamRig(t, "", 1)
	r.worker("one")
	reached, goOn := make(chan struct{}), make(chan struct{})
	r.at(durabletest.PutVersion, 3, func() bool {
		close(reached)
		<-goOn
		return false
	})
	id := r.start("ndjson", "cancelled")
	r.wait("a save", reached)
	c := r.servers[0].client
	if _, err := c.Cancel(t.Context(), id, "enough"); err != nil {
		t.Fatal(err)
	}
	defer close(goOn)
	r.servers[0].until("the end of the execution", func() bool {
		x, err := c.Execution(t.Context(), id)
		return err == nil && x.Status == "cancelled"
	})
	if list, err := r.bucket.Backend.ListBucket("data", &gofakes3.Prefix{HasPrefix: true, Prefix: "out/cancelled/"}, gofakes3.ListBucketPage{}); err != nil || len(list.Contents) > 0 {
		t.Errorf("a cancelled stream has published: %+v %v", list, err)
	}
}

// TestStreamNodeKilled kills the server of a stream that a worker runs: the worker goes on, and reports to the other server. Then
// both are killed: another worker goes on where the first has handed the stream over.
func TestStreamNodeKilled(t *testing.T) {
	database, err := postgrestest.Create(postgrestest.URL(t), "") // of the test's own
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = postgrestest.Drop(database) })
	t.Setenv("STEPWELL_SECRETS_KEY", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=")
	r := newStreamRig(t, database, 2)
	for j, format := range streamFormats {
		for i, both := range []bool{false, true} {
			if r.left(i, j) {
				continue
			}
			to := fmt.Sprint("node-", format, "-", both)
			w := r.worker(to)
			killed := make(chan struct{})
			r.at(durabletest.PutVersion, 3, func() bool {
				if r.servers[0].kill(); both {
					w.signal(t, os.Kill)
				}
				close(killed)
				return both
			})
			id := r.start(format, to)
			r.wait("the fault", killed)
			want := w
			if both {
				want = r.worker(to + "-next")
			}
			if name, attempt := r.completed(id); name != want.name || !both && attempt != 1 {
				t.Errorf("%s: attempt %d of %s", to, attempt, name)
			}
			r.bucket.When(nil)
			r.check(format, to)
			r.end()
			r.servers[0].start()
		}
	}
}
