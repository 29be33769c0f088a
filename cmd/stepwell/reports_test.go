package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/store/postgres/postgrestest"
)

// reported is what budapp and budmetrics have been told, as they would keep it.
type reported struct {
	mu      sync.Mutex
	away    bool
	refused int
	history map[string][]string        // of each execution: "step status", each id once, in the order of the first time
	status  map[string]string          // of each execution, as it was told last
	lines   map[string][]string        // of each execution
	seen    map[string]map[string]bool // ids by execution
	most    int                        // lines in one request
}

func (r *reported) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.away {
		r.refused++
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	var body struct {
		Execution string `json:"execution_id"`
		Status    string
		History   []struct {
			ID, Status string
			Step       string `json:"step_id"`
		}
		Logs []struct {
			ID, Message string
			Execution   string `json:"execution_id"`
		}
	}
	if err := json.NewDecoder(q.Body).Decode(&body); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	fresh := func(execution, id string) bool {
		if r.seen[execution] == nil {
			r.seen[execution] = map[string]bool{}
		}
		defer func() { r.seen[execution][id] = true }()
		return !r.seen[execution][id]
	}
	if q.URL.Path == "/api/v1/logs/ingest" {
		r.most = max(r.most, len(body.Logs))
		for _, l := range body.Logs {
			if fresh(l.Execution, l.ID) {
				r.lines[l.Execution] = append(r.lines[l.Execution], l.Message)
			}
		}
		return
	}
	if q.URL.Path != "/api/v1/executions/"+body.Execution+"/status" {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	for _, h := range body.History {
		if fresh(body.Execution, h.ID) {
			r.history[body.Execution] = append(r.history[body.Execution], strings.TrimSpace(h.Step+" "+h.Status))
		}
	}
	r.status[body.Execution] = body.Status
}

// Executions go on while the services that are told of them are away, over a kill of the server too; afterwards they are told
// everything, in order. On PostgreSQL, where the next server would wait for the lease of the killed one, they are told alike.
func TestReports(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) { checkReports(t, true) })
	t.Run("postgres", func(t *testing.T) {
		url, err := postgrestest.Create(postgrestest.New(t).URL(), "")
		if err != nil {
			t.Fatal(err)
		}
		checkReports(t, false, "--db", url)
	})
}

func checkReports(t *testing.T, away bool, flags ...string) {
	told := &reported{away: away, history: map[string][]string{}, status: map[string]string{}, lines: map[string][]string{}, seen: map[string]map[string]bool{}}
	services := httptest.NewServer(told)
	defer services.Close()
	r := newCrashRig(t)
	r.flags = flags
	t.Setenv("STEPWELL_SECRETS_KEY", "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=")
	r.set(fmt.Sprintf("services: {apps: {budapp: %q, budmetrics: %q}}\nreports: {executions: {service: budapp}, logs: {service: budmetrics}}\n", services.URL, services.URL))
	r.start()
	const document = `{"name": "told", "steps": [
		{"id": "a", "action": "util.log", "params": {"message": "first"}},
		{"id": "b", "depends_on": ["a"], "action": "util.log", "for_each": 20, "params": {"message": "line {{ item }}"}},
		{"id": "c", "depends_on": ["b"], "action": "fail", "on_failure": "continue", "params": {"message": "no"}}]}`
	begin := func() (ids []string) {
		for range 5 {
			x, err := r.client.Execute(t.Context(), api.ExecuteRequest{Definition: api.Document(document)}, "")
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, x.ID)
		}
		for _, id := range ids { // they end although nobody can be told
			r.until("the end of "+id, func() bool {
				x, err := r.client.Execution(t.Context(), id)
				return err == nil && !x.Completed.IsZero()
			})
		}
		return ids
	}
	ids := begin()
	if away {
		r.until("a refused report", func() bool { told.mu.Lock(); defer told.mu.Unlock(); return told.refused > 0 })
		r.kill()
		told.mu.Lock()
		told.away = false
		told.mu.Unlock()
		r.start()
		ids = append(ids, begin()...)
	}
	for _, id := range ids {
		r.until("the whole report of "+id, func() bool {
			told.mu.Lock()
			defer told.mu.Unlock()
			return told.status[id] == "completed_with_failures" && len(told.lines[id]) >= 21
		})
	}
	told.mu.Lock()
	defer told.mu.Unlock()
	for _, id := range ids {
		history := told.history[id]
		at := func(entry string) int { return slices.Index(history, entry) }
		if history[0] != "running" || history[len(history)-1] != "completed_with_failures" || at("a completed") < 0 || at("a completed") > at("b completed") || at("b completed") > at("c failed") || at("c failed") < 0 {
			t.Errorf("%s was told as %q", id, history)
		}
		if lines := told.lines[id]; lines[0] != "first" {
			t.Errorf("%s has the lines %q", id, lines)
		}
	}
	if told.most < 2 {
		t.Errorf("lines came one by one")
	}
}
