// Package api is Stepwell over HTTP: the REST server with its OpenAPI description, and the typed client.
//
// Every operation is a row of one table (operations) with the role that may call it; the description at /openapi.json
// is made from the handlers' own types, and a page at /docs shows it without the network. Shapes are those of
// budpipeline §4 where it has them. Every answer that is not a success is a Problem {code, message, hint, details}; the text of an
// unknown error never leaves the process. Everything is bounded: bodies, lists, time, requests at once.
//
// The API decides nothing about pipelines: it asks the store, the conductor and the packages that own what it shows.
package api

import (
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/stepwell/stepwell/access"
)

// server is the API while it is put together, and what its handlers belong to.
type server struct {
	o      Options
	mux    *http.ServeMux
	api    huma.API
	ops    map[string]*operation
	todo   map[string]bool // operations without a handler yet
	slots  rooms           // for requests that are served
	halls  rooms           // for requests that wait
	site   access.Site
	bodies *bodies
	// Of NewLocal: what finds an operation, and says whether it can be served.
	local *http.ServeMux
	able  func(operation string) error
}

// New makes the handler of everything under /api/v1, /openapi.json and /docs. CodeInternal when options are missing.
func New(o Options) (http.Handler, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	s := &server{o: o, mux: http.NewServeMux(), ops: map[string]*operation{}, todo: map[string]bool{}, slots: newRooms(o.MaxRequests), halls: newRooms(o.MaxWaiting),
		site: access.Site{Hosts: o.Hosts, Origins: o.Origins}, bodies: newBodies(o.MaxBodies)}
	s.build()
	if len(s.todo) > 0 {
		return nil, fmt.Errorf("api: operations without a handler: %q", slices.Sorted(maps.Keys(s.todo)))
	}
	if err := s.describe(); err != nil {
		return nil, err
	}
	return Bodies(s.outer()), nil
}

// build gives every operation of the table its code.
func (s *server) build() {
	for _, op := range operations() {
		s.ops[op.id], s.todo[op.id] = &op, true
	}
	s.api = humago.New(s.mux, s.config())
	for _, add := range []func(){s.executions, s.control, s.live, s.pipelines, s.jobs, s.webhooks, s.events, s.approvals, s.catalog, s.facade, s.health, s.metrics, s.admin} {
		add()
	}
}
