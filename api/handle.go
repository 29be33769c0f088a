package api

import (
	"context"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"
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

// made is the answer to something that may have made something: 201, or 200 when it was there already.
type made[T any] struct {
	Status   int
	Location string `header:"Location"`
	Body     T
}

func statusOf(fresh bool) int {
	if fresh {
		return http.StatusCreated
	}
	return http.StatusOK
}

// handle gives an operation of the table its code. What fn returns as an error is answered as a Problem.
func handle[I, O any](s *server, id string, fn func(context.Context, *I) (*O, error)) {
	op, known := s.ops[id]
	if !known || !s.todo[id] {
		panic("api: the operation " + id + " is not in the table, or has a handler already")
	}
	delete(s.todo, id)
	described := s.describeOperation(op)
	if body, ok := reflect.TypeFor[O]().FieldByName("Body"); ok && op.is(creates) {
		described.DefaultStatus = http.StatusCreated
		described.Responses["200"] = &huma.Response{Description: "It was there already: the Idempotency-Key has been used before",
			Content: map[string]*huma.MediaType{"application/json": {Schema: s.schemaOf(body.Type)}}}
	}
	huma.Register(s.api, described, func(ctx context.Context, in *I) (*O, error) {
		out, err := fn(ctx, in)
		if err != nil {
			return nil, problemOf(ctx, s.o.Log, err)
		}
		return out, nil
	})
}
