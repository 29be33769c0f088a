package live_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"

	"github.com/stepwell/stepwell/api/live"
	"github.com/stepwell/stepwell/feed"
	"github.com/stepwell/stepwell/feed/feedtest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http/httptest.(*Server).goServe.func1"))
}

// patience bounds waits that are over at once when all is well.
const patience = time.Minute

// rig is a server with the two streams.
type rig struct {
	*feedtest.World
	hub  *feed.Hub
	url  string
	stop func() // of the hub
}

func newRig(t testing.TB, fo feed.Options, o live.Options) *rig {
	t.Helper()
	r := &rig{World: feedtest.Open(t)}
	fo.Store = r.Store
	var err error
	if r.hub, err = feed.New(fo); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.hub.Run(ctx) }()
	r.stop = func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("hub: %v", err)
		}
		r.stop = func() {}
	}
	mux := http.NewServeMux()
	mux.Handle("GET /executions/{id}/logs/stream", live.WebSocket(r.hub, o))
	mux.Handle("GET /executions/{id}/events", live.Events(r.hub, o))
	server := httptest.NewServer(mux)
	r.url = server.URL
	t.Cleanup(func() { r.stop(); server.Close() })
	return r
}

func (r *rig) dial(t testing.TB, id, query string) *websocket.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, resp, err := websocket.Dial(ctx, strings.Replace(r.url, "http", "ws", 1)+"/executions/"+id+"/logs/stream"+query, nil)
	if err != nil {
		t.Fatalf("dial: %v (%v)", err, resp)
	}
	c.SetReadLimit(1 << 20)
	t.Cleanup(func() { _ = c.CloseNow() })
	return c
}

// heard is a message as a client reads it.
type heard struct {
	Type string `json:"type"`
	Seq  string `json:"seq"`
	Data struct {
		StepID    *string         `json:"step_id"`
		Status    string          `json:"status"`
		Level     string          `json:"level"`
		Message   string          `json:"message"`
		Timestamp time.Time       `json:"timestamp"`
		Result    json.RawMessage `json:"result"`
	} `json:"data"`
}

// read gives the next message, or how the server has closed.
func read(t testing.TB, c *websocket.Conn) (heard, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, raw, err := c.Read(ctx)
	var m heard
	if err == nil {
		err = json.Unmarshal(raw, &m)
	}
	return m, err
}

// kinds counts messages by type.
func kinds(list []heard) map[string]int {
	n := map[string]int{}
	for i := range list {
		n[list[i].Type]++
	}
	return n
}

// rest reads to the end.
func rest(t testing.TB, c *websocket.Conn) ([]heard, websocket.CloseError) {
	t.Helper()
	var out []heard
	for {
		m, err := read(t, c)
		if err != nil {
			return out, closing(t, err)
		}
		out = append(out, m)
	}
}

func closing(t testing.TB, err error) websocket.CloseError {
	t.Helper()
	code := websocket.CloseStatus(err)
	if code == -1 {
		t.Fatalf("the connection ends with %v", err)
	}
	text := err.Error()
	reason := ""
	if _, after, ok := strings.Cut(text, "reason = "); ok {
		if _, err := fmt.Sscanf(after, "%q", &reason); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	return websocket.CloseError{Code: code, Reason: reason}
}
