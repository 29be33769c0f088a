package app_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptrace"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/spec"
)

// gate is an action that says that it runs, and waits until it may end.
type gate struct{ running, open chan struct{} }

func newGate() *gate { return &gate{make(chan struct{}, 16), make(chan struct{})} }

func (g *gate) register(r *action.Registry) error {
	return r.Add(action.Action{Spec: spec.Spec{Name: "test.gate", Summary: "Waits."}, Handler: action.HandlerFunc(func(ctx context.Context, _ *action.Call) (any, error) {
		g.running <- struct{}{}
		select {
		case <-g.open:
			return map[string]any{"passed": true}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})})
}

// serverRig is a server that runs.
type serverRig struct {
	*app.Server
	t   *testing.T
	ran chan error
}

func serve(t *testing.T, db string, g *gate, change func(*app.ServerOptions)) *serverRig {
	t.Helper()
	o := app.ServerOptions{Options: app.Options{DB: db, Register: g.register, Log: slog.New(slog.DiscardHandler)}, Listen: "127.0.0.1:0",
		Access: app.Access{Limit: access.LimitOptions{Rate: 1e6, Burst: 1e6}}} // tests look often
	if change != nil {
		change(&o)
	}
	s, err := app.NewServer(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	out := &serverRig{s, t, make(chan error, 1)}
	go func() { out.ran <- s.Run(t.Context()) }()
	out.until("ready", func() bool { return s.Ready() == nil })
	return out
}

// until waits for a condition.
func (s *serverRig) until(what string, there func() bool) {
	s.t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !there() {
		select {
		case <-deadline:
			s.t.Fatalf("%s did not come", what)
		case <-tick.C:
		}
	}
}

// ended waits for Run and closes.
func (s *serverRig) ended() {
	s.t.Helper()
	select {
	case err := <-s.ran:
		if err != nil {
			s.t.Fatal(err)
		}
	case <-time.After(time.Minute):
		s.t.Fatal("the server does not end")
	}
	if err := s.Close(); err != nil {
		s.t.Fatal(err)
	}
	http.DefaultClient.CloseIdleConnections()
}

// begin starts an execution of one gate and waits until it runs.
func (s *serverRig) begin(g *gate) string {
	s.t.Helper()
	p, err := s.Conductor.Register(s.t.Context(), &definition.Definition{Name: "gates", Steps: []definition.Step{{ID: "a", Action: "test.gate"}}})
	if err != nil {
		s.t.Fatal(err)
	}
	id, err := s.Conductor.Start(s.t.Context(), conductor.Request{Pipeline: p})
	if err != nil {
		s.t.Fatal(err)
	}
	<-g.running
	return id
}

// request asks the API.
func (s *serverRig) request(method, path string) (int, map[string]any) {
	s.t.Helper()
	return s.send(method, path, "{}", nil)
}

// post asks for something to be done, which succeeds.
func (s *serverRig) post(path, body string) map[string]any {
	s.t.Helper()
	code, out := s.send("POST", "/api/v1"+path, body, nil)
	if code > 299 {
		s.t.Fatalf("%s: %d %v", path, code, out)
	}
	return out
}

// send asks the API.
func (s *serverRig) send(method, path, text string, header http.Header) (int, map[string]any) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.URL()+path, strings.NewReader(text))
	if err != nil {
		s.t.Fatal(err)
	}
	if header != nil {
		req.Header = header
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	var body map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&body); err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, body
}

// settled waits for the end of an execution, as the API shows it.
func (s *serverRig) settled(id string) (x map[string]any) {
	s.t.Helper()
	s.until("the end of "+id, func() bool {
		_, x = s.request("GET", "/api/v1/executions/"+id)
		return x["completed_at"] != nil
	})
	return x
}

// prometheus is a value as Prometheus reads it; "" when there is no such series.
func (s *serverRig) prometheus(series string) string {
	s.t.Helper()
	resp, err := http.Get(s.URL() + "/metrics")
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), series+" "); ok {
			return value
		}
	}
	return ""
}

