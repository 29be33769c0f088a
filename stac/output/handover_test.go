package output

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/johannesboyne/gofakes3"

	"github.com/stepwell/stepwell/stac/geoparquet/geoparquettest"
	"github.com/stepwell/stepwell/stream/durable"
	"github.com/stepwell/stepwell/stream/durable/durabletest"
	"github.com/stepwell/stepwell/stream/files"
	"github.com/stepwell/stepwell/stream/streamtest"
)

// handoverItems is how many items each of the tests below moves. STEPWELL_TEST_LONG: 200,000.
func handoverItems() int {
	if os.Getenv("STEPWELL_TEST_LONG") != "" {
		return 200_000
	}
	return 6_000
}

// workerEnv makes the test's program one worker that runs the segment; see runWorker.
const workerEnv = "STEPWELL_TEST_WORKER"

// workerRun is what a worker runs, on a machine of its own.
type workerRun struct {
	Endpoint, Input, Dir, Format, Workflow string
	Epoch                                  uint32
	Attempt                                int
	PartRows                               int
}

// TestHandoverWorker is the worker, when its program is run by the tests below.
func TestHandoverWorker(t *testing.T) {
	given := os.Getenv(workerEnv)
	if given == "" {
		t.Skip("it is a worker of the other tests")
	}
	var w workerRun
	if err := json.Unmarshal([]byte(given), &w); err != nil {
		t.Fatal(err)
	}
	s3 := files.S3Options{Endpoint: w.Endpoint, Anonymous: true} // the test's service does not understand signed parts
	shared, err := files.NewBucket("s3://data/streams", s3)
	if err != nil {
		t.Fatal(err)
	}
	places := files.New(files.Options{S3: s3})
	config := map[string]any{"format": w.Format, "base_dir": "s3://data/out", "write": "append"}
	if w.Format == "parquet" {
		config["part_rows"] = w.PartRows
	}
	out, err := streamtest.RunIn(context.Background(), streamtest.Segment{
		Modules:     slices.Concat(files.Modules(files.ModuleOptions{Places: places}), Modules(Options{Places: places})),
		Steps:       streamtest.Chain("stream.read", map[string]any{"path": w.Input}, "stac.output", config),
		Settings:    map[string]any{"checkpoint_interval": 0.01, "batch": 50},
		Checkpoints: filepath.Join(w.Dir, "checkpoints"), Dir: w.Dir, Workflow: w.Workflow, Shared: shared, Epoch: w.Epoch, Attempt: w.Attempt})
	switch {
	case err == nil && out.Err == nil:
		fmt.Println("completed")
	case err == nil && errors.Is(out.Err, durable.ErrFenced):
		fmt.Println("fenced")
	default:
		if out != nil {
			err = errors.Join(err, out.Err)
		}
		fmt.Println("failed:", strings.ReplaceAll(fmt.Sprint(err), "\n", " | "))
	}
}

// bucketServer is an S3 service with the workers that use it.
type bucketServer struct {
	*durabletest.Bucket
	t *testing.T
}

// The kinds of requests that tests look at.
const (
	putVersion = durabletest.PutVersion
	putOutput  = durabletest.PutOutput
)

func newBucketServer(t *testing.T) *bucketServer {
	return &bucketServer{durabletest.NewBucket(t), t}
}

// worker is a process.
type worker struct {
	t    *testing.T
	cmd  *exec.Cmd
	said chan string // the last line, "" of one that was killed
}

func (b *bucketServer) start(run workerRun) *worker {
	b.t.Helper()
	dir := b.t.TempDir()
	run.Endpoint, run.Dir = b.URL, dir
	given, err := json.Marshal(run)
	if err != nil {
		b.t.Fatal(err)
	}
	w := &worker{t: b.t, cmd: exec.Command(os.Args[0], "-test.run=^TestHandoverWorker$"), said: make(chan string, 1)}
	w.cmd.Env = append(os.Environ(), workerEnv+"="+string(given), "TMPDIR="+dir) // a machine of its own has its own locks
	w.cmd.Stderr = os.Stderr
	out, err := w.cmd.StdoutPipe()
	if err == nil {
		err = w.cmd.Start()
	}
	if err != nil {
		b.t.Fatal(err)
	}
	go func() {
		last := ""
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if text := lines.Text(); strings.HasPrefix(text, "completed") || strings.HasPrefix(text, "fenced") || strings.HasPrefix(text, "failed") {
				last = text
			}
		}
		_ = w.cmd.Wait()
		w.said <- last
	}()
	b.t.Cleanup(func() { _ = w.cmd.Process.Kill() })
	return w
}

