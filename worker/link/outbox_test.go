package link_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path"
	"sync"
	"testing"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/desk/wire"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/worker/link"
)

// fakeNode hands out one step after the other, and takes every outcome but that of the first, whose execution another node runs.
type fakeNode struct {
	mu    sync.Mutex
	given int
	done  int
	seen  int // offers of the first outcome
	over  chan struct{}
}

const fakeTasks = 200

func (f *fakeNode) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var out any = struct{}{}
	switch path.Base(r.URL.Path) {
	case "join":
		out = wire.Joined{Node: "fake", LeaseSeconds: 15}
	case "turn":
		var in wire.Turn
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		out = f.turn(&in)
	default:
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out) // the test waits for what follows
}

func (f *fakeNode) turn(in *wire.Turn) (out wire.Turned) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range in.Outcomes {
		if in.Outcomes[i].StepID == fakeStep(0) {
			f.seen++
			continue
		}
		f.done++
		out.Committed = append(out.Committed, in.Outcomes[i].ID)
	}
	if f.done == fakeTasks && f.given > fakeTasks {
		close(f.over)
		f.given = -1
	}
	// The second follows when the first has been offered a few times, each other when the one before it has ended.
	if in.Want > 0 && (f.given == 0 || f.given > 0 && f.given <= fakeTasks && f.seen > 4 && f.done == f.given-1) {
		out.Tasks = []wire.Task{{ID: wire.ID{StepID: fakeStep(f.given), Epoch: 1}, StepName: "s", Action: "t.any", Params: json.RawMessage(`{}`)}}
		f.given++
	}
	return out
}

func fakeStep(n int) string { return wire.Step("01a206df-e516-745d-97ba-9ea316def447", int32(n)) }

// work runs a worker w of the action t.any until stop, which waits for its end.
func work(t *testing.T, node string, concurrency int, handler action.HandlerFunc) (stop func()) {
	t.Helper()
	r := &action.Registry{}
	if err := r.Add(action.Action{Spec: spec.Spec{Name: "t.any", Summary: "For tests.", OpenParams: true}, Handler: handler}); err != nil {
		t.Fatal(err)
	}
	w, err := link.New(link.Options{Nodes: []string{node}, Name: "w", Actions: r, Concurrency: concurrency, Grace: 1, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- w.Run(ctx) }()
	return func() { end(); <-ran }
}

// An outcome that the node cannot take now keeps no other outcome waiting.
func TestOutcomesDoNotWaitForEachOther(t *testing.T) {
	f := &fakeNode{over: make(chan struct{})}
	server := httptest.NewServer(f)
	defer server.Close()
	stop := work(t, server.URL, 2, func(_ context.Context, c *action.Call) (any, error) { return c.Params, nil })
	<-f.over
	stop()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.seen > fakeTasks/2 { // with pauses of up to 2 s in between
		t.Errorf("the outcome that is not taken was offered %d times, with %d others", f.seen, f.done)
	}
}

// A node may give a worker another name when it joins. All that follows is said under it, also what was on its way to be said.
func TestAnotherName(t *testing.T) {
	said := make(chan string, 1000)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if path.Base(r.URL.Path) == "join" {
			_ = json.NewEncoder(w).Encode(wire.Joined{Node: "fake", Worker: "w~2", LeaseSeconds: 15}) // the test waits for what follows
			return
		}
		var in wire.Turn
		if err := json.NewDecoder(r.Body).Decode(&in); err == nil {
			said <- in.Worker
		}
		<-r.Context().Done()
	}))
	defer server.Close()
	stop := work(t, server.URL, 0, func(context.Context, *action.Call) (any, error) { return nil, nil })
	if name := <-said; name != "w~2" {
		t.Errorf("the first turn is that of %q", name)
	}
	stop()
}
