// Package fakeai is a stand-in for a service with OpenAI's API, for tests and for trying a pipeline without a network, an
// account or costs: `stepwell dev fake-ai`.
//
// The same request gets the same answer: transcripts are made of the hash, size and name of the file, chat answers of the
// hash of the conversation; an answer that has a JSON Schema fits it. Faults come on request (Faults). What was asked
// is at GET /requests, without API keys. Bodies, answers and what is remembered are bounded; nothing is written to
// disk. Experimental.
package fakeai

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Bounds of a request.
const (
	maxBody   = 16 << 20 // of a request but for its file
	maxUpload = 10 << 30 // of a request with a file, which is only hashed
	maxKept   = 256      // requests that /requests tells of
	maxShown  = 64 << 10 // of a body there
)

// Options configure a Server.
type Options struct {
	// Listen is the address. Defaults to 127.0.0.1:0, a port that the system chooses.
	Listen string
	// Key is the API key that requests must have. Defaults to none: any is taken, also none.
	Key string
	// Faults are those of every request that names none itself; see Faults. Defaults to none.
	Faults string
}

// Server answers. It is used by many goroutines.
type Server struct {
	o      Options
	faults faults
	mux    *http.ServeMux

	mu       sync.Mutex
	number   int            // of requests so far
	counts   map[string]int // requests by what counts them for a fault
	requests []*Asked
}

// Asked is one request, as /requests tells of it.
type Asked struct {
	Number      int               `json:"number"`
	Method      string            `json:"method"`
	Path        string            `json:"path"`
	Authorized  bool              `json:"authorized"` // it had an API key
	Idempotency string            `json:"idempotency_key,omitempty"`
	Status      int               `json:"status"`
	Fault       string            `json:"fault,omitempty"` // that answered
	Body        json.RawMessage   `json:"body,omitempty"`  // JSON of at most 64 KiB
	Form        map[string]string `json:"form,omitempty"`  // of a form, without its file
	File        *File             `json:"file,omitempty"`
}

// File is a file that was sent.
type File struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// New makes a Server; a fault that there is not is CodeInvalid.
func New(o Options) (*Server, error) {
	f, err := parseFaults(o.Faults)
	if err != nil {
		return nil, err
	}
	s := &Server{o: o, faults: f, mux: http.NewServeMux(), counts: map[string]int{}}
	s.mux.HandleFunc("POST /v1/chat/completions", s.answering(s.chat))
	s.mux.HandleFunc("POST /v1/audio/transcriptions", s.answering(s.transcribe))
	s.mux.HandleFunc("GET /v1/models", s.answering(s.listModels))
	s.mux.HandleFunc("GET /v1/models/{model}", s.answering(s.getModel))
	s.mux.HandleFunc("GET /requests", s.listRequests)
	s.mux.HandleFunc("DELETE /requests", s.forgetRequests)
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeError(w, &refusal{http.StatusNotFound, "not_found", "there is no " + r.Method + " " + r.URL.Path + " here"})
	})
	return s, nil
}

// Run listens, prints the base URL in one line, and answers until ctx ends.
func Run(ctx context.Context, o Options, out io.Writer) error {
	s, err := New(o)
	if err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cmp.Or(o.Listen, "127.0.0.1:0"))
	if err != nil {
		return err
	}
	server := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10, BaseContext: func(net.Listener) context.Context { return ctx }}
	stop := context.AfterFunc(ctx, func() { server.Close() }) //nolint:errcheck // nothing is left to do about it
	defer stop()
	if _, err := fmt.Fprintf(out, "http://%s/v1\n", l.Addr()); err != nil {
		return errors.Join(err, l.Close())
	}
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// refusal is an error as the API writes it.
type refusal struct {
	status  int
	code    string
	message string
}

func (e *refusal) Error() string { return e.message }

func invalid(format string, args ...any) *refusal {
	return &refusal{http.StatusBadRequest, "invalid_request", fmt.Sprintf(format, args...)}
}

// exchange is a request on its way.
type exchange struct {
	w       http.ResponseWriter
	r       *http.Request
	asked   *Asked
	invalid int // so many answers in a conversation are not what was asked for
}

// answering remembers a request, has its faults answer, and else the handler.
func (s *Server) answering(handle func(*exchange) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		x := &exchange{w: w, r: r, asked: &Asked{Method: r.Method, Path: r.URL.Path, Idempotency: r.Header.Get("Idempotency-Key"), Status: http.StatusOK}}
		s.remember(x.asked)
		w.Header().Set("X-Request-Id", fmt.Sprintf("fake-%d", x.asked.Number))
		err := s.authorize(x)
		if err == nil {
			err = s.serve(x, handle)
		}
		var e *refusal
		switch {
		case err == nil:
			return
		case !errors.As(err, &e):
			e = invalid("%v", err)
		}
		s.told(func() { x.asked.Status = e.status })
		writeError(w, e)
	}
}

func (s *Server) authorize(x *exchange) error {
	key, _ := strings.CutPrefix(x.r.Header.Get("Authorization"), "Bearer ")
	s.told(func() { x.asked.Authorized = key != "" })
	if s.o.Key != "" && key != s.o.Key {
		return &refusal{http.StatusUnauthorized, "invalid_api_key", "the API key is missing or not the one of --key"}
	}
	return nil
}

func (s *Server) remember(a *Asked) {
	s.told(func() {
		s.number++
		a.Number = s.number
		if s.requests = append(s.requests, a); len(s.requests) > maxKept {
			s.requests = s.requests[1:]
		}
	})
}

// told changes what is remembered.
func (s *Server) told(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *Server) listRequests(w http.ResponseWriter, _ *http.Request) {
	var list []Asked
	s.told(func() {
		for _, a := range s.requests {
			list = append(list, *a)
		}
	})
	writeJSON(w, http.StatusOK, map[string]any{"requests": list})
}

func (s *Server) forgetRequests(w http.ResponseWriter, _ *http.Request) {
	s.told(func() { s.requests, s.counts = nil, map[string]int{} })
	w.WriteHeader(http.StatusNoContent)
}

// models are those that /v1/models names. Requests may name any.
var models = []string{"fake-chat", "fake-transcribe"}

func modelOf(id string) map[string]any {
	return map[string]any{"id": id, "object": "model", "created": 1700000000, "owned_by": "stepwell"}
}

func (s *Server) listModels(x *exchange) error {
	list := []any{}
	for _, id := range models {
		list = append(list, modelOf(id))
	}
	writeJSON(x.w, http.StatusOK, map[string]any{"object": "list", "data": list})
	return nil
}

func (s *Server) getModel(x *exchange) error {
	for _, id := range models {
		if id == x.r.PathValue("model") {
			writeJSON(x.w, http.StatusOK, modelOf(id))
			return nil
		}
	}
	return &refusal{http.StatusNotFound, "model_not_found", "there is no model of that name"}
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.Encode(v) //nolint:errcheck // the client has gone
}

func writeError(w http.ResponseWriter, e *refusal) {
	kind := "invalid_request_error"
	if e.status >= 500 {
		kind = "server_error"
	}
	writeJSON(w, e.status, map[string]any{"error": map[string]any{"message": e.message, "type": kind, "param": nil, "code": e.code}})
}
