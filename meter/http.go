package meter

import (
	"net/http"
	"strconv"
	"time"
)

// HTTP measures a handler's requests. The route is the matched pattern of the ServeMux, or "other": put it between
// the mux and any middleware that copies requests. Streams and upgraded connections are counted, but not timed.
func (m *Meter) HTTP(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		a := &answer{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(a, r)
		m.Request(r.Pattern, r.Method, a.status, time.Since(began), a.streams)
	})
}

// Request counts a request that was answered. A stream's duration is not measured.
func (m *Meter) Request(route, method string, status int, took time.Duration, streams bool) {
	if route == "" {
		route = "other"
	}
	m.m.requests.WithLabelValues(route, verb(method), strconv.Itoa(status)).Inc()
	if !streams {
		m.m.requestTime.WithLabelValues(route).Observe(took.Seconds())
	}
}

// verb limits the label values that clients may invent.
func verb(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return method
	}
	return "other"
}

// answer notes how a request is answered.
type answer struct {
	http.ResponseWriter
	status  int
	wrote   bool
	streams bool
}

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	if !a.wrote && (status >= 200 || status == http.StatusSwitchingProtocols) {
		a.wrote, a.status = true, status
		a.streams = status == http.StatusSwitchingProtocols || a.Header().Get("Content-Type") == "text/event-stream"
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (a *answer) Write(p []byte) (int, error) {
	if !a.wrote {
		a.wrote = true
		a.streams = a.Header().Get("Content-Type") == "text/event-stream"
	}
	return a.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach the connection.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
