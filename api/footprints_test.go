package api_test

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/store"
)

// TestFootprints reads where the items of a stream are, as the page does, some of which failed and some of which are nowhere.
func TestFootprints(t *testing.T) {
	r := newRig(t)
	dir := t.TempDir()
	var in strings.Builder
	for i := range 200 {
		n := fmt.Sprint(i)
		if i%50 == 0 {
			n = `"text"`
		}
		fmt.Fprintf(&in, "{\"id\":\"i%d\",\"collection\":\"c\",\"n\":%s,\"bbox\":[%d,10,%d,11]}\n{\"id\":\"nowhere%d\",\"n\":1}\n", i, n, i-100, i-99, i)
	}
	fmt.Fprintln(&in, `{"id":"over","n":1,"bbox":[179,-5,-179,5]}`)
	good(t, os.WriteFile(filepath.Join(dir, "in.ndjson"), []byte(in.String()), 0o600))
	x := r.finished(strings.NewReplacer("DIR", dir).Replace(`
name: boxes
settings: {output_failures: DIR/failures.json}
steps:
  - {id: read, module: stream.read, config: {path: DIR/in.ndjson}}
  - {id: some, module: stream.filter, depends_on: [read], config: {when: "item.n + 1 > 0"}}
  - {id: write, module: stream.write, depends_on: [some], config: {path: DIR/out.ndjson}}
  - {id: other, module: stream.write, depends_on: [some], config: {path: DIR/other.ndjson}}
`))
	c, ctx, of := r.client("viewer"), t.Context(), api.ExecutionPath{ID: x.ID}
	all, err := c.Footprints(ctx, api.GetFootprints{ExecutionPath: of})
	good(t, err)
	failed := 0
	for _, s := range all.Column("state") {
		failed += int(s)
	}
	if all.Rows != 201 || all.Total != 201 || failed != 4 || all.States[1] != "failed" || len(all.Column("west")) != 201 {
		t.Fatalf("%+v, %d failed", all.Header, failed)
	}
	part, err := c.Footprints(ctx, api.GetFootprints{ExecutionPath: of, From: 200, Limit: 10})
	good(t, err)
	if part.Rows != 1 || part.From != 200 || part.Total != 201 {
		t.Errorf("%+v", part.Header)
	}
	page, err := c.FootprintItems(ctx, api.ListFootprintItems{ExecutionPath: of, BBox: "-100.5,0,-96.5,20", Limit: 3})
	good(t, err)
	if len(page.Items) != 3 || page.Total != 4 || page.Next == "" || !page.Complete {
		t.Fatalf("%+v", page)
	}
	if a, b := page.Items[0], page.Items[1]; a.ID != "i0" || a.State != "failed" || !strings.Contains(string(a.Failure), `"some"`) || b.ID != "i1" || b.Collection != "c" || b.State != "completed" || b.Failure != nil || b.Box != [4]float32{-99, 10, -98, 11} {
		t.Errorf("%+v %+v", a, b)
	}
	rest, err := c.FootprintItems(ctx, api.ListFootprintItems{ExecutionPath: of, BBox: "-100.5,0,-96.5,20", Limit: 3, Cursor: page.Next})
	good(t, err)
	if len(rest.Items) != 1 || rest.Items[0].ID != "i3" || rest.Next != "" {
		t.Errorf("%+v", rest)
	}
	over, err := c.FootprintItems(ctx, api.ListFootprintItems{ExecutionPath: of, BBox: "170,-1,-170,1"})
	good(t, err)
	if len(over.Items) != 1 || over.Items[0].ID != "over" {
		t.Errorf("%+v", over)
	}
	for _, bad := range []string{"1,2,3", "1,2,3,x", "1,5,3,4", "-181,0,0,0", "1,2,3,nan", "1,2,3,4,5"} {
		r.do("viewer", "GET", "/api/v1/executions/"+x.ID+"/footprints?bbox="+bad, nil).is(400)
	}
	none := r.finished("name: none\nsteps: [{id: a, action: util.noop}]")
	// The list knows which executions have footprints, also where all that has a place has failed.
	lost := r.finished(strings.NewReplacer("DIR", dir).Replace(`
name: lost
settings: {output_failures: DIR/lost.json}
steps:
  - {id: read, module: stream.read, config: {path: DIR/in.ndjson}}
  - {id: some, module: stream.filter, depends_on: [read], config: {when: "item.n.absent > 0"}}
  - {id: write, module: stream.write, depends_on: [some], config: {path: DIR/lost.ndjson}}
`))
	list, err := c.Executions(ctx, api.ListExecutions{Filter: store.Filter{Footprints: true}})
	good(t, err)
	if len(list.Executions) != 2 || list.Executions[0].ID != lost.ID || list.Executions[1].ID != x.ID || !list.Executions[1].Footprints {
		t.Errorf("executions with footprints: %+v", list.Executions)
	}
	empty, err := c.Footprints(ctx, api.GetFootprints{ExecutionPath: api.ExecutionPath{ID: none.ID}})
	good(t, err)
	if empty.Rows != 0 || empty.Total != 0 {
		t.Errorf("%+v", empty.Header)
	}
}

