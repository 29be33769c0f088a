package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell/api"
)

// TestStreamsOfAnExecution reads a stream of a thousand items, some of them broken in two ways, as the page does.
func TestStreamsOfAnExecution(t *testing.T) {
	r := newRig(t)
	dir := t.TempDir()
	var in strings.Builder
	for i := range 1000 {
		switch {
		case i%100 == 99:
			fmt.Fprintf(&in, "nonsense %d\n", i)
		case i%250 == 0:
			fmt.Fprintf(&in, "{\"id\":\"i%d\",\"n\":\"text\"}\n", i)
		default:
			fmt.Fprintf(&in, "{\"id\":\"i%d\",\"n\":%d}\n", i, i)
		}
	}
	good(t, os.WriteFile(filepath.Join(dir, "in.ndjson"), []byte(in.String()), 0o600))
	x := r.finished(strings.NewReplacer("DIR", dir).Replace(`
name: odd items
settings: {output_failures: DIR/failures.json}
steps:
  - {id: first, action: util.log, params: {message: before}}
  - {id: read, module: stream.read, depends_on: [first], config: {path: DIR/in.ndjson}}
  - {id: odd, module: stream.filter, depends_on: [read], config: {when: "item.n % 2 == 1"}}
  - {id: write, module: stream.write, depends_on: [odd], config: {path: DIR/out.ndjson}}
  - {id: other, module: stream.write, depends_on: [read], config: {path: DIR/all.ndjson}}
`))
	if x.Status != "completed_with_failures" {
		t.Fatalf("it is %s: %+v", x.Status, x.Error)
	}
	c, ctx, of := r.client("viewer"), t.Context(), api.ExecutionPath{ID: x.ID}
	list, err := c.Streams(ctx, api.ListStreams{ExecutionPath: of})
	good(t, err)
	if len(list.Streams) != 1 || list.Next != "" || list.Streams[0].ID != "read" || len(list.Streams[0].Modules) != 4 {
		t.Fatalf("the streams are %+v", list)
	}
	m := map[string]api.StreamModule{}
	for _, module := range list.Streams[0].Modules {
		if m[module.Step] = module; module.Items == nil || module.InRate == nil || module.Buffered != nil {
			t.Errorf("%s has ended: %+v", module.Step, module)
		}
	}
	if read := m["read"]; read.Role != "source" || read.Items.In != 1000 || read.Items.Failed != 10 || read.Items.Out != 990 || len(read.Inputs) != 0 {
		t.Errorf("read: %+v %+v", read, read.Items)
	}
	if odd := m["odd"]; odd.Role != "modifier" || odd.Module != "stream.filter" || odd.Items.In != 990 || odd.Items.Failed != 4 || odd.Inputs[0] != "read" {
		t.Errorf("odd: %+v %+v", odd, odd.Items)
	}
	if w := m["write"]; w.Role != "sink" || len(w.Inputs) != 1 || w.Inputs[0] != "odd" || w.Items.In != m["odd"].Items.Out || m["other"].Items.Out != 990 {
		t.Errorf("write: %+v, other: %+v", w.Items, m["other"].Items)
	}

	all, err := c.StreamFailures(ctx, api.ListStreamFailures{ExecutionPath: of})
	good(t, err)
	if len(all.Groups) != 2 || all.Failures != 14 || !all.Complete || all.Groups[0].Count != 10 || all.Groups[0].Step != "read" || all.Groups[1].Step != "odd" || all.Groups[1].Count != 4 {
		t.Fatalf("the failures are %+v", all)
	}
	if e := all.Groups[1].Examples; len(e) != 3 || !strings.Contains("i0 i250 i500 i750", e[0].Item) || e[0].Message == "" || !strings.Contains(string(e[0].Context), "in.ndjson") {
		t.Errorf("the examples are %+v", e)
	}
	page, err := c.StreamFailures(ctx, api.ListStreamFailures{ExecutionPath: of, Limit: 1})
	good(t, err)
	rest, err := c.StreamFailures(ctx, api.ListStreamFailures{ExecutionPath: of, Limit: 1, Cursor: page.Next})
	good(t, err)
	one, err := c.StreamFailures(ctx, api.ListStreamFailures{ExecutionPath: of, Step: "odd"})
	good(t, err)
	if len(page.Groups) != 1 || len(rest.Groups) != 1 || rest.Next != "" || rest.Groups[0].Step != "odd" || len(one.Groups) != 1 || one.Failures != 4 {
		t.Errorf("pages: %+v, %+v; of one step: %+v", page, rest, one)
	}
	r.do("viewer", "GET", "/api/v1/executions/"+x.ID+"/streams?cursor="+page.Next, nil).is(400)

	none := r.finished("name: none\nsteps: [{id: a, action: util.noop}]")
	list, err = c.Streams(ctx, api.ListStreams{ExecutionPath: api.ExecutionPath{ID: none.ID}})
	good(t, err)
	all, err = c.StreamFailures(ctx, api.ListStreamFailures{ExecutionPath: api.ExecutionPath{ID: none.ID}})
	good(t, err)
	if len(list.Streams) != 0 || len(all.Groups) != 0 {
		t.Errorf("without streams: %+v, %+v", list, all)
	}
}

