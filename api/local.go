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

// NewLocal returns the API for client.Local: for a command that works on a database by itself. Its caller is
// the process's own user: there is no authentication and no limit of size, number or time, and errors are shown in
// full. Only Store, Blobs and Catalog are required; able must refuse operations that need anything else. An operation
// is described on first use: describing all of them takes longer than most commands.
func NewLocal(o Options, able func(operation string, changes bool) error) http.Handler {
	s := &server{o: o, able: able, mux: http.NewServeMux(), local: http.NewServeMux(), ops: map[string]*operation{}, todo: map[string]bool{}, offers: map[string]func(){}}
	s.o.complete()
	s.build()
	return s.outer()
}

// offer describes an operation when it is first asked for. Requests may come at once: the descriptions share a registry.
func (s *server) offer(op *operation) {
	s.local.HandleFunc(op.method+" "+op.path, func(w http.ResponseWriter, r *http.Request) {
		s.offering.Lock()
		s.prepare(op.id)
		s.offering.Unlock()
		s.mux.ServeHTTP(w, r)
	})
}

// prepare runs the parts up to the one that has the operation, so that a command touches the code of few.
func (s *server) prepare(id string) {
	for s.todo[id] && len(s.parts) > 0 {
		part := s.parts[0]
		s.parts = s.parts[1:]
		part()
	}
	if s.todo[id] { // of a kind that a command has not
		handle(s, id, func(context.Context, *struct{}) (*struct{}, error) { return nil, s.able(id, false) })
	}
	if describe := s.offers[id]; describe != nil {
		delete(s.offers, id)
		describe()
	}
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
	p := access.Principal{Name: "command", Role: access.Admin, Via: access.ViaOf(r)}
	out := &outcome{humaContext: huma.WithContext(hc, access.With(r.Context(), p))}
	next(out)
	if op.is(changes) {
		s.record(op, c, r, p, out.code(c))
	}
}
