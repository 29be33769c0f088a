//go:build unix

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/store/postgres/postgrestest"
)

// turnstile is a service that counts the calls that are under way. Each waits to be let go.
type turnstile struct {
	*httptest.Server
	release chan struct{}

	mu   sync.Mutex
	now  int
	most int
	of   map[string]int // calls that have begun, by caller
}

func newTurnstile(t *testing.T) *turnstile {
	s := &turnstile{release: make(chan struct{}), of: map[string]int{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		s.add(q.URL.Path, 1)
		defer s.add(q.URL.Path, -1)
		select {
		case <-s.release:
		case <-q.Context().Done(): // the caller has died
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *turnstile) add(caller string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now += n
	s.most = max(s.most, s.now)
	s.of[caller] += max(n, 0)
}

func (s *turnstile) count(caller string) (now, most, begun int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now, s.most, s.of[caller]
}

// TestFleetLimits: the limit of a queue holds for all servers together. The one that has all the work gets all of it, those that have work share it, and
// what a killed one had goes to the others.
func TestFleetLimits(t *testing.T) {
	t.Parallel()
	calls := newTurnstile(t)
	r := newSetFleetRig(t, postgrestest.URL(t), 3, "queues: {gpu: {concurrency: 3}}\n")
	r.nodes[0].must("POST", "/api/v1/pipelines", api.Object{"document": `name: limited
parameters: [{name: n, type: string}]
steps:
  - {id: a, action: util.http, queue: gpu, for_each: 12, params: {url: "` + calls.URL + `/{{ params.n }}"}}
`}, nil)
	for i, n := range r.nodes {
		started, err := n.client.Execute(t.Context(), api.ExecuteRequest{Workflow: "limited", Params: api.Object{"n": fmt.Sprint(i)}}, "")
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			continue
		}
		n.until("all of the limit", func() bool { now, _, _ := calls.count(""); return now == 3 })
		why, err := n.client.Why(t.Context(), started.ID, "a[11]")
		if err != nil || len(why) == 0 || !strings.Contains(why[0].Message, "the queue gpu lets 3 steps run on all servers together: 3 run on this one") {
			t.Errorf("why: %+v, error %v", why, err)
		}
	}
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		for {
			select {
			case calls.release <- struct{}{}:
				time.Sleep(10 * time.Millisecond) // so that there is something left for the others
			case <-ended:
				return
			}
		}
	}()
	r.nodes[0].until("work of all servers", func() bool {
		for i := range r.nodes {
			if _, _, begun := calls.count(fmt.Sprintf("/%d", i)); begun == 0 {
				return false
			}
		}
		return true
	})
	r.nodes[1].kill()
	r.nodes[0].until("the end of all", func() bool { return r.count(`SELECT count(*) FROM execution_past WHERE status = 4`) == 3 })
	if _, most, _ := calls.count(""); most != 3 {
		t.Errorf("%d ran at once, want 3", most)
	}
}
