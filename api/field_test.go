package api_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/api/columns"
	"github.com/stepwell/stepwell/field"
)

// shapes has every kind of step with others inside, a step that fails, and one after it.
const shapes = `name: shapes
settings: {fail_fast: false}
steps:
  - {id: first, action: util.log, params: {message: hi}}
  - id: each
    action: util.log
    depends_on: [first]
    for_each: {items: 40}
    params: {message: one}
  - id: group
    depends_on: [first]
    steps:
      - {id: a, action: util.log, params: {message: a}}
      - {id: b, action: util.log, depends_on: [a], params: {message: b}}
  - id: loop
    depends_on: [group]
    for_each: {items: 3}
    steps:
      - {id: c, action: util.log, params: {message: c}}
      - {id: d, action: util.log, depends_on: [c], params: {message: d}}
  - {id: broken, action: util.fail, depends_on: [first], params: {message: no}}
  - {id: never, action: util.log, depends_on: [broken, loop], params: {message: never}}
finally:
  - {id: last, action: util.log, params: {message: bye}}
`

// finished starts a definition and waits for its end.
func (r *rig) finished(document string) *api.ExecutionDetail {
	r.t.Helper()
	c := r.client("editor")
	s, err := c.Execute(r.t.Context(), api.ExecuteRequest{Definition: api.Document(document)}, "")
	good(r.t, err)
	x, err := c.Wait(r.t.Context(), s.ID)
	good(r.t, err)
	return x
}

func nodes(g *api.Graph) map[string]api.GraphNode {
	all := map[string]api.GraphNode{}
	for _, n := range g.Nodes {
		all[n.ID] = n
	}
	return all
}

func TestGraphOfAnExecution(t *testing.T) {
	r := newRig(t)
	x := r.finished(shapes)
	c, ctx := r.client("viewer"), t.Context()
	g, err := c.Graph(ctx, api.GetGraph{ExecutionPath: api.ExecutionPath{ID: x.ID}})
	good(t, err)
	n := nodes(g)
	if len(g.Nodes) != 7 || g.Truncated || g.Version == 0 {
		t.Fatalf("the graph is %+v", g)
	}
	for id, want := range map[string]struct {
		kind, status string
		states       map[string]int
		layer        int32
		deps         string
	}{
		"first":   {"step", "completed", map[string]int{"completed": 1}, 0, ""},
		"each":    {"for_each", "completed", map[string]int{"completed": 40}, 1, "first"},
		"group":   {"group", "completed", map[string]int{"completed": 2}, 1, "first"},
		"loop":    {"for_each", "completed", map[string]int{"completed": 6}, 2, "group"},
		"broken":  {"step", "failed", map[string]int{"failed": 1}, 1, "first"},
		"never":   {"step", "skipped", map[string]int{"skipped": 1}, 3, "loop broken"},
		"finally": {"group", "", map[string]int{"completed": 1}, 4, ""},
	} {
		got := n[id]
		if got.Kind != want.kind || got.Status != want.status || got.Layer != want.layer || strings.Join(got.DependsOn, " ") != want.deps || len(got.States) != len(want.states) {
			t.Errorf("%s: %+v, want %+v", id, got, want)
		}
		for state, count := range want.states {
			if got.States[state] != count {
				t.Errorf("%s: %v, want %v", id, got.States, want.states)
			}
		}
	}
	if first := n["first"]; first.First == nil || first.Last == nil || first.Action != "util.log" {
		t.Errorf("a node without its times or action: %+v", first)
	}
	g, err = c.Graph(ctx, api.GetGraph{ExecutionPath: api.ExecutionPath{ID: x.ID}, Expand: []string{"loop", "finally"}})
	good(t, err)
	n = nodes(g)
	if d := n["loop.d"]; d.States["completed"] != 3 || d.Parent != "loop" || strings.Join(d.DependsOn, "") != "loop.c" || d.Layer != 1 || d.Status != "" || d.Index != -1 {
		t.Errorf("a step of a for_each: %+v", d)
	}
	if last := n["finally.last"]; last.Parent != "finally" || last.Status != "completed" || last.Index < 0 {
		t.Errorf("a handler: %+v", last)
	}
	_, err = c.Graph(ctx, api.GetGraph{ExecutionPath: api.ExecutionPath{ID: x.ID}, Expand: []string{"first"}})
	want(t, err, stepwell.CodeInvalid)
	_, err = c.Graph(ctx, api.GetGraph{ExecutionPath: api.ExecutionPath{ID: "00000000-0000-0000-0000-000000000000"}})
	want(t, err, stepwell.CodeNotFound)
	at := "/api/v1/executions/" + x.ID + "/graph"
	tag := r.do("viewer", "GET", at, nil).header.Get("ETag")
	if again := r.do("viewer", "GET", at, nil, "If-None-Match", tag); tag == "" || again.status != http.StatusNotModified {
		t.Errorf("unchanged: %d, tag %s", again.status, tag)
	}
}

