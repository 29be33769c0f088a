package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/stac/stactest"
)

// stacChild in the environment is the directory of a process that is killed.
const stacChild = "STEPWELL_TEST_STAC_DIR"

const crashDoc = `
name: crash
settings: {streams: {checkpoint_interval_seconds: 0.01}}
steps:
  - id: ingest
    module: stac.ingest
    config: {catalog_url: "@URL@", collection_id: @COLLECTION@, limit: @LIMIT@, rate_limit: 0, retry: {base: 5ms, max: 20ms}}
  - {id: validate, module: stac.validate, depends_on: [ingest], config: {@SCHEMAS@mode: offline, missing_schema: builtin}}
  - {id: output, module: stac.output, depends_on: [validate], config: {@OUTPUT@}}
`

// crashOutputs are what P6 writes.
var crashOutputs = map[string]string{"ndjson": "format: ndjson, output_path: out/all.ndjson", "json": "format: json, base_dir: out"}

// TestP6 kills the process five times while it fetches, validates and writes: what is there in the end is what an
// undisturbed run writes, and each time at most one page has to be fetched again.
func TestP6(t *testing.T) {
	if dir := os.Getenv(stacChild); dir != "" {
		runStacChild(t, dir)
		return
	}
	items := landsatItems(t)
	schemas := "schema_dir: " + recorded(t, "schemas") + ", "
	for name, output := range crashOutputs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newStacRig(t)
			p := newPaced(r, items)
			r.file("doc.yaml", fill(crashDoc, "URL", p.URL, "COLLECTION", landsat, "LIMIT", "50", "SCHEMAS", schemas, "OUTPUT", output))
			o := p.murder(r, 8)
			r.found(name, 716)
			o.want(stepwell.ExecutionCompletedWithFailures, 34)
		})
	}
}

// TestP6Small is P6 on generated items and the built-in rules, in more forms.
func TestP6Small(t *testing.T) {
	outputs := maps.Clone(crashOutputs)
	outputs["catalog"] = "format: catalog, base_dir: out, max_links: 5"
	outputs["parquet"] = "format: parquet, output_path: out/all.parquet"
	outputs["parquet parts"] = "format: parquet, base_dir: out, part_rows: 20"
	for name, output := range outputs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newStacRig(t)
			p := newPaced(r, faulty(104))
			r.file("doc.yaml", fill(crashDoc, "URL", p.URL, "COLLECTION", "made", "LIMIT", "8", "SCHEMAS", "", "OUTPUT", output))
			o := p.murder(r, 3)
			if crashOutputs[name] != "" {
				r.found(name, 91)
			} else if n := r.everything(); n != 91 {
				t.Errorf("%d items in %v", n, r.names("out"))
			}
			o.want(stepwell.ExecutionCompletedWithFailures, 13)
		})
	}
}

// TestP6Tee kills a stream with two sinks, of which one comes behind a validation.
func TestP6Tee(t *testing.T) {
	t.Parallel()
	r := newStacRig(t)
	p := newPaced(r, faulty(104))
	tee := crashDoc + "  - {id: lines, module: stac.output, depends_on: [ingest], config: {format: ndjson, output_path: lines/all.ndjson}}\n"
	r.file("doc.yaml", fill(tee, "URL", p.URL, "COLLECTION", "made", "LIMIT", "8", "SCHEMAS", "", "OUTPUT", crashOutputs["json"]))
	o := p.murder(r, 3)
	r.found("json", 91)
	if n := len(ids(t, r.lines("lines/all.ndjson"))); n != 104 {
		t.Errorf("%d lines", n)
	}
	o.want(stepwell.ExecutionCompletedWithFailures, 13)
}

// TestP6Collections kills streams of several collections that a discovery has found.
func TestP6Collections(t *testing.T) {
	t.Parallel()
	var items []json.RawMessage
	for _, c := range []string{"a", "b", "c"} {
		items = append(items, stactest.Generate(c, 60)...)
	}
	r := newStacRig(t)
	p := newPaced(r, items)
	p.atOnce = 2
	doc := strings.Replace(discoverDoc, "output_summary: summary.json", "streams: {checkpoint_interval_seconds: 0.01}", 1)
	r.file("doc.yaml", fill(doc, "URL", p.URL, "IDS", "[a, b, c]", "PARALLEL", "2"))
	p.murder(r, 4).want(stepwell.ExecutionCompleted, 0)
	n := 0
	for _, name := range r.names("out") {
		if strings.HasSuffix(name, ".ndjson") {
			n += len(ids(t, r.lines("out/"+name)))
		}
	}
	if n != 180 {
		t.Errorf("%d items in %v", n, r.names("out"))
	}
}

