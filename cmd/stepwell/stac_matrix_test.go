package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stepwell/stepwell/stac/stactest"
)

// The conformance matrix: the flows of stac-manager and the diamond of its §6.3, to every kind of output, at every place, of one
// stream, of one for each collection that a discovery finds and of one for each entry of a matrix; run once, again, for the next
// window, after a kill and after a retry. What lies there is judged by ajv, DuckDB and a crawler of links.
//
// Each output is run once, with the flows and shapes in turn; STEPWELL_MATRIX=pairs runs every pair of flow, output and shape, full
// every combination.

// combination is one combination.
type combination struct {
	flow, target, place, shape string
}

func (c combination) String() string {
	return strings.Join([]string{c.flow, c.target, c.place, c.shape}, "/")
}

var (
	matrixFlows  = []string{"discover", "dump", "patch", "table", "diamond"}
	matrixShapes = []string{"plain", "discovery", "matrix"}
	// matrixTargets are format and organize_by, with the places that are possible.
	matrixTargets = []struct{ target, place string }{
		{"json", "base_dir"}, {"json", "output_path"}, {"json item_id", "base_dir"}, {"json flat", "base_dir"}, {"json collection", "base_dir"},
		{"json item_id", "output_path"}, {"json flat", "output_path"}, {"json collection", "output_path"}, {"catalog", "base_dir"}, {"catalog", "output_path"},
		{"ndjson", "base_dir"}, {"ndjson", "output_path"}, {"ndjson", "file.ndjson"}, {"ndjson", "file.ndjson.zst"}, {"parquet", "base_dir"}, {"parquet", "output_path"}, {"parquet", "file.parquet"},
		{"api upsert", "url"}, {"api skip", "url"}, {"api replace", "url"}, // transactions; what the server holds counts
	}
)

func matrixCells() (cells []combination) {
	full, pairs := os.Getenv("STEPWELL_MATRIX") == "full", os.Getenv("STEPWELL_MATRIX") == "pairs"
	for i, target := range matrixTargets {
		for j, flow := range matrixFlows {
			for k, shape := range matrixShapes {
				pair := k == (i+j)%len(matrixShapes)
				if flow == "table" && shape == "discovery" { // a table has no catalog to discover
					if full || !pair {
						continue
					}
					shape = "plain"
				}
				if full || pair && (pairs || j == i%len(matrixFlows)) {
					cells = append(cells, combination{flow, target.target, target.place, shape})
				}
			}
		}
	}
	return cells
}

// The source: two collections with seven items each, four of them in the first window. One comes again in the second, changed.
const (
	firstWindow = "2026-04-01T00:00:00Z/2026-04-30T23:59:59Z"
	nextWindow  = "2026-05-01T00:00:00Z/2026-05-31T23:59:59Z"
)

var matrixCollections = []string{"orchard", "meadow"}

// expected are the items by "collection/id", with the value of their member `rev`.
type expected map[string]int

func (e expected) add(collection string, month, rev int, numbers ...int) {
	for _, n := range numbers {
		e[fmt.Sprintf("%s/%s-%d", collection, collection, n)] = rev
	}
}

func matrixExpected() expected {
	e := expected{}
	for _, c := range matrixCollections {
		e.add(c, 4, 1, 1, 2, 3, 4)
	}
	return e
}

// expectedNext is what is there after the next window: both, and of the item that came again the later, unless the target
// says otherwise.
func (c combination) expectedNext() expected {
	e := expected{}
	for _, name := range matrixCollections {
		if c.target != "api replace" {
			e.add(name, 4, 1, 1, 2, 3)
		}
		e.add(name, 5, 2, 4, 5, 6, 7)
		if c.target == "api skip" {
			e.add(name, 4, 1, 4)
		}
	}
	return e
}

