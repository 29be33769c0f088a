// Package outboundtest has an HTTP server on the loopback interface that misbehaves on request, for the
// tests of whatever sends requests by package outbound.
//
// Each path of Server is one fault; the server counts what reaches it. What ends a fault that has no
// end of its own is the client's leaving, or Close. Test support: imported by tests alone. Stable.
package outboundtest

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Server is the misbehaving server. Its paths:
//
//	/ok              200 {"ok": true}
//	/work            200 after 3 ms
//	/echo            200 with method, headers, query and body of the request as JSON
//	/status/{n}      that status with a JSON body
//	/reset           the connection is reset before a response
//	/close           the connection is closed before a response
//	/half            a body that ends in the middle of its Content-Length
//	/cut             200 with JSON that ends early, correctly framed
//	/silent          no response
//	/stall           headers and one byte, then nothing
//	/drip            one byte every 5 ms, without end
//	/endless         bytes as fast as they are taken, without end
//	/busy            429 with Retry-After as ?after= says: seconds or a date
//	/inside          redirects to a private address
//	/circle          redirects to itself
//	/bomb            a few KiB of gzip that unpack to 1 GiB
//	/html            200 text/html
//	/wrong           HTML that says it is JSON
//	/error           200 {"error": {"message": "overloaded"}}
//	/headers         4 MiB of headers
//	/binary          bytes that are no text
//	/events          server-sent events, ended by [DONE], after which the connection stays open
type Server struct {
	URL string

	http  *httptest.Server
	bomb  []byte
	stop  chan struct{}
	mu    sync.Mutex
	count map[string]int
	now   int
	most  int
}

// New starts a server that ends with the test.
func New(t testing.TB) *Server {
	t.Helper()
	s := &Server{count: map[string]int{}, stop: make(chan struct{}), bomb: bomb(t)}
	s.http = httptest.NewServer(http.HandlerFunc(s.serve))
	s.http.Config.ErrorLog = nil
	s.URL = s.http.URL
	t.Cleanup(s.Close)
	return s
}

// Close ends the server and every fault that goes on.
func (s *Server) Close() {
	select {
	case <-s.stop:
		return
	default:
	}
	close(s.stop)
	s.http.CloseClientConnections()
	s.http.Close()
}

// Count is how many requests for the path have come.
func (s *Server) Count(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count[path]
}

// Most is how many requests were under way at once at most.
func (s *Server) Most() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.count[r.URL.Path]++
	s.now++
	s.most = max(s.most, s.now)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.now--
		s.mu.Unlock()
	}()
	if fault, ok := faults[r.URL.Path]; ok {
		fault(s, w, r)
		return
	}
	if text, ok := strings.CutPrefix(r.URL.Path, "/status/"); ok {
		status, err := strconv.Atoi(text)
		if err == nil {
			reply(w, status, "application/json", fmt.Sprintf(`{"status": %d, "message": "as asked"}`, status))
			return
		}
	}
	http.NotFound(w, r)
}

