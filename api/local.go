package api

import (
	"bytes"
	"context"
	"io"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/stepwell/stepwell/access"
)

// NewLocal returns a client of the API in this process, for a command that works on a database by itself. Its caller is
// the process's own user: there is no authentication and no limit of size, number or time, and errors are shown in
// full. Only Store, Blobs and Catalog are required; able must refuse operations that need anything else. An operation
// is described on first use: describing all of them takes longer than most commands.
func NewLocal(o Options, able func(operation string, changes bool) error) (*Client, error) {
	s := &server{o: o, able: able, mux: http.NewServeMux(), local: http.NewServeMux(), ops: map[string]*operation{}, todo: map[string]bool{}}
	s.o.complete()
	s.build()
	return &Client{base: "http://localhost", http: &http.Client{Transport: inProcess{s.outer()}}}, nil
}

// offer describes an operation when it is first asked for. Requests may come at once: the descriptions share a registry.
func (s *server) offer(op *operation, register func()) {
	described := false
	s.local.HandleFunc(op.method+" "+op.path, func(w http.ResponseWriter, r *http.Request) {
		s.offering.Lock()
		if !described && register != nil {
			register()
		}
		described = true
		s.offering.Unlock()
		s.mux.ServeHTTP(w, r)
	})
}

// serveLocal is the guard of an operation in this process.
func (s *server) serveLocal(op *operation, hc huma.Context, next func(huma.Context)) {
	r, w := humago.Unwrap(hc)
	c := callOf(r.Context())
	c.op = op.id
	err := s.able(op.id, op.is(changes))
	if err == nil && !op.is(streams) {
		c.body, err = io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(c.body))
	}
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	p := access.Principal{Name: "command", Role: access.Admin}
	out := &outcome{humaContext: huma.WithContext(hc, access.With(r.Context(), p))}
	next(out)
	if op.is(changes) {
		s.record(op, c, r, p, out.code(c))
	}
}

// InProcess sends requests to a handler instead of over a network. An answer is read while it is written.
func InProcess(h http.Handler) http.RoundTripper { return inProcess{h} }

type inProcess struct{ handler http.Handler }

// RoundTrip implements http.RoundTripper.
func (t inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	r = r.Clone(ctx)
	if r.Body == nil {
		r.Body = http.NoBody
	}
	body, out := io.Pipe()
	w := &pipedAnswer{header: http.Header{}, out: out, begun: make(chan struct{})}
	go func() {
		defer cancel()
		defer out.Close() //nolint:errcheck // never fails
		t.handler.ServeHTTP(w, r)
		w.WriteHeader(http.StatusOK)
	}()
	<-w.begun
	return &http.Response{StatusCode: w.status, Status: http.StatusText(w.status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: w.sent, Body: readAnswer{body, cancel}, Request: r}, nil
}

// readAnswer ends the request when its answer is closed.
type readAnswer struct {
	*io.PipeReader
	cancel func()
}

func (a readAnswer) Close() error {
	a.cancel()
	return a.PipeReader.Close()
}

// pipedAnswer is a ResponseWriter that hands over its status with the first write.
type pipedAnswer struct {
	header, sent http.Header
	out          *io.PipeWriter
	status       int
	begun        chan struct{}
}

func (w *pipedAnswer) Header() http.Header { return w.header }

func (w *pipedAnswer) WriteHeader(status int) {
	if w.status == 0 {
		w.status, w.sent = status, w.header.Clone()
		close(w.begun)
	}
}

func (w *pipedAnswer) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.out.Write(b)
}

// Flush implements http.Flusher: nothing is held back.
func (w *pipedAnswer) Flush() { w.WriteHeader(http.StatusOK) }
