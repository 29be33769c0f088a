package api_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/field"
)

func TestAttempts(t *testing.T) {
	r := newRig(t)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	defer service.Close()
	x := r.finished(`name: tries
settings: {fail_fast: false}
steps:
  - {id: first, action: util.log, params: {message: hi}}
  - {id: flaky, action: util.http, queue: default, depends_on: [first], params: {url: ` + service.URL + `}, retry: {max_attempts: 3, backoff_seconds: 0.01}}
  - {id: pause, action: util.wait, depends_on: [first], params: {seconds: 0.05}}
  - {id: each, action: util.log, depends_on: [first], for_each: {items: 5}, params: {message: one}}
  - {id: never, action: util.log, depends_on: [flaky], params: {message: never}}
`)
	c, of := r.client("viewer"), api.ExecutionPath{ID: x.ID}
	list := func(in api.ListAttempts) []api.Attempt {
		t.Helper()
		in.ExecutionPath = of
		got, err := c.Attempts(t.Context(), in)
		good(t, err)
		if got.Version == 0 || got.Next != "" {
			t.Errorf("%+v", got)
		}
		return got.Attempts
	}
	flaky := list(api.ListAttempts{Step: "flaky", Limit: 100})
	if len(flaky) != 3 {
		t.Fatalf("flaky: %+v", flaky)
	}
	for k, a := range flaky {
		if a.Number != k+1 || a.Outcome != "failed" || a.Queue != "default" || !strings.Contains(a.Detail, "503") || a.Queued.IsZero() || a.Started.Before(a.Queued.Time) || a.Ended.Before(a.Started.Time) {
			t.Errorf("attempt %d: %+v", k+1, a)
		}
		if k > 0 && a.Queued.Before(flaky[k-1].Ended.Time) {
			t.Errorf("attempt %d was queued before the one before had ended", k+1)
		}
	}
	if first := list(api.ListAttempts{Step: "first", Limit: 100}); len(first) != 1 || first[0].Outcome != "completed" || first[0].Index != 0 || first[0].Queue != "" {
		t.Errorf("first: %+v", first)
	}
	pause := list(api.ListAttempts{Step: "pause", Limit: 100})
	if len(pause) == 0 || pause[len(pause)-1].Outcome == "" || pause[0].Number != 1 {
		t.Errorf("pause: %+v", pause)
	}
	if never := list(api.ListAttempts{Step: "never", Limit: 100}); len(never) != 0 {
		t.Errorf("never: %+v", never)
	}
	all := list(api.ListAttempts{Limit: 1000})
	var keys, paged []string
	for _, a := range all {
		keys = append(keys, fmt.Sprint(a.Step, a.Number))
	}
	for in := (api.ListAttempts{ExecutionPath: of, Limit: 3}); ; {
		got, err := c.Attempts(t.Context(), in)
		good(t, err)
		for _, a := range got.Attempts {
			paged = append(paged, fmt.Sprint(a.Step, a.Number))
		}
		if in.Cursor = got.Next; got.Next == "" {
			break
		}
	}
	if strings.Join(keys, " ") != strings.Join(paged, " ") || len(keys) < 10 || strings.Count(strings.Join(keys, " "), "each[") != 5 {
		t.Errorf("all   %v\npages %v", keys, paged)
	}
	r.sameAttempts(t, x.ID, all)
	r.do("viewer", "GET", "/api/v1/executions/"+x.ID+"/attempts?cursor=x", nil).problem(http.StatusBadRequest, stepwell.CodeInvalid)
}

