package client

import (
	"context"
	"io"
	"net/http"
)

// Local returns a client of an API in this process, such as api.NewLocal's.
func Local(h http.Handler) *Client {
	return &Client{base: "http://localhost", http: &http.Client{Transport: InProcess(h)}}
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
