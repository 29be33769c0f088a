package api

import (
	"context"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api/endpoint"
	"github.com/stepwell/stepwell/store"
)

// answer is a body alone.
type answer[T any] struct{ Body T }

// reply makes an answer.
func reply[T any](body T, err error) (*answer[T], error) {
	if err != nil {
		return nil, err
	}
	return &answer[T]{body}, nil
}

// tagged is a body with its entity tag.
type tagged[T any] struct {
	ETag string `header:"ETag"`
	Body T
}

// made is the answer to something that may have made something: 201, or 200 when it was there already.
type made[T any] struct {
	Status   int
	Location string `header:"Location"`
	ETag     string `header:"ETag"`
	Body     T
}

func statusOf(fresh bool) int {
	if fresh {
		return http.StatusCreated
	}
	return http.StatusOK
}

// notModified is the answer to an If-None-Match with the current revision.
func notModified(revision int64) error {
	return &unmodified{etag(revision)}
}

type unmodified struct{ etag string }

func (*unmodified) Error() string             { return "not modified" }
func (*unmodified) GetStatus() int            { return http.StatusNotModified }
func (u *unmodified) GetHeaders() http.Header { return http.Header{"Etag": {u.etag}} }

// change changes an object under If-Match: do gets the revision that was compared, so that a concurrent change is
// detected. It is 412 with the header; without it the change is applied to the new state.
func change[T any](ifMatch string, now *T, revision func(*T) int64, do func(revision int64) (*T, error), again func() (*T, error)) (*T, error) {
	if ifMatch == "" {
		return do(store.AnyRevision)
	}
	if err := matching(ifMatch, revision(now)); err != nil {
		return nil, err
	}
	done, err := do(revision(now))
	if stepwell.CodeOf(err) == stepwell.CodeConflict {
		if then, aerr := again(); aerr == nil && revision(then) != revision(now) {
			return nil, errChanged(revision(then))
		}
	}
	return done, err
}

// remove deletes something under If-Match.
func remove(ifMatch string, revision int64, do func(revision int64) error) (*struct{}, error) {
	wanted := int64(store.AnyRevision)
	if ifMatch != "" {
		if err := matching(ifMatch, revision); err != nil {
			return nil, err
		}
		wanted = revision
	}
	return nil, do(wanted)
}

// handle implements an operation of the table. Errors of fn are answered as a Problem. It does nothing more than give fn a type that
// all operations share: the compiler makes a copy of it for each.
func handle[I, O any](s *server, id string, fn func(context.Context, *I) (*O, error), adjust ...func(*huma.Operation)) {
	s.handle(id, endpoint.Endpoint{In: reflect.TypeFor[I](), Out: reflect.TypeFor[O](), Call: func(ctx context.Context, in any) (any, error) {
		out, err := fn(ctx, in.(*I))
		if out == nil {
			return nil, err
		}
		return out, err
	}}, adjust)
}

func (s *server) handle(id string, e endpoint.Endpoint, adjust []func(*huma.Operation)) {
	op, known := s.ops[id]
	if !known || !s.todo[id] {
		panic("api: the operation " + id + " is not in the table, or has a handler already")
	}
	delete(s.todo, id)
	if s.local != nil {
		s.offers[id] = func() { s.register(op, e, adjust) }
		return
	}
	s.register(op, e, adjust)
}

// register describes an operation, and has it served.
func (s *server) register(op *operation, e endpoint.Endpoint, adjust []func(*huma.Operation)) {
	described := s.describeOperation(op)
	for _, f := range adjust {
		f(&described)
	}
	if body, ok := e.Out.FieldByName("Body"); ok && op.is(creates) {
		described.DefaultStatus = http.StatusCreated
		described.Responses["200"] = &huma.Response{Description: "It was there already: the Idempotency-Key has been used before",
			Content: map[string]*huma.MediaType{"application/json": {Schema: s.schemaOf(body.Type)}}}
	}
	call := e.Call
	e.Call = func(ctx context.Context, in any) (any, error) {
		out, err := call(ctx, in)
		if same, is := err.(*unmodified); is {
			return nil, same
		}
		if err != nil {
			p := problemOf(ctx, s.o.Log, err)
			callOf(ctx).code = p.Code
			return nil, p
		}
		return out, nil
	}
	endpoint.Register(s.api, described, e)
}