// runStacChild goes on with what the database holds, or begins.
func runStacChild(t *testing.T, dir string) {
	r := newStacRig(t)
	r.dir = dir
	r.o.DB = filepath.Join(dir, "stepwell.db")
	r.o.Modules = loadModules()
	r.with(func(a *app.App) {
		left, err := a.Store.Claim(t.Context(), 1, 1000)
		if err != nil {
			t.Fatal(err)
		}
		var id string
		for _, x := range left {
			id = x.ID
			if err := a.Conductor.Recover(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
		if id == "" {
			id = r.start(a, r.read("doc.yaml"))
		}
		r.file("id", id)
		r.end(a, id)
	})
	if status, err := os.ReadFile("/proc/self/status"); err == nil { // what the parent would be told includes its own memory
		r.file("status", string(status))
	}
}

// paced is a server whose pages come only when what came before is in a checkpoint.
type paced struct {
	*stactest.Server
	URL     string
	t       *testing.T
	mu      sync.Mutex
	streams string          // the directory of the checkpoints
	life    chan struct{}   // one for each search
	served  map[string]bool // answered pages by their first items
	last    int64           // size of the checkpoints when the last page had been answered
	atOnce  int             // streams that read at the same time
}

func newPaced(r *streamRig, items []json.RawMessage) *paced {
	t := r.t
	s, err := stactest.New(stactest.Options{Items: items})
	if err != nil {
		t.Fatal(err)
	}
	p := &paced{Server: s, t: t, streams: filepath.Join(r.dir, "stepwell.db-streams"), life: make(chan struct{}, 1000), served: map[string]bool{}, atOnce: 1}
	h := httptest.NewServer(p)
	t.Cleanup(func() {
		h.CloseClientConnections()
		h.Close()
	})
	p.URL = h.URL
	return p
}

func (p *paced) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	if q.URL.Path != "/search" {
		p.Server.ServeHTTP(w, q)
		return
	}
	p.life <- struct{}{}
	p.settle(q.Context())
	rec := httptest.NewRecorder()
	p.Server.ServeHTTP(rec, q)
	var page struct {
		Features []struct{ ID, Collection string }
	}
	if rec.Body.Len() == 0 || q.Context().Err() != nil {
		return // the client is dead
	}
	if err := json.Unmarshal(rec.Body.Bytes(), &page); err != nil || len(page.Features) == 0 {
		p.t.Errorf("%v in %.200s", err, rec.Body)
		return
	}
	w.Header().Set("Content-Type", "application/geo+json")
	if _, err := w.Write(rec.Body.Bytes()); err == nil {
		p.mu.Lock()
		p.served[page.Features[0].Collection+page.Features[0].ID] = true
		p.last = p.size()
		p.mu.Unlock()
	}
}

// settle waits until the checkpoints have grown since the last answer and stay as they are.
func (p *paced) settle(ctx context.Context) {
	p.mu.Lock()
	then := p.last
	p.mu.Unlock()
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	size, still := int64(-1), 0
	for range 80 {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := p.size()
		if still++; now != size {
			size, still = now, 0
		}
		if still == 3 && now != then {
			return
		}
	}
}

func (p *paced) size() (n int64) {
	filepath.WalkDir(p.streams, func(_ string, d fs.DirEntry, err error) error { //nolint:errcheck // files come and go
		if err == nil && !d.IsDir() {
			if info, err := d.Info(); err == nil {
				n += info.Size()
			}
		}
		return nil
	})
	return n
}

// murder runs the child, kills it five times, first behind so many pages, and lets it end.
func (p *paced) murder(r *streamRig, first int) *outcome {
	const kills = 5
	for life := range kills {
		after := 2
		if life == 0 {
			after = first
		}
		p.oneLife(r, after)
	}
	p.child(r, nil)
	// a kill costs the page that was under way, and at most one that had been answered
	p.mu.Lock()
	defer p.mu.Unlock()
	if n, pages := p.Count("search"), len(p.served); n > pages+2*kills*p.atOnce {
		p.t.Errorf("%d searches for %d pages, after %d kills", n, pages, kills)
	}
	return r.look()
}

// look is the outcome of what a child has run.
func (r *streamRig) look() (o *outcome) {
	r.t.Helper()
	r.with(func(a *app.App) {
		x, steps := r.end(a, r.read("id"))
		o = r.outcome(x, steps)
	})
	return o
}

// oneLife is one life of the child, ended by a kill a moment behind its nth search.
func (p *paced) oneLife(r *streamRig, searches int) {
	p.child(r, func(cmd *exec.Cmd, ended <-chan error) {
		timeout := time.After(5 * time.Minute)
		for range searches {
			select {
			case <-p.life:
			case err := <-ended:
				p.t.Fatalf("the child ended before it was killed: %v", err)
			case <-timeout:
				p.t.Fatal("the child does not continue")
			}
		}
		select {
		case <-time.After(time.Duration(rand.IntN(80)) * time.Millisecond):
		case <-ended:
			p.t.Fatal("the child ended before it was killed")
		}
		if err := cmd.Process.Kill(); err != nil {
			p.t.Fatal(err)
		}
	})
}

func (p *paced) child(r *streamRig, during func(*exec.Cmd, <-chan error)) {
	p.t.Helper()
	for len(p.life) > 0 {
		<-p.life
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestP6$", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), stacChild+"="+r.dir, "TMPDIR="+r.t.TempDir()) // a killed process removes nothing
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait(); close(ended) }()
	defer func() {
		_ = cmd.Process.Kill() // left over when the test has failed
		for range ended {
		}
	}()
	if during != nil {
		during(cmd, ended)
		return
	}
	if err := <-ended; err != nil {
		p.t.Fatalf("%v\n%s", err, out.String())
	}
}

// found counts the items of an output of crashOutputs, each once and whole.
func (r *streamRig) found(format string, want int) {
	r.t.Helper()
	var items [][]byte
	if format == "ndjson" {
		items = r.lines("out/all.ndjson")
	} else {
		for _, name := range r.names("out") {
			if strings.Contains(name, "/items/") {
				items = append(items, []byte(r.read("out/"+name)))
			}
		}
	}
	if n := len(ids(r.t, items)); n != want {
		r.t.Errorf("%d items, want %d", n, want)
	}
	for _, name := range r.leftovers("out") {
		r.t.Errorf("%s is left over", name)
	}
}

// locked waits until a run writes below a directory.
func (r *streamRig) locked(dir string) {
	r.t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		found := false
		err := filepath.WalkDir(filepath.Join(r.dir, dir), func(name string, _ fs.DirEntry, err error) error {
			found = found || err == nil && strings.HasSuffix(name, "lock")
			return nil // what a run makes and removes meanwhile is no failure
		})
		if err != nil {
			r.t.Fatal(err)
		}
		if found {
			return
		}
	}
	r.t.Fatalf("nobody writes to %s", dir)
}

