package app_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stepwell/stepwell/app"
)

// collector takes traces.
type collector struct {
	mu   sync.Mutex
	seen bytes.Buffer
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.URL.Path == "/v1/traces" {
		if _, err := io.Copy(&c.seen, r.Body); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}
}

// has looks for an id, given in hexadecimal, in what came: spans have it in 16 bytes.
func (c *collector) has(t *testing.T, id string) bool {
	t.Helper()
	raw, err := hex.DecodeString(strings.ReplaceAll(id, "-", ""))
	if err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Contains(c.seen.Bytes(), raw)
}

// What the server does is measured and traced, and a trace is linked to the request that has led to it.
func TestServerMeasuresAndTraces(t *testing.T) {
	c, g := &collector{}, newGate()
	close(g.open)
	otlp := httptest.NewServer(c)
	defer otlp.Close()
	s := serve(t, filepath.Join(t.TempDir(), "a.db"), g, func(o *app.ServerOptions) { o.Telemetry.Endpoint = otlp.URL })

	const log = `{"type": "action", "action_type": "util.log", "params": {"message": "here"}}`
	s.post("/webhooks", `{"webhook_id": "hook", "auth": "none", "allowed_ips": ["127.0.0.1"], "callback": `+log+`}`)
	s.post("/scheduler/jobs", `{"job_id": "hand", "name": "hand", "schedule": {"type": "manual"}, "callback": `+log+`}`)
	s.post("/event-triggers", `{"trigger_id": "on", "event_type": "it.happens", "callback": `+log+`}`)
	first, traces := "", map[string]string{} // by execution
	for i, ask := range [][2]string{{"/execute", `{"action_type": "util.log", "params": {"message": "here"}}`}, {"/webhooks/hook/trigger", `{}`}, {"/scheduler/jobs/hand/trigger", `{}`},
		{"/events", `{"type": "it.happens"}`}, {"/executions/FIRST/retry", `{"from_step": "log"}`}} {
		trace := fmt.Sprintf("0af7651916cd43dd8448eb211c80319%d", i)
		code, got := s.send("POST", "/api/v1"+strings.Replace(ask[0], "FIRST", first, 1), ask[1], http.Header{"Traceparent": {"00-" + trace + "-b7ad6b7169203331-01"}})
		if list, ok := got["started"].([]any); ok && len(list) == 1 {
			got, _ = list[0].(map[string]any)
		}
		id, _ := got["execution_id"].(string)
		if code > 299 || id == "" {
			t.Fatalf("%s: %d %v", ask[0], code, got)
		}
		if first == "" {
			first = id
		}
		s.settled(id)
		traces[id] = trace
	}
	s.post("/scheduler/jobs", `{"job_id": "once", "name": "once", "schedule": {"type": "one_time", "run_at": "`+time.Now().UTC().Format(time.RFC3339)+`"}, "callback": `+log+`}`)
	s.until("the firing", func() bool {
		return s.prometheus(`stepwell_executions_started_total{pipeline="util.log",trigger="scheduled"}`) != ""
	})
	for series, want := range map[string]string{
		"stepwell_schedule_lag_seconds_count":                                              "1",
		`stepwell_http_requests_total{method="POST",route="execution.start",status="201"}`: "1",
		`stepwell_http_requests_total{method="POST",route="webhook.trigger",status="201"}`: "1",
		`stepwell_commit_failures_total`:                                                   "0",
		`stepwell_executions_started_total{pipeline="util.log",trigger="webhook"}`:         "1",
	} {
		s.until(series+" "+want, func() bool { return s.prometheus(series) == want }) // some are counted behind the answer
	}
	if n := s.prometheus("stepwell_commit_seconds_count"); n == "" || n == "0" {
		t.Error("commits are not timed")
	}
	s.Drain()
	s.ended()
	for id, trace := range traces {
		if !c.has(t, id) || !c.has(t, trace) {
			t.Errorf("execution %s: traced %v, linked to the request's trace %s %v", id, c.has(t, id), trace, c.has(t, trace))
		}
	}
}