func TestServerDrainsInOrder(t *testing.T) {
	g := newGate()
	s := serve(t, filepath.Join(t.TempDir(), "a.db"), g, nil)
	id := s.begin(g)
	if code, _ := s.request("GET", "/api/v1/ready"); code != 200 {
		t.Fatalf("ready: %d", code)
	}
	s.Drain()
	s.until("the end of readiness", func() bool { return s.Ready() != nil })
	if code, _ := s.request("GET", "/api/v1/ready"); code != 503 {
		t.Fatalf("ready while it stops: %d", code)
	}
	if code, body := s.request("POST", "/api/v1/executions/"+id+"/cancel"); code != 503 || body["code"] != "unavailable" {
		t.Fatalf("a change while it stops: %d %v", code, body)
	}
	if code, body := s.request("GET", "/api/v1/executions/"+id); code != 200 || body["status"] != "running" {
		t.Fatalf("a look while it stops: %d %v", code, body["status"])
	}
	select {
	case err := <-s.ran:
		t.Fatalf("it has ended before the step: %v", err)
	default:
	}
	close(g.open)
	x, err := s.Conductor.Wait(t.Context(), id)
	if err != nil || x.Status != stepwell.ExecutionCompleted {
		t.Fatalf("%v, %v", x, err)
	}
	s.ended()
}

func TestServerStopsStepsThatTakeTooLongAndGoesOnWithThem(t *testing.T) {
	g, db := newGate(), filepath.Join(t.TempDir(), "a.db")
	s := serve(t, db, g, func(o *app.ServerOptions) { o.StopAfter = 10 * time.Millisecond })
	id := s.begin(g)
	s.Drain()
	s.ended()

	again := newGate()
	close(again.open)
	s = serve(t, db, again, nil)
	x, err := s.Conductor.Wait(t.Context(), id)
	if err != nil || x.Status != stepwell.ExecutionCompleted {
		t.Fatalf("%v, %v", x, err)
	}
	s.Drain()
	s.ended()
}

func TestServerAddressInUse(t *testing.T) {
	dir, g := t.TempDir(), newGate()
	s := serve(t, filepath.Join(dir, "a.db"), g, nil)
	_, err := app.NewServer(t.Context(), app.ServerOptions{Options: app.Options{DB: filepath.Join(dir, "b.db"), Log: slog.New(slog.DiscardHandler)}, Listen: s.Addr().String()})
	if stepwell.CodeOf(err) != stepwell.CodeUnavailable {
		t.Fatalf("got %v", err)
	}
	s.Drain()
	s.ended()
}

// Those who follow an execution are sent away with the message behind which they go on, and do not hold up the stop.
// waits begins a request that waits for the end of an execution, and gives the status of its answer.
func (s *serverRig) waits(id string) <-chan int {
	s.t.Helper()
	sent, status := make(chan struct{}), make(chan int, 1)
	trace := &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { close(sent) }}
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(s.t.Context(), trace), http.MethodGet, s.URL()+"/api/v1/executions/"+id+"?wait_seconds=60", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	go func() {
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			s.t.Error(err)
			status <- 0
			return
		}
		resp.Body.Close()
		status <- resp.StatusCode
	}()
	<-sent
	resp, err := http.Get(s.URL() + "/api/v1/executions/" + id) // comes behind it
	if err != nil {
		s.t.Fatal(err)
	}
	resp.Body.Close()
	return status
}

func TestServerSendsFollowersAway(t *testing.T) {
	g := newGate()
	s := serve(t, filepath.Join(t.TempDir(), "a.db"), g, func(o *app.ServerOptions) { o.StopAfter = 10 * time.Millisecond })
	id := s.begin(g)
	resp, err := http.Get(s.URL() + "/api/v1/executions/" + id + "/events")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	waited := s.waits(id)
	begun := time.Now()
	s.Drain()
	s.ended()
	if got := <-waited; got != http.StatusOK {
		t.Errorf("who waits for the end is answered %d", got)
	}
	if took := time.Since(begun); took > 4*time.Second { // closePatience is 5
		t.Errorf("the stop took %s", took)
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil || !strings.Contains(string(text), "id: ") || !strings.Contains(string(text), `"type":"snapshot"`) {
		t.Errorf("got %q, %v", text, err)
	}
}