// TestFootprintItem reads items from the files that a stream has written and read, and says where they would be.
func TestFootprintItem(t *testing.T) {
	r := newRig(t)
	dir := t.TempDir()
	text := `{"id":"a","collection":"c","n":1,"bbox":[1,2,3,4],"assets":{"band":{"href":"a.tif"}}}
{"id":"b","collection":"c","n":"text","bbox":[1,2,3,4],"assets":{"band":{"href":"b.tif"}}}
{"id":"long","collection":"d","n":1,"bbox":[1,2,3,4],"x":"` + strings.Repeat("x", 1<<20) + "\"}\n"
	good(t, os.WriteFile(filepath.Join(dir, "in.ndjson"), []byte(text), 0o600))
	x := r.finished(strings.NewReplacer("DIR", dir).Replace(`
name: items
settings: {output_failures: DIR/failures.json}
steps:
  - {id: read, module: stream.read, config: {path: DIR/in.ndjson}}
  - {id: some, module: stream.filter, depends_on: [read], config: {when: "item.n + 1 > 0"}}
  - {id: write, module: stream.write, depends_on: [some], config: {path: "DIR/{collection_id}.ndjson"}}
`))
	c, of := r.client("viewer"), api.ExecutionPath{ID: x.ID}
	find := func(id, collection, state string) *api.FootprintDocument {
		got, err := c.FootprintItem(t.Context(), api.FindFootprintItem{ExecutionPath: of, Item: id, Collection: collection, State: state})
		good(t, err)
		return got
	}
	if d := find("a", "c", "completed"); d.Step != "write" || d.Path != filepath.Join(dir, "c.ndjson") || d.Line != 1 || !strings.Contains(string(d.Item), "a.tif") {
		t.Errorf("%+v", d)
	}
	if d := find("b", "c", "failed"); d.Step != "some" || d.Path != filepath.Join(dir, "in.ndjson") || d.Line != 2 || !strings.Contains(string(d.Item), "b.tif") {
		t.Errorf("%+v", d)
	}
	for _, c := range [][]string{{"b", "c", "completed", "is it"}, {"a", "c", "failed", "no failure record"}, {"long", "d", "completed", "longer than 1048576 bytes"}} {
		d := find(c[0], c[1], c[2])
		if d.Item != nil || !strings.Contains(fmt.Sprint(d.Places), c[3]) {
			t.Errorf("%v: %+v", c, d)
		}
	}
	good(t, os.WriteFile(filepath.Join(dir, "in.ndjson"), []byte("{}\n{\"id\":\"other\"}\n"), 0o600))
	good(t, os.Remove(filepath.Join(dir, "c.ndjson")))
	for state, want := range map[string]string{"failed": "line 2 of ", "completed": "c.ndjson"} {
		if d := find("b", "c", state); d.Item != nil || !strings.Contains(fmt.Sprint(d.Places), want) {
			t.Errorf("%s: %+v", state, d)
		}
	}
	r.do("viewer", "GET", "/api/v1/executions/"+x.ID+"/footprints/item", nil).is(400)
}

// TestFootprintItemInS3: an item that a stream has written to S3, or read there, is read with the credentials that the streams have.
func TestFootprintItemInS3(t *testing.T) {
	backend := s3mem.New()
	good(t, backend.CreateBucket("data"))
	service := httptest.NewServer(gofakes3.New(backend).Server())
	t.Cleanup(service.Close)
	t.Setenv("AWS_ENDPOINT_URL_S3", service.URL)
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	r := newRig(t)
	dir := t.TempDir()
	t.Chdir(dir) // the copy writes its failures and summary where the server runs
	in := filepath.Join(dir, "in.ndjson")
	good(t, os.WriteFile(in, []byte(`{"id":"a","collection":"c","n":1,"bbox":[1,2,3,4]}`+"\n"+`{"id":"b","collection":"c","n":"text","bbox":[1,2,3,4]}`+"\n"), 0o600))
	copied := r.finished("name: up\nsteps:\n  - {id: read, module: stream.read, config: {path: " + in + "}}\n  - {id: write, module: stream.write, depends_on: [read], config: {path: s3://data/in.ndjson}}\n")
	x := r.finished(strings.NewReplacer("DIR", dir).Replace(`
name: remote
settings: {output_failures: DIR/failures.json}
steps:
  - {id: read, module: stream.read, config: {path: s3://data/in.ndjson}}
  - {id: some, module: stream.filter, depends_on: [read], config: {when: "item.n + 1 > 0"}}
  - {id: write, module: stream.write, depends_on: [some], config: {path: s3://data/out.ndjson}}
`))
	for _, want := range []struct {
		execution, item, state, path string
		line                         int64
	}{
		{copied.ID, "b", "completed", "s3://data/in.ndjson", 2},
		{x.ID, "a", "completed", "s3://data/out.ndjson", 1},
		{x.ID, "b", "failed", "s3://data/in.ndjson", 2},
	} {
		got, err := r.client("viewer").FootprintItem(t.Context(), api.FindFootprintItem{ExecutionPath: api.ExecutionPath{ID: want.execution}, Item: want.item, Collection: "c", State: want.state})
		good(t, err)
		if got.Path != want.path || got.Line != want.line || !strings.Contains(string(got.Item), `"id":"`+want.item+`"`) {
			t.Errorf("%+v: %+v", want, got)
		}
	}
	service.Close()
	got, err := r.client("viewer").FootprintItem(t.Context(), api.FindFootprintItem{ExecutionPath: api.ExecutionPath{ID: x.ID}, Item: "a", Collection: "c"})
	good(t, err)
	if got.Item != nil || len(got.Places) == 0 || got.Places[0].Path != "s3://data/out.ndjson" {
		t.Errorf("%+v", got)
	}
}