func (w *worker) kill() { _ = w.cmd.Process.Kill() }

func (w *worker) want(said string) {
	w.t.Helper()
	if got := <-w.said; got != said {
		w.t.Errorf("the worker says %q, want %q", got, said)
	}
}

// check reads the output as others do, and finds each item once: those of before, and those of the run.
func (b *bucketServer) check(format string, items int) {
	b.t.Helper()
	list, err := b.Backend.ListBucket("data", &gofakes3.Prefix{HasPrefix: true, Prefix: "out/"}, gofakes3.ListBucketPage{})
	if err != nil {
		b.t.Fatal(err)
	}
	dir, rows, ids := b.t.TempDir(), 0, map[string]bool{}
	for i, o := range list.Contents {
		body := b.Object(o.Key)
		switch {
		case strings.HasSuffix(o.Key, ".ndjson"):
			for lines := json.NewDecoder(bytes.NewReader(body)); lines.More(); rows++ {
				var doc struct{ ID string }
				if err := lines.Decode(&doc); err != nil {
					b.t.Fatal(err)
				}
				ids[doc.ID] = true
			}
		case strings.HasSuffix(o.Key, ".parquet"):
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.parquet", i)), body, 0o600); err != nil {
				b.t.Fatal(err)
			}
		}
	}
	if format == "parquet" {
		found := geoparquettest.Query(b.t, "SELECT count(*) AS n, count(DISTINCT id) AS ids FROM read_parquet('"+dir+"/*.parquet', union_by_name=true)")
		if n, different := found[0]["n"].(float64), found[0]["ids"].(float64); int(n) != items+baseItems || n != different {
			b.t.Errorf("%v rows and %v ids, want %d", n, different, items+baseItems)
		}
		return
	}
	if rows != items+baseItems || len(ids) != rows {
		b.t.Errorf("%d rows and %d ids, want %d", rows, len(ids), items+baseItems)
	}
}

// baseItems are there before, so that a run that were to add its items twice would not go unnoticed.
const baseItems = 50

// laterItems are those of a run that comes after.
const laterItems = 30

// stacLines writes so many items to a file.
func stacLines(t *testing.T, name, prefix string, items int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriter(f)
	for n := range items {
		w.Write(append(stacItem("s2", fmt.Sprintf("%s-%06d", prefix, n), n).Bytes(), '\n'))
	}
	if err := errors.Join(w.Flush(), f.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

// eachHandover runs a test for each format that goes to a bucket, which has items already.
// It gives how many items it has added itself.
func eachHandover(t *testing.T, test func(t *testing.T, b *bucketServer, run workerRun) int) {
	items := handoverItems()
	input := stacLines(t, "in.ndjson", "item", items)
	before := stacLines(t, "before.ndjson", "before", baseItems)
	for _, format := range []string{"ndjson", "parquet"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			b := newBucketServer(t)
			b.start(workerRun{Format: format, Input: before, Workflow: "before", PartRows: items}).want("completed")
			more := test(t, b, workerRun{Format: format, Input: input, Workflow: "flow", Epoch: 1, Attempt: 1, PartRows: items/3 + 7})
			b.check(format, items+more)
		})
	}
}

// next is the attempt after a run.
func (r workerRun) next() workerRun {
	r.Epoch++
	r.Attempt++
	return r
}