// matrixItems are the items of one window.
func matrixItems(month, rev int, numbers ...int) (items []json.RawMessage) {
	for _, c := range matrixCollections {
		for _, n := range numbers {
			x := 8 + float64(n)/10
			items = append(items, mustJSON(map[string]any{
				"type": "Feature", "stac_version": "1.0.0", "id": fmt.Sprintf("%s-%d", c, n), "collection": c, "bbox": []any{x, 47, x + 0.1, 47.1},
				"geometry":        map[string]any{"type": "Polygon", "coordinates": []any{[]any{[]any{x, 47}, []any{x + 0.1, 47}, []any{x + 0.1, 47.1}, []any{x, 47.1}, []any{x, 47}}}},
				"properties":      map[string]any{"datetime": fmt.Sprintf("2026-%02d-%02dT10:00:00Z", month, n), "rev": rev, "platform": "drone-7", "eo:cloud_cover": 5},
				"stac_extensions": []any{"https://stac-extensions.github.io/eo/v1.1.0/schema.json"},
				"links":           []any{map[string]any{"rel": "license", "href": "https://example.org/license"}, map[string]any{"rel": "collection", "href": "https://example.org/collections/" + c}},
				"assets":          map[string]any{"mosaic": map[string]any{"href": "https://example.org/" + c + ".tif", "title": "Mosaic", "roles": []any{"data"}}, "preview": map[string]any{"href": "https://example.org/p.jpg"}},
			}))
		}
	}
	return items
}

func matrixCollectionDocs() (docs []json.RawMessage) {
	for _, c := range matrixCollections {
		docs = append(docs, mustJSON(map[string]any{
			"type": "Collection", "stac_version": "1.0.0", "id": c, "title": "Flights over the " + c, "description": "Weekly flights.", "license": "CC0-1.0",
			"providers": []any{map[string]any{"name": "Example Flights", "roles": []any{"producer"}}}, "keywords": []any{"drone"},
			"extent": map[string]any{"spatial": map[string]any{"bbox": []any{[]any{8, 47, 9, 48}}}, "temporal": map[string]any{"interval": []any{[]any{"2026-04-01T00:00:00Z", nil}}}},
			"links":  []any{map[string]any{"rel": "license", "href": "https://example.org/license"}},
		}))
	}
	return docs
}

// matrixTable is the table of the table flow: one file for both windows, by number.
func matrixTable(month, rev int, numbers ...int) string {
	var b strings.Builder
	b.WriteString("flight,collection,flown,rev,footprint\n")
	for _, c := range matrixCollections {
		for _, n := range numbers {
			x := 8 + float64(n)/10
			fmt.Fprintf(&b, "%s-%d,%s,2026-%02d-%02dT10:00:00Z,%d,\"POLYGON((%g 47,%g 47,%g 47.1,%g 47.1,%g 47))\"\n", c, n, c, month, n, rev, x, x+0.1, x+0.1, x, x)
		}
	}
	return b.String()
}

func mustJSON(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}

// matrixRig runs the stages of one cell: each begins in a folder of its own.
type matrixRig struct {
	t       *testing.T
	cell    combination
	dir     string
	schemas string

	mu     sync.Mutex
	source http.Handler
	hook   func(r *http.Request, n int) (status int) // of a search; 0: as it is
	count  int
	server *httptest.Server
	held   *stactest.Server // what format api writes to
}

func newMatrixRig(t *testing.T, c combination, schemas string) *matrixRig {
	r := &matrixRig{t: t, cell: c, schemas: schemas}
	r.server = httptest.NewServer(http.HandlerFunc(r.serve))
	t.Cleanup(func() { r.server.CloseClientConnections(); r.server.Close() })
	return r
}

func (r *matrixRig) serve(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	source, hook, n := r.source, r.hook, 0
	if strings.HasSuffix(q.URL.Path, "/search") {
		r.count++
		n = r.count
	}
	r.mu.Unlock()
	if n > 0 && hook != nil {
		body, err := io.ReadAll(io.LimitReader(q.Body, 1<<20))
		if err != nil {
			return // whoever asked is gone
		}
		q.Body = io.NopCloser(bytes.NewReader(body))
		probe := q.Clone(q.Context())
		probe.Body = io.NopCloser(bytes.NewReader(body))
		if status := hook(probe, n); status != 0 {
			http.Error(w, `{"code":"BadRequest","description":"not today"}`, status)
			return
		}
	}
	source.ServeHTTP(w, q)
}