// leftovers are hidden files and parts below a directory.
func (r *streamRig) leftovers(dir string) (names []string) {
	r.t.Helper()
	err := filepath.WalkDir(filepath.Join(r.dir, dir), func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && (strings.HasPrefix(d.Name(), ".") || strings.HasSuffix(d.Name(), ".part") || strings.HasSuffix(d.Name(), ".tmp")) {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return names
}

// TestP7 begins a second run on an output that one is writing to: it is refused, and the first is not disturbed.
func TestP7(t *testing.T) {
	for name, output := range map[string]string{"ndjson": crashOutputs["ndjson"], "json": crashOutputs["json"],
		"catalog": "format: catalog, base_dir: out", "parquet": "format: parquet, output_path: out/all.parquet"} {
		for _, second := range []string{"crash", "other"} {
			t.Run(name+" "+second, func(t *testing.T) { testP7(t, output, second) })
		}
	}
}

func testP7(t *testing.T, output, name string) {
	s, err := stactest.New(stactest.Options{Items: sound(40)})
	if err != nil {
		t.Fatal(err)
	}
	free, waiting := make(chan struct{}), make(chan struct{})
	var once sync.Once
	var searches atomic.Int32
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/search" && searches.Add(1) == 3 {
			close(waiting)
			<-free
		}
		s.ServeHTTP(w, q)
	}))
	defer h.Close()
	release := func() { once.Do(func() { close(free) }) }
	defer release()
	r := newStacRig(t)
	doc := fill(crashDoc, "URL", h.URL, "COLLECTION", "made", "LIMIT", "10", "SCHEMAS", "", "OUTPUT", output)
	r.with(func(a *app.App) {
		one := r.start(a, doc)
		<-waiting
		r.locked("out") // the output takes its place when the first items reach it
		x, steps := r.end(a, r.start(a, strings.Replace(doc, "name: crash", "name: "+name, 1)))
		if x.Status != stepwell.ExecutionFailed || x.Failure == nil || x.Failure.Code != stepwell.CodeConflict || x.Failure.Hint == "" {
			t.Errorf("the second run is %v: %+v, output %+v", x.Status, x.Failure, steps["output"].Error)
		}
		release()
		if x, _ := r.end(a, one); x.Status != stepwell.ExecutionCompleted {
			t.Errorf("the first run is %v: %+v", x.Status, x.Failure)
		}
	})
	var items [][]byte
	for _, file := range r.names("out") {
		switch {
		case strings.HasSuffix(file, ".ndjson"):
			items = r.lines("out/" + file)
		case strings.HasSuffix(file, ".parquet"):
			r.readBack("out/"+file, sound(40))
			return
		case strings.Contains(file, "item-"):
			items = append(items, []byte(r.read("out/"+file)))
		}
	}
	if n := len(ids(t, items)); n != 40 {
		t.Errorf("%d items: %s", n, fmt.Sprint(r.names("out")))
	}
}