func TestFieldOfAnExecution(t *testing.T) {
	r := newRig(t)
	x := r.finished(shapes)
	c, ctx := r.client("viewer"), t.Context()
	f, err := c.Field(ctx, api.GetField{ExecutionPath: api.ExecutionPath{ID: x.ID}})
	good(t, err)
	r.agrees(t, f, x.ID)
	if f.Rows != f.Total || f.From != 0 || f.Began != x.Started.UnixMilli() {
		t.Errorf("the header is %+v", f.Header)
	}
	part, err := c.Field(ctx, api.GetField{ExecutionPath: api.ExecutionPath{ID: x.ID}, Columns: []string{"status", "edges"}, From: 2, Limit: 5})
	good(t, err)
	if part.Rows != 5 || part.From != 2 || len(part.Columns) != 3 || !slices.Equal(part.Column("status"), f.Column("status")[2:7]) {
		t.Errorf("a part: %+v", part.Header)
	}
	beyond, err := c.Field(ctx, api.GetField{ExecutionPath: api.ExecutionPath{ID: x.ID}, From: 1000})
	good(t, err)
	if beyond.Rows != 0 || beyond.Total != f.Total {
		t.Errorf("beyond the end: %+v", beyond.Header)
	}
	_, err = c.Field(ctx, api.GetField{ExecutionPath: api.ExecutionPath{ID: x.ID}, Columns: []string{"colour"}})
	want(t, err, stepwell.CodeInvalid)
	at := "/api/v1/executions/" + x.ID + "/field"
	got := r.do("viewer", "GET", at, nil, "Accept-Encoding", "gzip")
	if got.header.Get("Content-Encoding") != "gzip" || got.header.Get("Content-Type") != columns.MediaType {
		t.Fatalf("the answer's headers: %v", got.header)
	}
	z, err := gzip.NewReader(strings.NewReader(string(got.body)))
	good(t, err)
	raw, err := io.ReadAll(z)
	good(t, err)
	if same, err := columns.Decode(raw); err != nil || same.Total != f.Total {
		t.Errorf("compressed: %+v %v", same, err)
	}
	if again := r.do("viewer", "GET", at, nil, "If-None-Match", got.header.Get("ETag")); again.status != http.StatusNotModified {
		t.Errorf("unchanged: %d", again.status)
	}
}

// keysOf are the keys of steps that columns have.
func keysOf(f *columns.Table) (keys []string) {
	text, shared, length := f.Column("key"), f.Column("key_shared"), f.Column("key_length")
	before := ""
	for i := range shared {
		key := before[:shared[i]]
		for _, b := range text[:length[i]] {
			key += string([]byte{byte(b)})
		}
		if text = text[length[i]:]; key != "" {
			before = key
		}
		keys = append(keys, key)
	}
	return keys
}

