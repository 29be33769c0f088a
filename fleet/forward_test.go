package fleet_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/fleet"
	"github.com/stepwell/stepwell/store/postgres/postgrestest"
)

// door is the HTTP side of a node, which may be cut off.
type door struct {
	mu      sync.Mutex
	handler http.Handler
	seen    []*http.Request
	bodies  [][]byte
}

func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(raw))
	d.mu.Lock()
	h := d.handler
	d.seen, d.bodies = append(d.seen, r), append(d.bodies, raw)
	d.mu.Unlock()
	h.ServeHTTP(w, r)
}

// routed is a member that other nodes can reach.
type routed struct {
	*member
	*fleet.Router
	door   *door
	server *httptest.Server
}

var key = bytes.Repeat([]byte("k"), 32)

func route(t *testing.T, url string, p parts) *routed {
	t.Helper()
	d := &door{}
	server := httptest.NewServer(d)
	t.Cleanup(server.Close)
	p.address = server.URL
	m := join(t, url, p)
	r, err := fleet.NewRouter(m.node, fleet.RouterOptions{Control: m.Conductor, Store: m.store, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.handler = r
	return &routed{m, r, d, server}
}

// routedPair makes two nodes, of which a runs an execution until its gate is opened.
func routedPair(t *testing.T) (url string, g *gate, a, b *routed, id string) {
	t.Helper()
	url, g = database(t), newGate()
	p := parts{lease: time.Hour, beat: 50 * time.Millisecond}
	p.actions = append(p.actions, g.action())
	a, b = route(t, url, p), route(t, url, p)
	id = a.begin(t, gated)
	<-g.begun
	return url, g, a, b, id
}

func (r *routed) arrivals() int {
	r.door.mu.Lock()
	defer r.door.mu.Unlock()
	return len(r.door.seen)
}

func wantCode(t *testing.T, what string, err error, code stepwell.Code) {
	t.Helper()
	if stepwell.CodeOf(err) != code {
		t.Errorf("%s: %v, want code %q", what, err, code)
	}
}

// Every node takes requests for every execution: they are carried out by its owner, and the errors are the owner's. An ended
// execution is restarted by the node that is asked.
func TestForward(t *testing.T) {
	_, g, a, b, id := routedPair(t)
	if err := b.Router.Pause(t.Context(), id[:30]); err != nil {
		t.Fatal(err)
	}
	if x, err := a.store.Execution(t.Context(), id); err != nil || x.Status != stepwell.ExecutionPaused {
		t.Errorf("%+v, %v", x, err)
	}
	wantCode(t, "a restart of a step that is not there", b.Router.Restart(t.Context(), id, "zzz", false), stepwell.CodeOf(a.Conductor.Restart(t.Context(), id, "zzz", false)))
	wantCode(t, "an unknown execution", b.Router.Cancel(t.Context(), "0190ffff", ""), stepwell.CodeNotFound)
	if err := b.Router.Resume(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if err := b.Router.Cancel(t.Context(), id, "enough"); err != nil {
		t.Fatal(err)
	}
	x := b.ended(t, id, stepwell.ExecutionCancelled)
	if x.Failure == nil || !strings.Contains(x.Failure.Message, "enough") {
		t.Errorf("%+v", x.Failure)
	}
	if n := a.arrivals(); n != 4 {
		t.Errorf("%d requests were forwarded, want 4", n)
	}
	if err := b.Router.Restart(t.Context(), id, "a", false); err != nil {
		t.Fatal(err)
	}
	if owner := b.owner(t, id); owner != b.node.No() || a.arrivals() != 4 {
		t.Errorf("owner %d", owner)
	}
	close(g.open)
	b.ended(t, id, stepwell.ExecutionCompleted)
}

// A request follows an execution that has moved: what a node remembers of owners is no more than a hint.
func TestForwardFollows(t *testing.T) {
	url := database(t)
	p := parts{lease: time.Hour, beat: 50 * time.Millisecond}
	g := newGate()
	p.actions = append(p.actions, g.action())
	a, b, c := route(t, url, p), route(t, url, p), route(t, url, p)
	id := a.begin(t, gated)
	<-g.begun
	until(t, "b to know the others", func() bool { return b.Router.Pause(t.Context(), id) == nil && b.node.Mine(t.Context(), id) != nil })
	other := a.begin(t, gated)
	<-g.begun
	if err := b.Router.Resume(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	if err := a.stop(); err != nil {
		t.Fatal(err)
	}
	a.server.Close()
	for _, x := range []string{id, other} {
		until(t, "a new owner", func() bool { owner := c.owner(t, x); return owner == b.node.No() || owner == c.node.No() })
		for _, r := range []*routed{b, c} {
			if err := r.Router.Cancel(t.Context(), x, ""); err != nil {
				t.Error(err)
			}
		}
		b.ended(t, x, stepwell.ExecutionCancelled)
	}
}

// The owner of an execution is dead: the request is to come again, and nothing is left anywhere. The owner lives and cannot be
// reached: it gets the request through the store.
func TestForwardToUnreachable(t *testing.T) {
	url, g, a, b, id := routedPair(t)
	a.server.Close()
	if err := b.Router.Cancel(t.Context(), id, "through the store"); err != nil {
		t.Fatal(err)
	}
	b.TakeRequests(t.Context()) // it is not b's
	if x, err := b.store.Execution(t.Context(), id); err != nil || x.Status != stepwell.ExecutionRunning {
		t.Errorf("%+v, %v", x, err)
	}
	a.TakeRequests(t.Context())
	b.ended(t, id, stepwell.ExecutionCancelled)

	dead, _, err := b.store.Join(t.Context(), "http://127.0.0.1:1", time.Microsecond)
	if err != nil {
		t.Fatal(err)
	}
	id = a.begin(t, gated)
	<-g.begun
	give(t, url, dead)
	err = b.Router.Cancel(t.Context(), id, "")
	wantCode(t, "a dead owner", err, stepwell.CodeUnavailable)
	if !strings.Contains(stepwell.HintOf(err), fleet.RetryAfter.String()) {
		t.Errorf("hint %q", stepwell.HintOf(err))
	}
	if list, err := b.store.TakeRequests(t.Context(), dead, 9); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
	give(t, url, a.node.No())
	close(g.open)
	a.ended(t, id, stepwell.ExecutionCompleted)
}

// Only nodes are listened to, and only to what they say now: a request that is not signed, changed, old, or for another node has no
// effect.
func TestForwardIsSigned(t *testing.T) {
	_, _, a, b, id := routedPair(t)
	if err := b.Router.Pause(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	header, body := a.door.seen[0].Header, a.door.bodies[0]
	post := func(to *routed, body []byte, change func(http.Header)) (status int, answer string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, to.server.URL+fleet.Path, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = header.Clone()
		change(req.Header)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		raw, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(raw)
	}
	same := func(http.Header) {}
	if status, answer := post(a, body, same); status != http.StatusOK || answer != "{}" {
		t.Errorf("the same again: %d, %s", status, answer)
	}
	if status, answer := post(b, body, same); status != http.StatusOK || answer != `{"other":true}` {
		t.Errorf("to another node: %d, %s", status, answer)
	}
	if status, _ := post(a, bytes.Replace(body, []byte("pause"), []byte("cancel"), 1), same); status != http.StatusUnauthorized {
		t.Errorf("changed: %d", status)
	}
	if status, _ := post(a, body, func(h http.Header) { h.Del("Stepwell-Signature") }); status != http.StatusUnauthorized {
		t.Errorf("unsigned: %d", status)
	}
	if status, _ := post(a, bytes.Repeat([]byte("x"), 2<<20), same); status != http.StatusUnauthorized {
		t.Errorf("large: %d", status)
	}
	stranger, err := fleet.NewRouter(b.node, fleet.RouterOptions{Control: b.Conductor, Store: b.store, Key: bytes.Repeat([]byte("x"), 32)})
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, "a restart by one with another key", stranger.Restart(t.Context(), id, "", false), stepwell.CodeUnavailable)
	if x, err := a.store.Execution(t.Context(), id); err != nil || x.Status != stepwell.ExecutionPaused {
		t.Errorf("%+v, %v", x, err)
	}
	if _, err := fleet.NewRouter(b.node, fleet.RouterOptions{Control: b.Conductor, Store: b.store, Key: []byte("short")}); err == nil {
		t.Error("a short key was taken")
	}
	if err := b.Router.Cancel(t.Context(), id, ""); err != nil {
		t.Fatal(err)
	}
	b.ended(t, id, stepwell.ExecutionCancelled)
}

// An owner's answer does not come in time: the caller's own end is the error, and a restart is not repeated through the store.
func TestForwardAnswerLost(t *testing.T) {
	_, g, a, b, id := routedPair(t)
	a.door.mu.Lock()
	a.door.handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	a.door.mu.Unlock()
	wantCode(t, "a restart", b.Router.Restart(t.Context(), id, "", false), stepwell.CodeUnavailable)
	if err := b.Router.Pause(t.Context(), id); err != nil {
		t.Errorf("a pause: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Router.Pause(ctx, id); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that is gone: %v", err)
	}
	list, err := a.store.TakeRequests(t.Context(), a.node.No(), 9)
	if err != nil || len(list) != 1 || list[0].Kind != conductor.RequestPause {
		t.Errorf("%+v, %v", list, err)
	}
	close(g.open)
	a.ended(t, id, stepwell.ExecutionCompleted)
}

// give makes a node the owner of all executions that run.
func give(t *testing.T, url string, owner int64) {
	t.Helper()
	if err := postgrestest.Exec(url, fmt.Sprint("UPDATE execution_live SET owner = ", owner)); err != nil {
		t.Fatal(err)
	}
}

// A worker's call reaches the owner of its execution, however large it is, and the owner's answer comes back. An owner that serves
// none, such as one of an older version, refuses nothing in the worker's name.
func TestForwardCall(t *testing.T) {
	_, g, a, b, id := routedPair(t)
	call := []byte(`{"call":"turn","body":"` + strings.Repeat("x", 2<<20) + `"}`)
	_, err := b.Router.Call(t.Context(), id, call)
	wantCode(t, "an owner that serves none", err, stepwell.CodeUnavailable)
	serving, err := fleet.NewRouter(a.node, fleet.RouterOptions{Control: a.Conductor, Store: a.store, Key: key, Serve: func(_ context.Context, call []byte) ([]byte, error) {
		return fmt.Appendf(nil, `{"bytes":%d}`, len(call)), nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	a.door.mu.Lock()
	a.door.handler = serving
	a.door.mu.Unlock()
	if answer, err := b.Router.Call(t.Context(), id, call); err != nil || string(answer) != fmt.Sprintf(`{"bytes":%d}`, len(call)) {
		t.Errorf("%s, %v", answer, err)
	}
	_, err = a.Router.Call(t.Context(), id, call)
	wantCode(t, "a call at the owner itself", err, stepwell.CodeUnavailable)
	a.server.Close()
	_, err = b.Router.Call(t.Context(), id, call)
	wantCode(t, "an owner that cannot be reached", err, stepwell.CodeUnavailable)
	close(g.open)
	a.ended(t, id, stepwell.ExecutionCompleted)
}