var faults = map[string]func(*Server, http.ResponseWriter, *http.Request){
	"/ok": func(_ *Server, w http.ResponseWriter, _ *http.Request) {
		reply(w, 200, "application/json", `{"ok": true}`)
	},
	"/work": func(s *Server, w http.ResponseWriter, _ *http.Request) {
		select {
		case <-time.After(3 * time.Millisecond):
		case <-s.stop:
		}
	},
	"/echo":  echo,
	"/reset": func(_ *Server, w http.ResponseWriter, _ *http.Request) { hijack(w, "", true) },
	"/close": func(_ *Server, w http.ResponseWriter, _ *http.Request) { hijack(w, "", false) },
	"/half": func(_ *Server, w http.ResponseWriter, _ *http.Request) {
		hijack(w, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{\"half\": \"", false)
	},
	"/cut": func(_ *Server, w http.ResponseWriter, _ *http.Request) {
		reply(w, 200, "application/json", `{"features": [{"id": 1}, {"id"`)
	},
	"/silent": func(s *Server, _ http.ResponseWriter, r *http.Request) { s.wait(r) },
	"/stall": func(s *Server, w http.ResponseWriter, r *http.Request) {
		reply(w, 200, "text/plain", "x")
		flush(w)
		s.wait(r)
	},
	"/drip":    func(s *Server, w http.ResponseWriter, r *http.Request) { s.pour(w, r, 1, 5*time.Millisecond) },
	"/endless": func(s *Server, w http.ResponseWriter, r *http.Request) { s.pour(w, r, 64<<10, 0) },
	"/busy": func(_ *Server, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", r.URL.Query().Get("after"))
		reply(w, 429, "application/json", `{"error": "slow down"}`)
	},
	"/inside": func(_ *Server, w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://10.255.255.1/latest/meta-data", http.StatusFound)
	},
	"/circle": func(_ *Server, w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/circle", http.StatusFound)
	},
	"/bomb": func(s *Server, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		reply(w, 200, "text/plain", string(s.bomb))
	},
	"/html": func(_ *Server, w http.ResponseWriter, _ *http.Request) {
		reply(w, 200, "text/html", "<html>please log in</html>")
	},
	"/wrong": func(_ *Server, w http.ResponseWriter, _ *http.Request) {
		reply(w, 200, "application/json", "<html>please log in</html>")
	},
	"/error": func(_ *Server, w http.ResponseWriter, _ *http.Request) {
		reply(w, 200, "application/json", `{"error": {"message": "overloaded"}}`)
	},
	"/headers": func(_ *Server, w http.ResponseWriter, _ *http.Request) {
		for i := range 64 {
			w.Header().Set(fmt.Sprintf("X-Filler-%d", i), strings.Repeat("x", 64<<10))
		}
	},
	"/binary": func(_ *Server, w http.ResponseWriter, _ *http.Request) {
		reply(w, 200, "application/octet-stream", "\x00\xff\xfe\x01binary")
	},
	"/events": func(s *Server, w http.ResponseWriter, r *http.Request) {
		reply(w, 200, "text/event-stream", ": hello\n\nevent: delta\nid: 1\ndata: {\"text\": \"Hel\"}\n\nevent: delta\ndata: {\"text\": \"lo\"}\n\n"+
			"data: {\"usage\": {\"prompt_tokens\": 7, \"completion_tokens\": 2}}\n\ndata: [DONE]\n\n")
		flush(w)
		s.wait(r)
	},
}

func reply(w http.ResponseWriter, status int, kind, body string) {
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	io.WriteString(w, body) //nolint:errcheck // the client may have left
}

func flush(w http.ResponseWriter) {
	http.NewResponseController(w).Flush() //nolint:errcheck // the client may have left
}

// wait keeps the connection open until the client leaves.
func (s *Server) wait(r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-s.stop:
	}
}

// pour writes pieces until the client leaves.
func (s *Server) pour(w http.ResponseWriter, r *http.Request, piece int, every time.Duration) {
	w.Header().Set("Content-Type", "text/plain")
	data := bytes.Repeat([]byte("x"), piece)
	tick := time.NewTicker(max(every, time.Microsecond))
	defer tick.Stop()
	for {
		if _, err := w.Write(data); err != nil {
			return
		}
		flush(w)
		select {
		case <-r.Context().Done():
			return
		case <-s.stop:
			return
		case <-tick.C:
		}
	}
}

// hijack writes raw bytes and ends the connection, with a reset if asked.
func hijack(w http.ResponseWriter, raw string, reset bool) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err) // HTTP/1 can
	}
	io.WriteString(conn, raw) //nolint:errcheck // the client may have left
	if tcp, ok := conn.(*net.TCPConn); ok && reset {
		tcp.SetLinger(0) //nolint:errcheck // then it is closed in order, and the test says so
	}
	conn.Close()
}

func echo(_ *Server, w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	raw, err := json.Marshal(map[string]any{"method": r.Method, "headers": r.Header, "query": r.URL.Query(), "body": string(body), "length": r.ContentLength})
	if err != nil {
		panic(err)
	}
	w.Header().Set("X-Request-Id", "request-1")
	w.Header().Set("X-Echo-Authorization", r.Header.Get("Authorization"))
	reply(w, 200, "application/json", string(raw))
}

// bomb packs 1 GiB of zeros; gzip in gzip is not needed for a ratio of a thousand.
func bomb(t testing.TB) []byte {
	t.Helper()
	var once bytes.Buffer
	zip, err := gzip.NewWriterLevel(&once, gzip.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := zip.Write(make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	return bytes.Repeat(once.Bytes(), 1024) // gzip members add up
}