// agrees compares columns with what /steps says.
func (r *rig) agrees(t *testing.T, f *columns.Table, id string) {
	t.Helper()
	list, err := r.client("viewer").Steps(t.Context(), api.ListSteps{ExecutionPath: api.ExecutionPath{ID: id}, Limit: 1000})
	good(t, err)
	status, attempt, start, duration, parent, worker := f.Column("status"), f.Column("attempt"), f.Column("start"), f.Column("duration"), f.Column("parent"), f.Column("worker")
	layer, degree, edges := f.Column("layer"), f.Column("degree"), f.Column("edges")
	at, there := 0, 0
	named, err := r.client("viewer").Field(t.Context(), api.GetField{ExecutionPath: api.ExecutionPath{ID: id}, Columns: []string{"key", "action", "queue"}})
	good(t, err)
	keys := keysOf(named)
	for i := range status {
		var deps []int
		for _, back := range edges[at : at+int(degree[i])] {
			deps = append(deps, i-int(int32(back)))
		}
		at += int(degree[i])
		if f.States[status[i]] == "absent" {
			continue
		}
		s := list.Steps[there]
		there++
		if action := named.Actions[named.Column("action")[i]]; keys[i] != s.ID || action != s.Action {
			t.Errorf("index %d is %q with the action %q, the step is %s with %q", i, keys[i], action, s.ID, s.Action)
		}
		if f.States[status[i]] != s.Status || int(attempt[i]) != s.Attempt || f.Workers[worker[i]] != s.Worker {
			t.Errorf("index %d is %s of attempt %d on %q, the step %s is %s of attempt %d on %q", i, f.States[status[i]], attempt[i], f.Workers[worker[i]], s.ID, s.Status, s.Attempt, s.Worker)
		}
		if started := !s.Started.IsZero(); started != (start[i] > 0) || started && f.Began+int64(start[i])-1 != s.Started.UnixMilli() {
			t.Errorf("%s started at %v, the columns have %d", s.ID, s.Started, start[i])
		}
		if s.DurationMS != nil && !s.Completed.IsZero() && max(*s.DurationMS, int64(duration[i]))-min(*s.DurationMS, int64(duration[i])) > 1 {
			t.Errorf("%s took %d ms, the columns have %d", s.ID, *s.DurationMS, duration[i])
		}
		if inside := strings.ContainsAny(s.ID, ".[") && !strings.HasPrefix(s.ID, "finally."); inside != (parent[i] > 0) {
			t.Errorf("%s has the parent %d", s.ID, parent[i])
		}
		for _, dep := range deps {
			if dep < 0 || dep >= len(status) || layer[dep] >= layer[i] || parent[dep] != parent[i] {
				t.Errorf("%s in layer %d depends on index %d", s.ID, layer[i], dep)
			}
		}
	}
	if there != len(list.Steps) || at != len(edges) {
		t.Errorf("%d of %d steps, %d of %d edges", there, len(list.Steps), at, len(edges))
	}
}

// TestFieldWhileItRuns: the columns that were patched with what commits have changed are those that a new server makes.
func TestFieldWhileItRuns(t *testing.T) {
	r := newRig(t)
	c, ctx := r.client("editor"), t.Context()
	waits := strings.Replace(shapes, "\nsteps:", "\nsteps:\n  - {id: ask, action: util.approval, depends_on: [loop, each], params: {message: continue?}}", 1)
	s, err := c.Execute(ctx, api.ExecuteRequest{Definition: api.Document(waits)}, "")
	good(t, err)
	id := api.ExecutionPath{ID: s.ID}
	_, err = c.Field(ctx, api.GetField{ExecutionPath: id}) // of the beginning
	good(t, err)
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		f, err := c.Field(ctx, api.GetField{ExecutionPath: id})
		good(t, err)
		if _, err := c.AttemptColumns(ctx, api.GetAttemptColumns{ExecutionPath: id}); err != nil {
			t.Fatal(err)
		}
		if f.States[f.Column("status")[0]] == "waiting" {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the step that waits is %s", f.States[f.Column("status")[0]])
		}
	}
	asked, err := c.Approvals(ctx, api.ListApprovals{})
	good(t, err)
	_, err = c.Approve(ctx, asked.Approvals[0].ID, "")
	good(t, err)
	_, err = c.Wait(ctx, id.ID)
	good(t, err)
	f, err := c.Field(ctx, api.GetField{ExecutionPath: id})
	good(t, err)
	r.agrees(t, f, id.ID)
	// So are the attempts, which were read as they came.
	x, err := r.app.Store.Execution(ctx, id.ID)
	good(t, err)
	fresh, err := field.New(field.Options{Store: r.app.Store, Catalog: r.app.Actions}).Attempts(ctx, x)
	good(t, err)
	list, err := c.Attempts(ctx, api.ListAttempts{ExecutionPath: id, Limit: 1000})
	good(t, err)
	if len(list.Attempts) != len(fresh.List) {
		t.Fatalf("%d attempts, a new server has %d", len(list.Attempts), len(fresh.List))
	}
	for i, a := range list.Attempts {
		if b := fresh.List[i]; a.Step != b.Key || a.Number != b.Number || a.Outcome != b.Outcome || a.Queue != b.Queue || a.Ended.IsZero() || a.Ended.UnixMilli() != b.Ended/1000 {
			t.Errorf("attempt %d is %+v, a new server has %+v", i, a, b)
		}
	}
}