// TestRunningStream looks at a stream whose source waits for its next page: it is the bottleneck, and failures are there before the end.
func TestRunningStream(t *testing.T) {
	r := newRig(t)
	hold := make(chan struct{})
	pages := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Query().Get("page") != "1" {
			<-hold
			_, _ = w.Write([]byte("[]")) // the client is there until the end
			return
		}
		good(t, json.NewEncoder(w).Encode([]map[string]any{{"id": "a", "n": 1}, {"id": "b", "n": "text"}, {"id": "c", "n": 3}}))
	}))
	t.Cleanup(pages.Close)
	dir := t.TempDir()
	started, err := r.client("editor").Execute(t.Context(), api.ExecuteRequest{Definition: api.Document(strings.NewReplacer("DIR", dir, "URL", pages.URL).Replace(`
name: slow pages
settings: {output_failures: DIR/failures.json}
steps:
  - {id: read, module: stream.pages, config: {url: URL, next: {page: {param: page}}}}
  - {id: odd, module: stream.filter, depends_on: [read], config: {when: "item.n % 2 == 1"}}
  - {id: write, module: stream.write, depends_on: [odd], config: {path: DIR/out.ndjson}}
`))}, "")
	good(t, err)
	c, of := r.client("viewer"), api.ExecutionPath{ID: started.ID}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var list *api.StreamList
	for {
		list, err = c.Streams(ctx, api.ListStreams{ExecutionPath: of})
		good(t, err)
		if len(list.Streams) == 1 && list.Streams[0].Bottleneck != nil && list.Streams[0].Modules[2].Items.Out == 2 && list.Streams[0].Modules[1].Status == "running" { // its row comes later than its counts
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	s := list.Streams[0]
	if b := s.Bottleneck; b.Step != "read" || !strings.HasPrefix(b.Reason, "read is at work ") || !strings.Contains(b.Reason, "the steps behind it wait for them") {
		t.Errorf("the bottleneck is %+v", b)
	}
	if odd := s.Modules[1]; odd.Status != "running" || odd.Items.Failed != 1 || odd.Buffered == nil || *odd.Buffered != 0 || *odd.Working > 0.5 {
		t.Errorf("odd: %+v %+v", odd, odd.Items)
	}
	if odd, write := s.Modules[1], s.Modules[2]; odd.Capacity != nil || write.Buffered == nil || write.Capacity == nil || *write.Capacity < 3*256 || *write.Capacity%256 != 0 {
		t.Errorf("buffers: odd, in one stage with read, holds %v; write %v of %v", odd.Capacity, write.Buffered, write.Capacity)
	}
	for {
		all, err := c.StreamFailures(ctx, api.ListStreamFailures{ExecutionPath: of})
		good(t, err)
		if len(all.Groups) == 1 && all.Groups[0].Examples[0].Item == "b" {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	close(hold)
	x, err := c.Wait(ctx, started.ID)
	good(t, err)
	if x.Status != "completed_with_failures" {
		t.Errorf("it is %s: %+v", x.Status, x.Error)
	}
	all, err := c.StreamFailures(ctx, api.ListStreamFailures{ExecutionPath: of})
	good(t, err)
	if all.Failures != 1 {
		t.Errorf("after the end: %+v", all)
	}
}
