package api_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
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
	r.do("viewer", "GET", "/api/v1/executions/"+x.ID+"/attempts?cursor=x", nil).problem(http.StatusBadRequest, stepwell.CodeInvalid)
}
