package api_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
)

// half sends a request with half a body, and goes on holding the connection.
func (r *rig) half(method, path, role string) net.Conn {
	r.t.Helper()
	c, err := net.Dial("tcp", r.server.Listener.Addr().String())
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = c.Close() })
	head := method + " " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n"
	if role != "" {
		head += "Authorization: Bearer " + role + "\r\n"
	}
	if _, err := c.Write([]byte(head + "\r\n{\"half\": ")); err != nil {
		r.t.Fatal(err)
	}
	return c
}

// Requests of which half a body has come hold no place: while 2,000 of them hang, everything else is answered.
func TestHalfSentBodies(t *testing.T) {
	r := newRig(t, func(o *api.Options) { o.MaxRequests = 4 })
	id := r.run(greeting, map[string]any{"who": "Ann"})
	token := callbacks{}.token("callback:" + id + "/none#1")
	for i := range 2000 {
		switch i % 3 {
		case 0:
			r.half("POST", "/api/v1/callbacks/"+token, "")
		case 1:
			r.half("POST", "/api/v1/execute", "operator")
		case 2:
			r.half("POST", "/api/v1/pipelines/validate", "viewer")
		}
	}
	for range 10 {
		r.do("", "GET", "/api/v1/health", nil).is(200)
		r.do("", "GET", "/api/v1/ready", nil).is(200)
		r.do("viewer", "GET", "/api/v1/executions/"+id, nil).is(200)
		r.do("viewer", "POST", "/api/v1/pipelines/validate", map[string]any{"document": "name: p\nsteps: [{id: a, action: util.noop}]\n"}).is(200)
		r.do("editor", "POST", "/api/v1/execute", map[string]any{"action_type": "util.noop"}).is(201)
		r.do("", "POST", "/api/v1/callbacks/"+token, map[string]any{"n": 1}).is(200)
	}
}

// An unauthenticated caller is refused before the body is read, and a body that never ends is given up.
func TestUnknownCallersAreAnsweredAtOnce(t *testing.T) {
	r := newRig(t, func(o *api.Options) { o.Timeout = 2 * time.Second })
	w := r.do("editor", "POST", "/api/v1/webhooks", `{"webhook_id": "w", "callback": {"action_type": "util.noop"}}`).is(201).object()
	for path, status := range map[string]int{"/api/v1/callbacks/nosuch": 404, w["path"].(string): 401, "/api/v1/webhooks/nosuch/trigger": 404, "/api/v1/execute": 401, "/nosuch": 404, "/docs": 405} {
		c := r.half("POST", path, "")
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if _, err := io.ReadAll(res.Body); err != nil || res.StatusCode != status || !res.Close {
			t.Errorf("%s: %d, %v, close %t", path, res.StatusCode, err, res.Close)
		}
	}
	c := r.half("POST", "/api/v1/execute", "operator")
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || res.StatusCode != 408 {
		t.Fatalf("a body that does not come: %v, %v", res, err)
	}
	if _, err := io.Copy(io.Discard, c); err != nil { // the server closes the connection
		t.Error(err)
	}
}

// A client that sends more than may be is told so, and not cut off while it sends.
func TestLargeBodyIsToldSo(t *testing.T) {
	r := newRig(t)
	token := callbacks{}.token("callback:x/none#1")
	for name, length := range map[string]bool{"with a length": true, "in chunks": false} {
		c, err := net.Dial("tcp", r.server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		body := bytes.Repeat([]byte("x"), 5<<20)
		head := "POST /api/v1/callbacks/" + token + " HTTP/1.1\r\nHost: 127.0.0.1\r\n"
		if length {
			head += "Content-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n"
		} else {
			head += "Transfer-Encoding: chunked\r\n\r\n" + fmt.Sprintf("%x\r\n", len(body))
		}
		if _, err := c.Write([]byte(head)); err != nil {
			t.Fatal(err)
		}
		if n, err := c.Write(body); err != nil { // a client that reads nothing before it has sent everything
			t.Fatalf("%s: cut off after %d bytes: %v", name, n, err)
		}
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || res.StatusCode != http.StatusRequestEntityTooLarge {
			t.Fatalf("%s: %v, %v", name, res, err)
		}
	}
	r.do("", "POST", "/api/v1/callbacks/"+token, `"`+strings.Repeat("x", 5<<20)+`"`).problem(413, stepwell.CodeLimit)
	r.do("", "POST", "/api/v1/callbacks/nosuch", `"`+strings.Repeat("x", 5<<20)+`"`).problem(404, stepwell.CodeNotFound)
}

// Bodies take bounded memory: of the caller who has most under way, the oldest is given up.
func TestBodiesTakeBoundedMemory(t *testing.T) {
	r := newRig(t, func(o *api.Options) { o.MaxBody, o.MaxBodies = 1<<20, 1 }) // at least four times the largest, which is 16 MiB
	conns := make([]net.Conn, 90)
	for i := range conns {
		conns[i] = r.half("POST", "/api/v1/execute", "operator")
		_, _ = conns[i].Write(make([]byte, 500)) // some are given up meanwhile
	}
	big := strings.Repeat("x", 15<<20)
	open := func() net.Conn {
		c, err := net.Dial("tcp", r.server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_, _ = c.Write([]byte("POST /api/v1/pipelines HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer editor\r\nContent-Length: 16000000\r\n\r\n" + big))
		return c
	}
	first := open()
	for range 5 {
		open()
	}
	res, err := http.ReadResponse(bufio.NewReader(first), nil)
	if err != nil || res.StatusCode != http.StatusServiceUnavailable && res.StatusCode != http.StatusRequestTimeout {
		t.Fatalf("the oldest of the large ones: %v, %v", res, err)
	}
	r.do("editor", "POST", "/api/v1/execute", map[string]any{"action_type": "util.noop"}).is(201)
}

// 300,000 parameters that nobody knows cost at most fifty times what 6,000 cost.
func TestUnknownParamsCost(t *testing.T) {
	r := newRig(t)
	r.do("editor", "POST", "/api/v1/pipelines", `{"document": "name: p\nparameters: [{name: x, type: string, default: a}]\nsteps: [{id: a, action: util.noop}]\n"}`).is(201)
	r.do("editor", "POST", "/api/v1/scheduler/jobs", `{"job_id": "p", "schedule": {"type": "manual"}, "callback": {"workflow_id": "p"}}`).is(201)
	body := func(target string, n int) string {
		var b strings.Builder
		b.WriteString(`{` + target + `, "params": {`)
		for i := range n {
			fmt.Fprintf(&b, `"p%d": 1,`, i)
		}
		return b.String() + `"x": "y"}}`
	}
	for target, status := range map[string]int{`"workflow_id": "p"`: 400, `"action_type": "util.noop"`: 400, `"job_id": "p"`: 0} {
		work := func(n int) uint64 {
			text := body(target, n)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			got := r.do("editor", "POST", "/api/v1/execute", text)
			runtime.ReadMemStats(&after)
			if n > 10_000 && status != 0 {
				got.is(status)
			} else {
				got.is(201)
			}
			return after.Mallocs - before.Mallocs
		}
		few := work(6000)
		if many := work(300_000); many > 50*few {
			t.Errorf("%s: 300,000 take %d allocations, 6,000 take %d", target, many, few)
		}
	}
}
