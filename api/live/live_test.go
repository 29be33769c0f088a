package live_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api/live"
	"github.com/stepwell/stepwell/feed"
)

func TestWebSocketTellsAllAndCloses(t *testing.T) {
	r := newRig(t, feed.Options{}, live.Options{})
	x := r.Begin(3)
	c := r.dial(t, x.ID, "")
	x.Lines(1200, "info", "debug")
	x.Complete(1)
	r.hub.Notify(x.No, false)
	x.Lines(7)
	x.End()
	r.hub.Notify(x.No, true)
	got, end := rest(t, c)
	n := kinds(got)
	if n["snapshot"] != 1 || n["log"] != 1207 || n["status"] != 9 || n["complete"] != 1 || end.Code != websocket.StatusNormalClosure {
		t.Errorf("told: %v, then %+v", n, end)
	}
	last := got[len(got)-1]
	if got[0].Type != "snapshot" || last.Type != "complete" || last.Data.Status != "completed" || string(last.Data.Result) != `{"answer":42}` {
		t.Errorf("first %+v, last %+v", got[0], last)
	}
	for _, m := range got {
		if m.Type == "log" && (m.Data.StepID == nil || m.Data.Level == "" || m.Data.Message == "" || m.Data.Timestamp.IsZero()) {
			t.Fatalf("a line without its parts: %+v", m)
		}
	}
	filtered, _ := rest(t, r.dial(t, x.ID, "?level=info&step_id=s0"))
	if n := kinds(filtered); n["log"] != 600 || n["status"] != 3 {
		t.Errorf("filtered: %v", n)
	}
	late, _ := rest(t, r.dial(t, x.ID, "?since="+got[500].Seq))
	if len(late) != len(got)-500 || late[1].Seq != got[501].Seq {
		t.Errorf("since %s: %d messages, first %s, want %s", got[500].Seq, len(late), late[1].Seq, got[501].Seq)
	}
}