func (r *matrixRig) on(hook func(q *http.Request, n int) int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hook, r.count = hook, 0
}

// begin makes a folder with the first window in the source.
func (r *matrixRig) begin(stage string) {
	r.t.Helper()
	r.dir = filepath.Join(r.t.TempDir(), stage)
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		r.t.Fatal(err)
	}
	r.write("stepwell.yaml", "http: {allow_private: true}\nlog: {level: warn}\n")
	r.on(nil)
	if strings.HasPrefix(r.cell.target, "api") {
		r.held = stactest.Start(r.t, stactest.Options{Collections: matrixCollectionDocs()})
	}
	r.window(firstWindow, matrixItems(4, 1, 1, 2, 3, 4), matrixTable(4, 1, 1, 2, 3, 4))
}

func (r *matrixRig) next() {
	r.window(nextWindow, append(matrixItems(4, 1, 1, 2, 3), matrixItems(5, 2, 4, 5, 6, 7)...), matrixTable(5, 2, 4, 5, 6, 7))
}

func (r *matrixRig) window(window string, items []json.RawMessage, table string) {
	r.t.Helper()
	s, err := stactest.New(stactest.Options{Items: items, Collections: matrixCollectionDocs(), KeyQuery: "key", Key: "hidden-key"})
	if err != nil {
		r.t.Fatal(err)
	}
	s.URL = r.server.URL
	r.mu.Lock()
	r.source = s
	r.mu.Unlock()
	r.write("flights.csv", table)
	for _, c := range matrixCollections {
		lines := strings.SplitAfter(table, "\n")
		r.write(c+".csv", lines[0]+strings.Join(matching(lines[1:], c), ""))
	}
	r.write("flow.yaml", string(mustJSON(r.cell.document(r.server.URL, r.heldURL(), window, r.schemas))))
}

func (r *matrixRig) heldURL() string {
	if r.held == nil {
		return ""
	}
	return r.held.URL
}

func matching(lines []string, prefix string) (out []string) {
	for _, l := range lines {
		if strings.HasPrefix(l, prefix) {
			out = append(out, l)
		}
	}
	return out
}

func (r *matrixRig) write(name, text string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// run runs the program to its end.
func (r *matrixRig) run(want int, args ...string) string {
	r.t.Helper()
	cmd := exec.CommandContext(r.t.Context(), "stepwell", args...)
	cmd.Dir = r.dir
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	code := 0
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		code = e.ExitCode()
	} else if err != nil {
		r.t.Fatal(err)
	}
	if code != want {
		flow, _ := os.ReadFile(filepath.Join(r.dir, "flow.yaml"))
		r.t.Fatalf("%s: stepwell %s: exit code %d, want %d\n%s%s\n%s", r.cell, strings.Join(args, " "), code, want, stderr.String(), stdout.String(), flow)
	}
	return stdout.String()
}

// killed starts the flow, kills it when the source is asked for its third page (of a table: when the first step has
// begun), and lets it go on.
func (r *matrixRig) killed() {
	r.t.Helper()
	reached := make(chan struct{})
	var once sync.Once
	r.on(func(q *http.Request, n int) int {
		if n >= 3 {
			once.Do(func() { close(reached) })
			<-q.Context().Done()
		}
		return 0
	})
	cmd := exec.CommandContext(r.t.Context(), "stepwell", "run", "flow.yaml")
	cmd.Dir = r.dir
	out := &notedOutput{begun: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	begun := out.begun
	if r.cell.flow != "table" {
		begun = nil
	}
	select {
	case <-reached:
	case <-begun:
	case err := <-ended:
		r.t.Fatalf("%s: ended before it could be killed: %v\n%s", r.cell, err, out)
	}
	_ = cmd.Process.Kill() // it may have ended by itself: a table is short
	if begun == nil {
		<-ended
	} else if err := <-ended; err == nil {
		r.t.Logf("%s: the flow ended before it was killed", r.cell)
	}
	r.server.CloseClientConnections()
	r.on(nil)
	r.run(exitOK, "run", "flow.yaml", "--resume")
}

// notedOutput keeps output and says when there is some.
type notedOutput struct {
	mu    sync.Mutex
	text  bytes.Buffer
	begun chan struct{}
	once  sync.Once
}

func (o *notedOutput) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n, err := o.text.Write(p); err != nil || !bytes.Contains(o.text.Bytes(), []byte("started")) {
		return n, err
	}
	o.once.Do(func() { close(o.begun) })
	return len(p), nil
}

