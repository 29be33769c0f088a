package api_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/api"
)

// told is a message of the stream of lists.
type told struct {
	Type, Seq string
	Data      struct {
		Version string
		Resumed bool
		Rows    []map[string]any
		Removed []string
	}
}

// listStream opens the stream; next reads messages until one is as wanted.
func (r *rig) listStream(since string) (next func(what string, is func(*told) bool) told, stop func()) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), "GET", r.server.URL+"/api/v1/stream", nil)
	good(r.t, err)
	req.Header.Set("Authorization", "Bearer viewer")
	if since != "" {
		req.Header.Set("Last-Event-ID", since)
	}
	resp, err := http.DefaultClient.Do(req)
	good(r.t, err)
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		r.t.Fatalf("%d %v", resp.StatusCode, resp.Header)
	}
	scan := bufio.NewScanner(resp.Body)
	scan.Buffer(nil, 1<<20)
	r.t.Cleanup(func() { resp.Body.Close() })
	return func(what string, is func(*told) bool) told {
		r.t.Helper()
		for scan.Scan() {
			data, ok := strings.CutPrefix(scan.Text(), "data: ")
			var m told
			if !ok {
				continue
			}
			good(r.t, json.Unmarshal([]byte(data), &m))
			if is(&m) {
				return m
			}
		}
		r.t.Fatalf("the stream ended without %s", what)
		return told{}
	}, func() { resp.Body.Close() }
}

// has reports whether a message of a kind has a row with a value.
func (m *told) has(kind, field, value string) bool {
	for _, row := range m.Data.Rows {
		if m.Type == kind && row[field] == value {
			return true
		}
	}
	return false
}

// TestListStream: what people and programs do is told, in the rows of the lists.
func TestListStream(t *testing.T) {
	r := newRig(t)
	r.do("", "GET", "/api/v1/stream", nil).is(401)
	next, stop := r.listStream("")
	if m := next("hello", func(*told) bool { return true }); m.Type != "hello" || m.Data.Resumed || m.Data.Version != "dev" {
		t.Fatalf("first: %+v", m)
	}
	running := r.begin(waiting, nil) // before the first look at the lists or after: told when it ends
	r.until("it runs", func() bool {
		return r.do("viewer", "GET", "/api/v1/executions/"+running, nil).object()["status"] == "running"
	})
	job := r.do("editor", "POST", "/api/v1/scheduler/jobs", map[string]any{"name": "seen", "schedule": map[string]any{"type": "manual"},
		"callback": map[string]any{"type": "action", "action_type": "util.noop"}}).is(201).object()["job_id"].(string)
	next("the schedule", func(m *told) bool { return m.has("schedules", "job_id", job) })
	r.do("editor", "POST", "/api/v1/projects", map[string]any{"id": "geo", "name": "Geo"}).is(201)
	r.do("editor", "PUT", "/api/v1/projects/geo/total", map[string]any{"total": 3}).is(200)
	moved := next("the progress of a project", func(m *told) bool { return m.has("projects", "project_id", "geo") && m.Data.Rows[0]["total"] == 3.0 })
	if shown := r.do("viewer", "GET", "/api/v1/projects/geo/progress", nil).object(); !reflect.DeepEqual(moved.Data.Rows[0], shown) {
		t.Errorf("the stream has %v, the project %v", moved.Data.Rows[0], shown)
	}
	r.do("operator", "POST", "/api/v1/projects/geo/items", map[string]any{"done": 3}).is(200)
	next("the end of a project", func(m *told) bool { return m.Type == "projects" && strings.Join(m.Data.Removed, " ") == "geo" })
	asked := r.begin(asking, nil)
	m := next("the question", func(m *told) bool { return m.has("approvals", "execution_id", asked) })
	id := ""
	for _, row := range m.Data.Rows {
		if row["execution_id"] == asked {
			id = row["approval_id"].(string)
		}
	}
	r.do("operator", "POST", "/api/v1/approvals/"+id+"/approve", map[string]any{}).is(200)
	left := next("the end of the question", func(m *told) bool { return m.Type == "approvals" && strings.Join(m.Data.Removed, " ") == id })
	r.do("operator", "POST", "/api/v1/executions/"+running+"/cancel", nil).is(200)
	ended := next("the end", func(m *told) bool {
		return m.has("executions", "execution_id", running) && m.has("executions", "status", "cancelled")
	})
	// A row is what the list has.
	var list api.ExecutionList
	r.do("viewer", "GET", "/api/v1/executions", nil).is(200).into(&list)
	for _, row := range ended.Data.Rows {
		if row["execution_id"] != running {
			continue
		}
		raw, err := json.Marshal(row)
		good(t, err)
		var x api.Execution
		good(t, json.Unmarshal(raw, &x))
		for i := range list.Executions {
			if y := &list.Executions[i]; y.ID == running && (x.Pipeline != y.Pipeline || x.Status != y.Status || !x.Completed.Equal(y.Completed.Time) || *x.DurationMS != *y.DurationMS) {
				t.Errorf("the stream has %+v, the list %+v", x, y)
			}
		}
	}
	stop()
	next, _ = r.listStream(left.Seq)
	if m := next("hello", func(*told) bool { return true }); !m.Data.Resumed || m.Seq != left.Seq {
		t.Errorf("coming back: %+v", m)
	}
	next("the end again", func(m *told) bool { return m.Seq == ended.Seq })
}
