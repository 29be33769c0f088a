package httpcall_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/store"
)

// killDB in the environment makes the test binary the process that is killed.
const killDB, killURL = "STEPWELL_TEST_KILL_DB", "STEPWELL_TEST_KILL_URL"

// service is one whose job is done when the test says so. It answers the first request with 429.
type service struct {
	mu                 sync.Mutex
	requests, accepted int
	asked              chan struct{}
	done               bool
}

// ServeHTTP implements http.Handler.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if r.Method == http.MethodGet {
		state := "running"
		if s.done {
			state = "done"
		}
		fmt.Fprintf(w, `{"state": %q, "path": %q}`, state, r.URL.Path)
		select {
		case s.asked <- struct{}{}:
		default:
		}
		return
	}
	if s.requests++; s.requests == 1 {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	s.accepted++
	fmt.Fprintf(w, `{"id": "job-%d"}`, s.accepted)
}

// start opens a Stepwell and runs it until ctx ends.
func start(ctx context.Context, db string) (a *app.App, ended chan error, err error) {
	a, err = app.New(ctx, app.Options{DB: db, Log: slog.New(slog.DiscardHandler), HTTP: outbound.Options{AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}})
	if err != nil {
		return nil, nil, err
	}
	ended = make(chan error, 1)
	go func() { ended <- errors.Join(a.Run(ctx), a.Close()) }()
	return a, ended, nil
}

// TestKillChild is the process that is killed: it starts the pipeline and runs until then.
func TestKillChild(t *testing.T) {
	db, url := os.Getenv(killDB), os.Getenv(killURL)
	if db == "" {
		t.Skip("it is the other half of TestKillWhilePolling")
	}
	a, ended, err := start(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	poll := map[string]any{"job": "body.id", "url": url + "/jobs/{{ job }}", "until": "{{ body.state == steps.word.outputs.value }}", "interval": 0.05, "max_interval": 0.1}
	p, err := a.Conductor.Register(t.Context(), &definition.Definition{Name: "kill", Steps: []definition.Step{
		{ID: "word", Action: "util.set_output", Params: map[string]any{"outputs": map[string]any{"value": "done"}}},
		{ID: "job", Action: "util.http", DependsOn: []string{"word"}, Params: map[string]any{"url": url + "/jobs", "json": map[string]any{"word": "{{ steps.word.outputs.value }}"},
			"headers": map[string]any{"Authorization": "Bearer never-stored"}, "poll": poll, "outputs": map[string]any{"path": "body.path", "text": "{{ body.state }}/{{ steps.word.outputs.value }}"}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	id, err := a.Conductor.Start(t.Context(), conductor.Request{Pipeline: p})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("EXECUTION", id)
	t.Fatal(<-ended)
}

// TestKillWhilePolling kills the process while the job runs, and starts another one: it goes on asking,
// and the service has accepted one submission.
func TestKillWhilePolling(t *testing.T) {
	s := &service{asked: make(chan struct{})}
	server := httptest.NewServer(s)
	defer server.Close()
	db := filepath.Join(t.TempDir(), "kill.db")
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKillChild$", "-test.timeout=60s")
	child.Env = append(os.Environ(), killDB+"="+db, killURL+"="+server.URL)
	var out strings.Builder
	child.Stdout, child.Stderr = &out, &out
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		select {
		case <-s.asked:
		case <-time.After(30 * time.Second):
			t.Error("the job is not asked about")
		}
	}
	if err := child.Process.Kill(); err != nil {
		t.Error(err)
	}
	if err := child.Wait(); err == nil {
		t.Error("the process ended well before it was killed")
	}
	_, rest, _ := strings.Cut(out.String(), "EXECUTION ")
	id := strings.TrimSpace(rest)
	s.mu.Lock()
	s.done = true
	s.mu.Unlock()

	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	a, ended, err := start(ctx, db)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Conductor.Recover(ctx, id); err != nil {
		t.Fatal(err)
	}
	step := await(ctx, t, a, id)
	if !strings.Contains(string(step.Output), `"path":"/jobs/job-1"`) || !strings.Contains(string(step.Output), `"text":"done/done"`) {
		t.Errorf("outputs %s, error %v", step.Output, step.Error)
	}
	if strings.Contains(string(step.Input), "never-stored") {
		t.Errorf("the credential is stored: %s", step.Input)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if s.accepted != 1 || s.requests != 2 {
		t.Errorf("%d submissions accepted of %d, want one after one that was put back", s.accepted, s.requests)
	}
}

// await waits for the end of the execution and gives the step that called.
func await(ctx context.Context, t *testing.T, a *app.App, id string) store.Step {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		x, err := a.Store.Execution(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		if x.Status.Terminal() {
			steps, err := a.Store.Steps(ctx, x.No, store.StepFilter{})
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range steps {
				if s.Key == "job" {
					return s
				}
			}
			t.Fatalf("%d steps, but not the job", len(steps))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			steps, err := a.Store.Steps(context.WithoutCancel(ctx), x.No, store.StepFilter{})
			for _, s := range steps {
				t.Logf("%s: %s, attempt %d, until %v, %v", s.Key, s.Status, s.Attempt, time.UnixMicro(s.Wake), s.Error)
			}
			t.Fatalf("the execution is %s, %v", x.Status, err)
		}
	}
}
