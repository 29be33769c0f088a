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
	"context"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/api/body"
	"github.com/stepwell/stepwell/meter"
	"github.com/stepwell/stepwell/project"
	"github.com/stepwell/stepwell/trigger"
	"github.com/stepwell/stepwell/trigger/event"
)

// server is the state of the API and its handlers.
type server struct {
	o      Options
	mux    *http.ServeMux
	api    huma.API
	ops    map[string]*operation
	todo   map[string]bool // operations without a handler yet
	slots  slots           // for requests that are served
	waits  slots           // for requests that wait for the end of an execution
	site   access.Site
	moving func(ctx context.Context, within time.Duration, limit int) ([]ProjectProgress, error) // projects that change; nil: there are none
	names  map[reflect.Type]string                                                               // of schemas that are not named by their type
	admits map[string]func(*http.Request) error                                                  // checks a public operation before its body is read
	most   map[string]int64                                                                      // bytes of the largest body of an operation, where it is not Options.MaxBody
	ids    map[string]*huma.Schema                                                               // of path parameters that are no usual id or name
	bodies *body.Memory
	slas   slas
	parts  []func()     // give the operations in todo their code, each some of them
	pages  http.Handler // nil: none
	// Of NewLocal: local finds an operation, offering guards its first description and the fields above, offers are the descriptions
	// that are not made yet, able says whether it can be served.
	local    *http.ServeMux
	offering sync.Mutex
	offers   map[string]func()
	able     func(operation string, changes bool) error
}

// New makes the handler of everything under /api/v1, /openapi.json and /docs. CodeInternal when options are missing.
func New(o Options) (http.Handler, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	s := &server{o: o, mux: http.NewServeMux(), ops: map[string]*operation{}, todo: map[string]bool{}, slots: newSlots(o.MaxRequests), waits: newSlots(o.MaxWaiting),
		site: access.Site{Hosts: o.Hosts, Origins: o.Origins}, bodies: body.New(o.MaxBodies, o.Timeout)}
	s.build()
	if len(s.todo) > 0 {
		return nil, fmt.Errorf("api: operations without a handler: %q", slices.Sorted(maps.Keys(s.todo)))
	}
	if err := s.describe(); err != nil {
		return nil, err
	}
	if o.Page != nil {
		s.pages = o.Page(s.outer())
	}
	return body.Serve(s.outer()), nil
}

// build gives every operation its code; in NewLocal when it is first asked for.
func (s *server) build() {
	s.admits, s.most, s.ids = map[string]func(*http.Request) error{}, map[string]int64{}, map[string]*huma.Schema{}
	s.names = map[reflect.Type]string{reflect.TypeFor[trigger.Target](): "Callback", reflect.TypeFor[event.Received](): "EventReceived", reflect.TypeFor[event.Started](): "EventStarted",
		reflect.TypeFor[BackfillRequest](): "BackfillRequest", reflect.TypeFor[PipelineVersion](): "PipelineVersion", reflect.TypeFor[PipelineDiff](): "PipelineDiff",
		reflect.TypeFor[Secret](): "Secret", reflect.TypeFor[ActionPolicy](): "ActionPolicy", reflect.TypeFor[PolicyRule](): "PolicyRule", reflect.TypeFor[Metrics](): "Metrics", reflect.TypeFor[ProjectProgress](): "ProjectProgress", reflect.TypeFor[project.Tag](): "ProjectTag",
		reflect.TypeFor[meter.Executions](): "MetricsExecutions", reflect.TypeFor[meter.Workflows](): "MetricsWorkflows", reflect.TypeFor[meter.Scheduler](): "MetricsScheduler"}
	for _, op := range s.operations() {
		s.ops[op.id], s.todo[op.id] = &op, true
	}
	s.api = humago.New(s.mux, s.config())
	s.parts = []func(){s.executions, s.fields, s.control, s.live, s.stream, s.approvals, s.catalog, s.schema, s.templates, s.facade, s.health, s.metrics, s.admin, s.sessions, s.workers,
		func() { pipelinesOf(s.o.Pipelines).serve(s) }, func() { keysOf(s.o.Keys).serve(s) }, func() { secretsOf(s.o.Vault).serve(s) }, func() { clustersOf(s.o.Clusters).serve(s) }}
	for _, kind := range s.o.Kinds {
		s.parts = append(s.parts, func() { kind.serve(s) })
	}
	if s.local != nil {
		for _, op := range s.ops {
			s.offer(op)
		}
		return
	}
	for _, part := range s.parts {
		part()
	}
}

// operations are those of the table, and those of kinds that the table does not know.
func (s *server) operations() []operation {
	list := operations()
	for _, kind := range s.o.Kinds {
		rows := kind.rows()
		if !slices.ContainsFunc(list, func(op operation) bool { return op.id == rows[0].id }) {
			list = append(list, rows...)
		}
	}
	return list
}
