package api

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"path"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
)

// call is the state of a request while it is served. One goroutine uses it.
type call struct {
	id      string
	op      string // "" until it is known
	body    []byte
	request *http.Request
	object  string         // the changed object, for the audit log
	actor   string         // the author, when there is no principal; "" otherwise
	detail  map[string]any // more for the audit log
	code    stepwell.Code  // of the error that was answered
	start   time.Time
	local   bool // the caller is this process
	// unprocessable: an answer of status 422 stays that (see outcome).
	unprocessable bool
}

// note puts something more into the audit log: texts, lists of texts and objects of them.
func (c *call) note(name string, value any) {
	if c.detail == nil {
		c.detail = map[string]any{}
	}
	c.detail[name] = value
}

type callKey struct{}

// callOf finds the call of a context; there always is one below outer.
func callOf(ctx context.Context) *call {
	c, ok := ctx.Value(callKey{}).(*call)
	if !ok {
		return &call{}
	}
	return c
}

// link says which trace an execution belongs to that the request has started.
func (s *server) link(ctx context.Context, execution string) {
	if r := callOf(ctx).request; r != nil && r.Header.Get("Traceparent") != "" {
		s.o.Link(execution, r.Header.Get("Traceparent"))
	}
}

func requestID(ctx context.Context) string { return callOf(ctx).id }

const maxRequestID = 64

// idOf takes over the client's X-Request-ID if it is harmless, or makes one.
func idOf(r *http.Request) string {
	id := r.Header.Get("X-Request-ID")
	harmless := func(c rune) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-_.", c)
	}
	if id == "" || len(id) > maxRequestID || strings.ContainsFunc(id, func(c rune) bool { return !harmless(c) }) {
		return strings.ToLower(rand.Text())
	}
	return id
}

// outer is the outermost handler of every request.
func (s *server) outer() http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w := &watched{ResponseWriter: rw}
		c := &call{id: idOf(r), start: time.Now(), local: s.local != nil}
		r = r.WithContext(context.WithValue(r.Context(), callKey{}, c))
		c.request = r
		h := w.Header()
		h.Set("X-Request-ID", c.id)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		defer s.finish(w, r, c)
		if !s.cors(w, r) {
			s.route(w, r)
		}
	})
}

// cors lets pages of allowed origins use the API and answers their browsers' preflight requests. Without allowed
// origins it does nothing.
func (s *server) cors(w http.ResponseWriter, r *http.Request) (answered bool) {
	origin := r.Header.Get("Origin")
	if origin == "" || !slices.Contains(s.o.Origins, origin) {
		return false
	}
	h := w.Header()
	h.Add("Vary", "Origin")
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", "ETag, Location, Retry-After, X-Request-ID, Accept-Ranges, Content-Disposition, Content-Range, Tus-Extension, Tus-Max-Size, Tus-Resumable, Tus-Version, Upload-Expires, Upload-Length, Upload-Metadata, Upload-Offset")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, PATCH, DELETE")
	h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, Last-Event-ID, X-API-Key, X-Request-ID, Range, Tus-Resumable, Upload-Checksum, Upload-Length, Upload-Metadata, Upload-Offset")
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return true
}

// finish turns a panic into an answer, and informs observers.
func (s *server) finish(w *watched, r *http.Request, c *call) {
	if v := recover(); v != nil && v != http.ErrAbortHandler {
		s.o.Log.Error("a request panicked", "request", c.id, "operation", c.op, "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
		if w.status == 0 {
			s.refuse(w, r, fmt.Errorf("panic: %v", v))
		}
	}
	s.o.Observe(c.op, r.Method, w.status, time.Since(c.start))
}

// route finds the operation. net/http's own errors are answered as a Problem, and a path is taken literally: empty or
// dotted parts match nothing.
func (s *server) route(w http.ResponseWriter, r *http.Request) {
	if p := r.URL.EscapedPath(); p != "/" && path.Clean(p) != p {
		s.refuse(w, r, notFound("there is nothing at %s", stepwell.Clip(r.URL.Path, 200)))
		return
	}
	mux := s.mux
	if s.local != nil {
		mux = s.local
	}
	handler, pattern := mux.Handler(r)
	if pattern != "" {
		mux.ServeHTTP(w, r)
		return
	}
	probe := &probe{header: http.Header{}}
	handler.ServeHTTP(probe, r)
	if allow := probe.header.Get("Allow"); probe.status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", allow)
		p := &Problem{Code: stepwell.CodeInvalid, Message: r.Method + " is not possible here", Hint: "possible: " + allow, Details: []Detail{}, status: probe.status}
		s.write(w, p.bounded())
		return
	}
	if s.pages != nil && s.ofPage(r) {
		s.pages.ServeHTTP(w, r)
		return
	}
	if r.URL.Path == "/" && strings.Contains(r.Header.Get("Accept"), "text/html") { // a browser, and no pages
		http.Redirect(w, r, "/docs", http.StatusFound)
		return
	}
	s.refuse(w, r, stepwell.Errorf(stepwell.CodeNotFound, "the API is described at /docs", "there is nothing at %s", stepwell.Clip(r.URL.Path, 200)))
}

// ofPage reports whether a request is one of a browser for the pages: for a file of theirs, or for any address that is none of the
// API's.
func (s *server) ofPage(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	if strings.HasPrefix(r.URL.Path, "/assets/") {
		return true
	}
	return strings.Contains(r.Header.Get("Accept"), "text/html") && !strings.HasPrefix(r.URL.Path, "/api/")
}

// refuse answers an error.
func (s *server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	s.write(w, problemOf(r.Context(), s.o.Log, err))
}

// write sends a Problem.
func (s *server) write(w http.ResponseWriter, p *Problem) {
	p = s.hidden(p)
	for name, values := range p.GetHeaders() {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Type", "application/json")
	var body bytes.Buffer
	if err := marshal(&body, p); err != nil { // strings and numbers only
		body = *bytes.NewBufferString(`{"code":"internal","message":"an internal error","hint":"","details":[]}`)
	}
	w.Header().Set("Content-Length", strconv.Itoa(body.Len()))
	w.WriteHeader(p.status)
	_, _ = w.Write(body.Bytes()) // the client may have gone
}

// probe catches net/http's own answer.
type probe struct {
	header http.Header
	status int
}

func (p *probe) Header() http.Header         { return p.header }
func (p *probe) WriteHeader(status int)      { p.status = status }
func (p *probe) Write(b []byte) (int, error) { return len(b), nil }

// watched remembers the status.
type watched struct {
	http.ResponseWriter
	status int
}

func (w *watched) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *watched) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w *watched) Unwrap() http.ResponseWriter { return w.ResponseWriter }