func TestWebSocketRefusals(t *testing.T) {
	r := newRig(t, feed.Options{}, live.Options{})
	x := r.Begin(3)
	for path, want := range map[string]struct {
		status int
		code   stepwell.Code
	}{
		"/executions/none/logs/stream":                    {404, stepwell.CodeNotFound},
		"/executions/" + x.ID + "/logs/stream?since=soon": {400, stepwell.CodeInvalid},
		"/executions/" + x.ID + "/events?level=loud":      {400, stepwell.CodeInvalid},
	} {
		resp, err := http.Get(r.url + path)
		if err != nil {
			t.Fatal(err)
		}
		var e stepwell.Error
		err = json.NewDecoder(resp.Body).Decode(&e)
		resp.Body.Close()
		if err != nil || resp.StatusCode != want.status || e.Code != want.code || e.Message == "" {
			t.Errorf("%s: %d %+v %v", path, resp.StatusCode, e, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, resp, err := websocket.Dial(ctx, strings.Replace(r.url, "http", "ws", 1)+"/executions/"+x.ID+"/logs/stream",
		&websocket.DialOptions{HTTPHeader: http.Header{"Origin": {"https://elsewhere.example"}}})
	if err == nil || resp.StatusCode != http.StatusForbidden {
		t.Errorf("a page of another origin: %v %v", resp, err)
	}
	if n := r.hub.Subscriptions(); n != 0 {
		t.Errorf("%d subscriptions are left", n)
	}
}

func TestClientThatTalksIsClosed(t *testing.T) {
	r := newRig(t, feed.Options{}, live.Options{})
	x := r.Begin(3)
	for name, say := range map[string]func(context.Context, *websocket.Conn) error{
		"garbage": func(ctx context.Context, c *websocket.Conn) error {
			return c.Write(ctx, websocket.MessageBinary, []byte{0, 1, 2, 3})
		},
		"much": func(ctx context.Context, c *websocket.Conn) error {
			return c.Write(ctx, websocket.MessageText, make([]byte, 1<<20))
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := r.dial(t, x.ID, "")
			_ = say(t.Context(), c) // it may be closed before all has been said
			for {
				_, err := read(t, c)
				if err == nil {
					continue
				}
				if code := websocket.CloseStatus(err); code != websocket.StatusPolicyViolation && name == "garbage" {
					t.Errorf("closed with %v", err)
				}
				break
			}
		})
	}
	waitFor(t, r.hub, 0)
}

// TestFloodOfPings: each ping is allowed, so many are not.
func TestFloodOfPings(t *testing.T) {
	r := newRig(t, feed.Options{}, live.Options{})
	x := r.Begin(3)
	c := r.dial(t, x.ID, "")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	go func() {
		defer cancel()
		for {
			if _, _, err := c.Read(ctx); err != nil {
				return
			}
		}
	}()
	pings := 0
	for pings < 10_000 && c.Ping(ctx) == nil {
		pings++
	}
	if pings < 100 || pings >= 10_000 {
		t.Errorf("the server took %d pings", pings)
	}
	waitFor(t, r.hub, 0)
}

// waitFor waits until so many subscriptions are open.
func waitFor(t *testing.T, h *feed.Hub, n int) {
	t.Helper()
	for end := time.Now().Add(patience); h.Subscriptions() != n; {
		if time.Now().After(end) {
			t.Fatalf("%d subscriptions are open, want %d", h.Subscriptions(), n)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestSilentClientIsPinged(t *testing.T) {
	r := newRig(t, feed.Options{}, live.Options{Ping: 10 * time.Millisecond, WriteTimeout: 2 * time.Second})
	x := r.Begin(3)
	quiet := r.dial(t, x.ID, "?since=latest") // reads nothing, so it answers no ping
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	pinged := make(chan struct{}, 100)
	c, _, err := websocket.Dial(ctx, strings.Replace(r.url, "http", "ws", 1)+"/executions/"+x.ID+"/logs/stream",
		&websocket.DialOptions{OnPingReceived: func(context.Context, []byte) bool { pinged <- struct{}{}; return true }})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			if _, _, err := c.Read(ctx); err != nil {
				return
			}
		}
	}()
	for range 250 { // longer than a client that does not answer lives
		<-pinged
	}
	waitFor(t, r.hub, 1)
	_ = quiet.CloseNow()
	_ = c.CloseNow()
	waitFor(t, r.hub, 0)
}

func TestServerThatStopsSaysWhereToGoOn(t *testing.T) {
	r := newRig(t, feed.Options{}, live.Options{})
	x := r.Begin(3)
	x.Lines(3)
	c := r.dial(t, x.ID, "")
	var last heard
	for range 5 { // snapshot, queued, three lines
		m, err := read(t, c)
		if err != nil {
			t.Fatal(err)
		}
		last = m
	}
	r.stop()
	_, err := read(t, c)
	if end := closing(t, err); end.Code != websocket.StatusGoingAway || end.Reason != "since="+last.Seq {
		t.Errorf("closed with %+v after %s", end, last.Seq)
	}
}

// stream is an open stream of server-sent events.
type stream struct {
	t    *testing.T
	resp *http.Response
	scan *bufio.Scanner
}

func (r *rig) events(t *testing.T, id, last string) *stream {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+"/executions/"+id+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close(); http.DefaultClient.CloseIdleConnections() })
	return &stream{t: t, resp: resp, scan: bufio.NewScanner(resp.Body)}
}

// next reads an event, its comment, or io.EOF.
func (s *stream) next() (id, name, data, comment string, err error) {
	for s.scan.Scan() {
		line := s.scan.Text()
		field, value, _ := strings.Cut(line, ": ")
		switch {
		case line == "":
			return id, name, data, comment, nil
		case field == "":
			comment = value
		case field == "id":
			id = value
		case field == "event":
			name = value
		case field == "data":
			data = value
		default:
			s.t.Fatalf("a line %q", line)
		}
	}
	return "", "", "", "", io.EOF
}

func TestServerSentEvents(t *testing.T) {
	r := newRig(t, feed.Options{}, live.Options{Ping: 5 * time.Millisecond})
	x := r.Begin(3)
	s := r.events(t, x.ID, "")
	if got := s.resp.Header.Get("Content-Type"); s.resp.StatusCode != 200 || got != "text/event-stream" {
		t.Fatalf("%d %s", s.resp.StatusCode, got)
	}
	for comment := ""; comment == ""; {
		var err error
		if _, _, _, comment, err = s.next(); err != nil {
			t.Fatal("no sign of life")
		}
	}
	x.Lines(400)
	x.End()
	r.hub.Notify(x.No, true)
	var ids []string
	counts := map[string]int{}
	for {
		id, name, data, _, err := s.next()
		if err != nil {
			break
		}
		if name == "" {
			continue
		}
		var m heard
		if err := json.Unmarshal([]byte(data), &m); err != nil || m.Seq != id || m.Type != name {
			t.Fatalf("event %s %s: %s %v", id, name, data, err)
		}
		ids = append(ids, id)
		counts[name]++
	}
	if counts["log"] != 400 || counts["complete"] != 1 {
		t.Fatalf("told: %v", counts)
	}
	again := r.events(t, x.ID, ids[100])
	n := 0
	for _, _, _, _, err := again.next(); err == nil; _, _, _, _, err = again.next() {
		n++
	}
	if n != len(ids)-100 { // the snapshot instead of what it has
		t.Errorf("after event 100 of %d come %d", len(ids), n)
	}
	if end := r.events(t, x.ID, ids[len(ids)-1]); end.resp.StatusCode != http.StatusNoContent {
		t.Errorf("who has everything is answered %d", end.resp.StatusCode)
	}
}