func (o *notedOutput) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// retried lets the second collection fail, and retries the execution when it would not any more.
func (r *matrixRig) retried() {
	r.t.Helper()
	bad := matrixCollections[1]
	table, err := os.ReadFile(filepath.Join(r.dir, "flights.csv"))
	if err != nil {
		r.t.Fatal(err)
	}
	if r.cell.flow == "table" { // a row without a footprint
		for _, name := range []string{"flights.csv", bad + ".csv"} {
			whole, err := os.ReadFile(filepath.Join(r.dir, name))
			if err != nil {
				r.t.Fatal(err)
			}
			r.write(name, strings.Replace(string(whole), bad+"-2,"+bad+",2026-04-02T10:00:00Z", bad+"-2,"+bad+",not a time", 1))
		}
	}
	r.on(func(q *http.Request, _ int) int {
		body, _ := io.ReadAll(q.Body) // it is in memory
		if bytes.Contains(body, []byte(bad)) || strings.Contains(q.URL.RawQuery, bad) {
			return http.StatusBadRequest
		}
		return 0
	})
	cmd := exec.CommandContext(r.t.Context(), "stepwell", "run", "flow.yaml")
	cmd.Dir = r.dir
	if out, err := cmd.CombinedOutput(); err == nil {
		r.t.Fatalf("%s: a flow whose source fails ends well\n%s", r.cell, out)
	}
	r.on(nil)
	if r.cell.flow == "table" {
		r.window(firstWindow, nil, string(table))
	}
	var list []struct {
		ID string `json:"execution_id"`
	}
	out := r.run(exitOK, "executions", "list", "--limit", "1", "-o", "json")
	if err := json.Unmarshal([]byte(out), &list); err != nil || len(list) != 1 {
		r.t.Fatalf("%s: executions list: %v\n%s", r.cell, err, out)
	}
	r.run(exitOK, "executions", "retry", list[0].ID)
}

// TestStacMatrix is the matrix.
func TestStacMatrix(t *testing.T) {
	schemas := matrixSchemas(t)
	j := &judge{schemas: schemas}
	cells := matrixCells()
	t.Run("cells", func(t *testing.T) {
		for _, c := range cells {
			t.Run(c.String(), func(t *testing.T) {
				t.Parallel()
				testCell(t, c, j)
			})
		}
	})
	j.verdict(t)
	t.Logf("%d combinations, %d documents, %d Parquet files", len(cells), len(j.documents), len(j.parquet))
}

func testCell(t *testing.T, c combination, j *judge) {
	r := newMatrixRig(t, c, j.schemas)
	r.begin("run")
	r.run(exitOK, "run", "flow.yaml")
	first := j.look(r, "first run", matrixExpected())
	r.run(exitOK, "run", "flow.yaml")
	if again := j.look(r, "same again", matrixExpected()); !first.same(again) {
		t.Errorf("%s: the same run again leaves something else: %s", c, first.difference(again))
	}
	r.next()
	r.run(exitOK, "run", "flow.yaml")
	j.look(r, "next window", c.expectedNext())

	r.begin("kill")
	r.killed()
	j.look(r, "after a kill", matrixExpected())

	r.begin("retry")
	r.retried()
	j.look(r, "after a retry", matrixExpected())
}

// matrixSchemas is the folder of the public schemas.
func matrixSchemas(t *testing.T) string {
	root := os.Getenv("STEPWELL_SHARED_DATA")
	if root == "" {
		root = "../../../shared/data"
	}
	dir, err := filepath.Abs(filepath.Join(root, "schemas"))
	if err == nil {
		_, err = os.Stat(filepath.Join(dir, "index.json"))
	}
	if err != nil {
		t.Skip("left out: the public schemas are not there: ", err)
	}
	return dir
}
