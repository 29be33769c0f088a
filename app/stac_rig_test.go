package app_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stac/schema"
	"github.com/stepwell/stepwell/stac/stactest"
	"github.com/stepwell/stepwell/store"
)

// landsat is the collection of most rows of stac-and-media §6 (i).
const landsat = "landsat-8-c2-l2"

// newStacRig is a streamRig that reaches the loopback interface, and no schema of the network.
func newStacRig(t *testing.T) *streamRig {
	r := newStreamRig(t)
	r.o.HTTP = loopback()
	r.o.Schemas = schema.Options{Mode: schema.Offline}
	return r
}

func loopback() outbound.Options {
	return outbound.Options{AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}}
}

// recorded is a path of the recorded data, without which the test is left out.
func recorded(t testing.TB, path string) string {
	t.Helper()
	dir := os.Getenv("STEPWELL_SHARED_DATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "shared", "data")
	}
	full, err := filepath.Abs(filepath.Join(dir, filepath.FromSlash(path)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(full); err != nil {
		t.Skip("left out: the test with recorded data, which is not here: " + path)
	}
	return full
}

func recordedItems(t testing.TB, name string) []json.RawMessage {
	t.Helper()
	items, err := stactest.Lines(recorded(t, "items/"+name+".ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	return items
}

func landsatItems(t testing.TB) []json.RawMessage {
	return recordedItems(t, "planetarycomputer.microsoft.com__"+landsat)
}

// fill puts values for names like @URL@ into a document.
func fill(doc string, pairs ...string) string {
	for i := 0; i < len(pairs); i += 2 {
		doc = strings.ReplaceAll(doc, "@"+pairs[i]+"@", pairs[i+1])
	}
	return doc
}

// outcome is how an execution ended.
type outcome struct {
	t        *testing.T
	status   stepwell.ExecutionStatus
	failure  *engine.Failure
	outputs  json.RawMessage
	steps    map[string]store.Step
	failures []failed // of failures.json, none when there is no such file
	byStep   map[string]int
}

// failed is one record of failures.json.
type failed struct {
	Step       string `json:"step_id"`
	Item       string `json:"item_id"`
	Collection string `json:"collection_id"`
	Type       string `json:"error_type"`
	Message    string
	Context    struct {
		File    string `json:"source_file"`
		Line    int    `json:"line_number"`
		Pointer string
		Keyword string
		Schema  string
		URL     string
		Status  int    `json:"http_status"`
		Field   string `json:"field_name"`
	}
}

// run runs a document in an app of its own, as one call of the command does.
func (r *streamRig) run(doc string, pairs ...string) (o *outcome) {
	r.t.Helper()
	if err := os.RemoveAll(filepath.Join(r.dir, "failures.json")); err != nil {
		r.t.Fatal(err)
	}
	r.with(func(a *app.App) {
		r.t.Helper()
		x, steps := r.end(a, r.start(a, fill(doc, pairs...)))
		o = r.outcome(x, steps)
	})
	return o
}

func (r *streamRig) outcome(x *store.Execution, steps map[string]store.Step) *outcome {
	r.t.Helper()
	o := &outcome{t: r.t, status: x.Status, failure: x.Failure, outputs: x.Outputs, steps: steps}
	raw, err := os.ReadFile(filepath.Join(r.dir, "failures.json"))
	if os.IsNotExist(err) {
		return o
	}
	var report struct {
		Total    int            `json:"total_failures"`
		By       map[string]int `json:"failures_by_step"`
		Failures []failed
	}
	if err == nil {
		err = json.Unmarshal(raw, &report)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	if report.Total != len(report.Failures) {
		r.t.Errorf("the report says %d failures and has %d", report.Total, len(report.Failures))
	}
	o.failures, o.byStep = report.Failures, report.By
	return o
}

// want checks the status and how many items failed.
func (o *outcome) want(status stepwell.ExecutionStatus, failures int) {
	o.t.Helper()
	if o.status == status && len(o.failures) == failures {
		return
	}
	o.t.Errorf("%v with %d failures, want %v with %d: %+v %+v", o.status, len(o.failures), status, failures, o.failure, head(o.failures, 3))
	for key, s := range o.steps {
		o.t.Logf("%s: %v %+v %.300s", key, s.Status, s.Error, s.Output)
	}
}

func head[T any](list []T, n int) []T { return list[:min(n, len(list))] }

// output is a step's output, a number as float64.
func (o *outcome) output(step, name string) any {
	o.t.Helper()
	var all map[string]any
	if err := json.Unmarshal(o.steps[step].Output, &all); err != nil {
		o.t.Fatalf("outputs of %s: %v (%+v)", step, err, o.steps[step].Error)
	}
	return all[name]
}

// count is a step's output that is a number.
func (o *outcome) count(step, name string) int {
	o.t.Helper()
	n, ok := o.output(step, name).(float64)
	if !ok {
		o.t.Errorf("output %s of %s is %v", name, step, o.output(step, name))
	}
	return int(n)
}

// lines are the lines of an NDJSON file, which ends with one and holds nothing else.
func (r *streamRig) lines(name string) [][]byte {
	r.t.Helper()
	text := r.read(name)
	if text != "" && !strings.HasSuffix(text, "\n") {
		r.t.Errorf("the last line of %s is torn", name)
	}
	var out [][]byte
	for line := range strings.Lines(text) {
		if !json.Valid([]byte(line)) {
			r.t.Fatalf("%s: %.200s is no JSON", name, line)
		}
		out = append(out, []byte(strings.TrimSuffix(line, "\n")))
	}
	return out
}

// names are the files below a directory, without what is hidden.
func (r *streamRig) names(dir string) (names []string) {
	r.t.Helper()
	root := filepath.Join(r.dir, dir)
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != root && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case !d.IsDir():
			name, err = filepath.Rel(root, name)
			names = append(names, filepath.ToSlash(name))
		}
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		r.t.Fatal(err)
	}
	return names
}

func parsed(t testing.TB, text []byte) *item.Value {
	t.Helper()
	v, err := item.Parse(text)
	if err != nil {
		t.Fatalf("%v in %.200s", err, text)
	}
	return v
}

func textOf(v *item.Value) string {
	s, _ := v.Str()
	return s
}

// ids are the ids of items, sorted; each is there once.
func ids[T ~[]byte](t testing.TB, items []T) []string {
	t.Helper()
	out := make([]string, len(items))
	for i, text := range items {
		out[i] = textOf(parsed(t, text).Get("id"))
	}
	slices.Sort(out)
	if distinct := slices.Compact(slices.Clone(out)); len(distinct) != len(out) {
		t.Errorf("%d ids are there twice", len(out)-len(distinct))
	}
	return out
}

func digest(ids []string) string {
	sum := sha256.Sum256([]byte(strings.Join(ids, "\n")))
	return hex.EncodeToString(sum[:8])
}

// same tells whether two JSON texts have the same value, whatever the order of their keys.
func same(t testing.TB, a, b []byte) bool {
	t.Helper()
	return string(canonical(t, a)) == string(canonical(t, b))
}

func canonical(t testing.TB, text []byte) []byte {
	t.Helper()
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatalf("%v in %.200s", err, text)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func readAll(t testing.TB, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// served is a server whose content is exchanged.
type served struct {
	url string
	now atomic.Pointer[stactest.Server]
}

func (s *served) start(t *testing.T) {
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) { s.now.Load().ServeHTTP(w, q) }))
	t.Cleanup(h.Close)
	s.url = h.URL
}
