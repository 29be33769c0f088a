//go:build unix

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/store/postgres/postgrestest"
)

// holdingService keeps one report when it is told to: it stores what the report says, or does not, and never answers.
type holdingService struct {
	*reported
	next    chan bool     // whether the report that is kept is stored
	held    chan struct{} // a report is kept
	release chan struct{}
}

func (h *holdingService) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	select {
	case stored := <-h.next:
		if stored {
			h.reported.ServeHTTP(httptest.NewRecorder(), q)
		}
		h.held <- struct{}{}
		<-h.release
		panic(http.ErrAbortHandler)
	default:
		h.reported.ServeHTTP(w, q)
	}
}

// statuses are those that a service is told of an execution for certain, by the server's own history.
func (n *fleetNode) statuses(id string) (list []string) {
	n.t.Helper()
	words := map[string]string{"started": "running", "start": "running"}
	for cursor := ""; ; {
		var page api.HistoryList
		if err := n.client.Call(n.t.Context(), "GET", "/api/v1/executions/"+id+"/history", url.Values{"cursor": {cursor}}, nil, &page); err != nil {
			n.t.Fatal(err)
		}
		for _, e := range page.Events {
			if word := words[e.Type]; word != "" {
				e.Type = word
			}
			// The loss of an attempt is told by its step's being queued again.
			if e.Type != "timer" && e.Type != "lost" && !(e.Type == "queued" && strings.HasPrefix(e.Step, "b[")) {
				list = append(list, strings.TrimSpace(e.Step+" "+e.Type))
			}
		}
		if cursor = page.Next; cursor == "" {
			return list
		}
	}
}

// lines are the log lines of an execution in the database.
func (n *fleetNode) lines(id string) (list []string) {
	n.t.Helper()
	var page api.LogList
	if err := n.client.Call(n.t.Context(), "GET", "/api/v1/executions/"+id+"/logs", url.Values{"limit": {"1000"}}, nil, &page); err != nil {
		n.t.Fatal(err)
	}
	for _, l := range page.Logs {
		list = append(list, l.Message)
	}
	return list
}

// TestReportsOfAKilledFleet kills servers in the middle of a report, as the service has stored it or not, and has not answered: what
// the services keep of every execution is what happened, in its order, and nothing is missing. Of two servers one reports; each is
// killed, so the reporting one is too.
func TestReportsOfAKilledFleet(t *testing.T) {
	t.Parallel()
	h := &holdingService{reported: &reported{history: map[string][]string{}, status: map[string]string{}, lines: map[string][]string{}, seen: map[string]map[string]bool{}},
		next: make(chan bool, 1), held: make(chan struct{}), release: make(chan struct{})}
	services := httptest.NewServer(h)
	t.Cleanup(services.Close)
	t.Cleanup(func() { close(h.release) })
	r := newServers(t, postgrestest.New(t).URL(), 2, "16",
		fmt.Sprintf("services: {apps: {budapp: %q, budmetrics: %q}}\nreports: {executions: {service: budapp}, logs: {service: budmetrics}}\n", services.URL, services.URL))
	const document = `{"name": "told", "steps": [
		{"id": "a", "action": "util.exec", "params": {"command": ["seq", "1", "40"]}},
		{"id": "b", "depends_on": ["a"], "action": "util.log", "for_each": 10, "params": {"message": "line {{ item }}"}},
		{"id": "w", "depends_on": ["b"], "action": "util.wait", "params": {"seconds": 0.5}},
		{"id": "c", "depends_on": ["w"], "action": "fail", "on_failure": "continue", "params": {"message": "no"}}]}`
	var ids []string
	for round := range 4 {
		stored := round%2 == 0
		for i := range 6 {
			nodes := r.alive()
			x, err := nodes[i%len(nodes)].client.Execute(t.Context(), api.ExecuteRequest{Definition: api.Document(document)}, "")
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, x.ID)
		}
		if round > 0 { // the reports have begun
			h.until(t, "the begin of a report of this round", func() bool { return len(h.history[ids[len(ids)-6]]) > 0 })
		}
		h.next <- stored
		select {
		case <-h.held:
		case <-time.After(90 * time.Second):
			t.Fatal("no report came")
		}
		killed := r.alive()[0]
		killed.kill()
		r.add(r.url)
	}
	last := r.alive()[0]
	for _, id := range ids {
		last.until("the end of "+id, func() bool {
			x, err := last.client.Execution(t.Context(), id)
			return err == nil && !x.Completed.IsZero()
		})
		wantLines := last.lines(id)
		h.until(t, "the whole report of "+id, func() bool {
			return h.status[id] == "completed_with_failures" && len(h.lines[id]) >= len(wantLines)
		})
		want := append(last.statuses(id), "completed_with_failures")
		h.mu.Lock()
		// An iteration that is queued for the first time may have no name yet.
		if got := slices.DeleteFunc(h.history[id], func(s string) bool { return strings.HasPrefix(s, "b[") && strings.HasSuffix(s, " queued") }); !slices.Equal(got, want) {
			t.Errorf("%s was told as\n%q, want\n%q", id, got, want)
		}
		if got := h.lines[id]; !slices.Equal(got, wantLines) {
			t.Errorf("%s has the lines\n%q, want\n%q", id, got, wantLines)
		}
		h.mu.Unlock()
	}
	for try := 0; r.count(`SELECT count(*) FROM object WHERE kind = 'report'`) > 0; try++ {
		if try == 600 {
			t.Fatal("places of reports are left")
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// until waits for what the services have been told.
func (r *reported) until(t *testing.T, what string, there func() bool) {
	t.Helper()
	for deadline := time.Now().Add(90 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		r.mu.Lock()
		done := there()
		r.mu.Unlock()
		if done {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s did not come", what)
		}
	}
}