// sameAttempts: the columns have what the list has, also in parts.
func (r *rig) sameAttempts(t *testing.T, id string, all []api.Attempt) {
	t.Helper()
	c, of := r.client("viewer"), api.ExecutionPath{ID: id}
	for _, rows := range []int{100_000, 4} {
		for from := 0; from < len(all); from += rows {
			got, err := c.AttemptColumns(t.Context(), api.GetAttemptColumns{ExecutionPath: of, From: from, Limit: rows})
			good(t, err)
			if got.Rows != min(rows, len(all)-from) || got.Total != len(all) || got.From != from {
				t.Fatalf("%+v", got.Header)
			}
			index, number, outcome, worker, queue := got.Column("index"), got.Column("attempt"), got.Column("outcome"), got.Column("worker"), got.Column("queue")
			since := func(at api.Time) uint32 {
				if at.IsZero() {
					return 0
				}
				return uint32(at.UnixMilli()-got.Began) + 1
			}
			for k, a := range all[from : from+got.Rows] {
				want := fmt.Sprint(a.Index, a.Number, a.Outcome, a.Worker, a.Queue, since(a.Queued), since(a.Started), since(a.Ended))
				if have := fmt.Sprint(index[k], number[k], got.Outcomes[outcome[k]], got.Workers[worker[k]], got.Queues[queue[k]], got.Column("queued")[k], got.Column("started")[k], got.Column("ended")[k]); have != want {
					t.Errorf("attempt %d: %s, in the list %s", from+k, have, want)
				}
				// The next attempt of a step says how long the one before was the last.
				for _, next := range all[from+k+1:] {
					if next.Step == a.Step && !next.Queued.IsZero() {
						if took := next.Queued.Sub(a.Ended.Time); time.Duration(got.Column("backoff")[k])*time.Millisecond != took {
							t.Errorf("attempt %d: backoff %d ms, the next one came after %v", from+k, got.Column("backoff")[k], took)
						}
						break
					}
				}
			}
		}
	}
	path := "/api/v1/executions/" + id + "/attempts.columns"
	got := r.do("viewer", "GET", path, nil, "Accept-Encoding", "gzip").is(200)
	if again := r.do("viewer", "GET", path, nil, "If-None-Match", got.header.Get("ETag")); got.header.Get("Content-Encoding") != "gzip" || again.status != http.StatusNotModified {
		t.Errorf("%v, then %d", got.header, again.status)
	}
	if beyond, err := c.AttemptColumns(t.Context(), api.GetAttemptColumns{ExecutionPath: of, From: 1 << 20}); err != nil || beyond.Rows != 0 || beyond.Total != len(all) {
		t.Errorf("beyond the last: %+v, %v", beyond, err)
	}
	r.do("viewer", "GET", path+"?limit=100001", nil).is(400)
	r.do("viewer", "GET", "/api/v1/executions/00000000-0000-0000-0000-000000000000/attempts.columns", nil).is(404)
}

// TestAttemptsFoldedOn: those that are folded on from what was kept at an earlier version are those of the whole history, whenever somebody
// has asked before.
func TestAttemptsFoldedOn(t *testing.T) {
	r := newRig(t)
	s := r.app.Store
	kept := map[int64]*field.Hub{} // by the version at which it was asked first
	look := func(x string) {
		t.Helper()
		for {
			row, err := s.Execution(t.Context(), x)
			good(t, err)
			whole, err := field.New(field.Options{Store: s, Catalog: r.app.Actions}).Attempts(t.Context(), row)
			good(t, err)
			if kept[row.Version] == nil {
				kept[row.Version] = field.New(field.Options{Store: s, Catalog: r.app.Actions})
			}
			again := false
			for since, h := range kept {
				on, err := h.Attempts(t.Context(), row)
				good(t, err)
				if again = again || on.Version != whole.Version; again {
					break // there was a commit between: later ones are compared
				}
				if fmt.Sprintf("%+v", on.List) != fmt.Sprintf("%+v", whole.List) {
					t.Fatalf("version %d, kept since %d:\n%+v\nwant\n%+v", row.Version, since, on.List, whole.List)
				}
			}
			if !again {
				return
			}
		}
	}
	for _, how := range []string{"cancel", "timeout"} {
		kept = map[int64]*field.Hub{}
		settings := ""
		if how == "timeout" {
			settings = "settings: {timeout_seconds: 2}\n"
		}
		x := r.begin("name: long\n"+settings+`steps:
  - {id: first, action: util.log, params: {message: hi}}
  - {id: sleeps, action: util.exec, depends_on: [first], params: {command: sleep 20}}
  - {id: pause, action: util.wait, depends_on: [first], params: {seconds: 20}}
  - {id: after, action: util.log, depends_on: [sleeps], params: {message: after}}
`, nil)
		path := "/api/v1/executions/" + x
		for range 10 {
			look(x)
			time.Sleep(10 * time.Millisecond)
		}
		if how == "cancel" {
			r.do("operator", "POST", path+"/cancel", map[string]any{})
		}
		over := func() bool {
			look(x)
			row, err := s.Execution(t.Context(), x)
			good(t, err)
			return row.Status.Terminal()
		}
		r.until("the end of "+how, over)
		r.do("operator", "POST", path+"/restart", map[string]any{"step_id": "sleeps"}).is(http.StatusOK)
		for range 10 {
			look(x)
			time.Sleep(10 * time.Millisecond)
		}
		r.do("operator", "POST", path+"/cancel", map[string]any{})
		r.until("the end of "+how, over)
		row, err := s.Execution(t.Context(), x)
		good(t, err)
		a, err := field.New(field.Options{Store: s, Catalog: r.app.Actions}).Attempts(t.Context(), row)
		good(t, err)
		var outcomes []string
		for i := range a.List {
			if a.List[i].Key == "sleeps" {
				outcomes = append(outcomes, a.List[i].Outcome)
			}
		}
		if want := map[string]string{"cancel": "cancelled", "timeout": "timed_out"}[how]; len(outcomes) != 2 || outcomes[0] != want || outcomes[1] == "" {
			t.Errorf("%s: the attempts ended %q, the first of two should %q", how, outcomes, want)
		}
	}
}