// TestWorkersKilled kills one worker after the other, between two Saves and around a Save and a publication. Another machine
// goes on each time.
func TestWorkersKilled(t *testing.T) {
	deep := max(1, handoverItems()/20_000) // so many Saves are in between
	eachHandover(t, func(t *testing.T, b *bucketServer, run workerRun) int {
		for _, die := range []struct {
			kind string
			n    int
			done bool // the request was served
		}{{putVersion, 2 * deep, true}, {putVersion, 4 * deep, false}, {putVersion, 3, true}, {putOutput, 1, false}, {putOutput, 1, true}, {putVersion, 2, true}} {
			victim := make(chan *worker, 1)
			b.When(func(kind string, n int) (bool, func()) {
				if kind != die.kind || n != die.n {
					return false, nil
				}
				w := <-victim
				if !die.done {
					w.kill()
					return true, nil
				}
				return false, w.kill
			})
			w := b.start(run)
			victim <- w
			if said := <-w.said; said != "" {
				t.Fatalf("a worker was not killed at its %s %d: %q", die.kind, die.n, said)
			}
			run = run.next()
		}
		b.When(nil)
		b.start(run).want("completed")
		return 0
	})
}

// TestTwoOwners holds a worker in the middle of a request, lets another one run the same segment to its end, and then lets
// the first go on: it publishes nothing. The second has the next epoch, or the same one: a node that dies may leave a
// step that its successor hands out again.
func TestTwoOwners(t *testing.T) {
	for _, hold := range []struct {
		kind string
		n    int
		same bool
	}{{putVersion, 3, false}, {putVersion, 3, true}, {putOutput, 1, false}, {putOutput, 1, true}} {
		t.Run(fmt.Sprint(hold), func(t *testing.T) {
			t.Parallel()
			eachHandover(t, func(t *testing.T, b *bucketServer, run workerRun) int {
				reached, goOn := make(chan struct{}), make(chan struct{})
				b.When(func(kind string, n int) (bool, func()) {
					if kind == hold.kind && n == hold.n {
						close(reached)
						<-goOn
					}
					return false, nil
				})
				first := b.start(run)
				<-reached
				second := run.next()
				if hold.same {
					second = run
				}
				b.start(second).want("completed")
				b.check(run.Format, handoverItems())
				later := run // of which nothing may be undone
				later.Input, later.Workflow = stacLines(t, "later.ndjson", "later", laterItems), "later"
				b.start(later).want("completed")
				close(goOn)
				if said := <-first.said; said == "completed" || said == "" {
					t.Errorf("the first worker says %q", said)
				}
				return laterItems
			})
		})
	}
}

// TestTwoOwnersAtOnce starts a second worker while the first one runs.
func TestTwoOwnersAtOnce(t *testing.T) {
	eachHandover(t, func(t *testing.T, b *bucketServer, run workerRun) int {
		reached := make(chan struct{})
		b.When(func(kind string, n int) (bool, func()) {
			if kind == putVersion && n == 3 {
				close(reached)
			}
			return false, nil
		})
		first := b.start(run)
		<-reached
		b.start(run.next()).want("completed")
		if said := <-first.said; !strings.HasPrefix(said, "fenced") {
			t.Errorf("the first worker says %q", said)
		}
		return 0
	})
}

// TestBucketAway has a bucket that is away while items flow, or when the output is to be published. A step that fails over
// that is tried again, on another machine.
func TestBucketAway(t *testing.T) {
	for _, from := range []struct {
		kind string
		n    int
	}{{putVersion, 2}, {putOutput, 1}} {
		t.Run(from.kind, func(t *testing.T) {
			t.Parallel()
			eachHandover(t, func(t *testing.T, b *bucketServer, run workerRun) int {
				var mu sync.Mutex
				refused := -1
				b.When(func(kind string, n int) (bool, func()) {
					mu.Lock()
					defer mu.Unlock()
					if kind == from.kind && n == from.n {
						refused = 0
					}
					if refused < 0 || refused >= 12 {
						return false, nil
					}
					refused++
					return true, nil
				})
				for said := <-b.start(run).said; said != "completed"; said = <-b.start(run).said {
					if run = run.next(); !strings.HasPrefix(said, "failed") || run.Attempt > 5 {
						t.Fatalf("attempt %d: %q", run.Attempt-1, said)
					}
				}
				if refused < 12 {
					t.Errorf("it was unavailable for %d requests only", refused)
				}
				return 0
			})
		})
	}
}
