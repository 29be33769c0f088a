// Package endpoint registers operations with huma whose input and output are reflect.Types. It is huma.Register without type parameters:
// the compiler makes a copy of that function for every operation, 16 KB of code each, together 3 MB of the program.
//
// Parameters are strings, integers, bools, lists of strings and times; bodies are JSON; headers of answers are strings.
package endpoint

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// Endpoint is the code of an operation.
type Endpoint struct {
	// In is a struct: fields with a tag path, query or header are parameters, Body is the request's body.
	In reflect.Type
	// Out is a struct: Status and Body are those of the answer, Body may be a func(huma.Context); other fields are headers.
	Out reflect.Type
	// Call gets a pointer to an In and returns one to an Out, or nil for an answer without a body.
	Call func(ctx context.Context, in any) (any, error)
}

// server serves one operation.
type server struct {
	Endpoint
	api    huma.API
	op     huma.Operation
	params []param
	body   *huma.Schema // nil without a Body in In
}

// Register adds an operation to the description and to the router of an API. It panics when a type is none that it can serve, or
// the router has the path already.
func Register(api huma.API, op huma.Operation, e Endpoint) {
	s := &server{Endpoint: e, api: api, op: op}
	s.describeParams()
	s.describeBody()
	s.describeAnswer()
	if s.op.RequestBody != nil {
		for _, content := range s.op.RequestBody.Content {
			content.Schema.PrecomputeMessages()
		}
	}
	api.OpenAPI().AddOperation(&s.op)
	api.Adapter().Handle(&s.op, api.Middlewares().Handler(s.op.Middlewares.Handler(s.serve)))
}

// schema is that of a field of In or Out.
func (s *server) schema(f reflect.StructField, hint string) *huma.Schema {
	return huma.SchemaFromField(s.api.OpenAPI().Components.Schemas, f, hint)
}

// hint names the schema of a body whose type has no name.
func (s *server) hint(t reflect.Type, otherwise string) string {
	if t.Name() != "" {
		return t.Name() + "Body"
	}
	return s.op.OperationID + otherwise
}

func (s *server) describeBody() {
	f, ok := s.In.FieldByName("Body")
	if !ok {
		return
	}
	s.body = s.schema(f, s.hint(s.In, "Request"))
	if s.op.RequestBody == nil {
		s.op.RequestBody = &huma.RequestBody{Content: map[string]*huma.MediaType{"application/json": {Schema: s.body}}}
	}
	s.op.RequestBody.Required = s.op.RequestBody.Required || f.Tag.Get("required") == "true" || f.Type.Kind() != reflect.Pointer && f.Type.Kind() != reflect.Interface
}

func (s *server) describeAnswer() {
	body, hasBody := s.Out.FieldByName("Body")
	if s.op.DefaultStatus == 0 {
		s.op.DefaultStatus = http.StatusNoContent
		if hasBody || s.op.Method == http.MethodHead {
			s.op.DefaultStatus = http.StatusOK
		}
	}
	status := strconv.Itoa(s.op.DefaultStatus)
	if s.op.Responses[status] == nil {
		s.op.Responses[status] = &huma.Response{Description: http.StatusText(s.op.DefaultStatus)}
	}
	answer := s.op.Responses[status]
	if hasBody && body.Type.Kind() != reflect.Func {
		schema := s.schema(body, s.hint(s.Out, "Response"))
		if len(answer.Content) == 0 {
			answer.Content = map[string]*huma.MediaType{"application/json": {Schema: schema}}
		}
	}
	for _, f := range headers(s.Out) {
		if f.Type.Kind() != reflect.String {
			panic("endpoint: the header " + f.Name + " of " + s.op.OperationID + " is not a string")
		}
		if answer.Headers == nil {
			answer.Headers = map[string]*huma.Param{}
		}
		answer.Headers[f.Tag.Get("header")] = &huma.Header{Schema: s.schema(f, "")}
	}
}

// headers are the fields of an Out that are headers of the answer.
func headers(out reflect.Type) []reflect.StructField {
	return slices.DeleteFunc(reflect.VisibleFields(out), func(f reflect.StructField) bool { return f.Tag.Get("header") == "" })
}

// serve answers one request.
func (s *server) serve(hc huma.Context) {
	in, path, found := reflect.New(s.In), huma.NewPathBuffer(make([]byte, 0, 128), 0), &huma.ValidateResult{}
	if s.checkQuery(hc, path, found); len(found.Errors) == 0 {
		s.readParams(hc, in.Elem(), path, found)
	} else {
		s.refuse(hc, http.StatusUnprocessableEntity, "validation failed", found.Errors...)
		return
	}
	status := http.StatusUnprocessableEntity
	if s.body != nil {
		var err error
		if status, err = s.readBody(hc, in.Elem(), path, found); err != nil {
			s.refuse(hc, status, err.Error())
			return
		}
	}
	if len(found.Errors) > 0 {
		s.refuse(hc, status, "validation failed", found.Errors...)
		return
	}
	out, err := s.Call(hc.Context(), in.Interface())
	if err != nil {
		s.fail(hc, err)
		return
	}
	s.answer(hc, out)
}

// refuse answers with an error of huma's. Its own error is that the answer could not be written, which huma has told.
func (s *server) refuse(hc huma.Context, status int, message string, errs ...error) {
	_ = huma.WriteErr(s.api, hc, status, message, errs...)
}

// fail answers with the error of Call.
func (s *server) fail(hc huma.Context, err error) {
	if he, ok := errors.AsType[huma.HeadersError](err); ok {
		for name, values := range he.GetHeaders() {
			for _, v := range values {
				hc.AppendHeader(name, v)
			}
		}
	}
	if se, ok := errors.AsType[huma.StatusError](err); ok {
		s.write(hc, se.GetStatus(), se)
		return
	}
	s.refuse(hc, http.StatusInternalServerError, "unexpected error occurred", err)
}

// answer writes what Call returned.
func (s *server) answer(hc huma.Context, out any) {
	if out == nil {
		hc.SetStatus(s.op.DefaultStatus)
		return
	}
	v, status := reflect.ValueOf(out).Elem(), s.op.DefaultStatus
	for _, f := range headers(s.Out) {
		if text := v.FieldByIndex(f.Index).String(); text != "" {
			hc.SetHeader(f.Tag.Get("header"), text)
		}
	}
	if f := v.FieldByName("Status"); f.IsValid() {
		status = int(f.Int())
	}
	body := v.FieldByName("Body")
	if !body.IsValid() {
		hc.SetStatus(status)
		return
	}
	if stream, ok := body.Interface().(func(huma.Context)); ok {
		stream(hc)
		return
	}
	s.write(hc, status, body.Interface())
}

// write writes a body in the form that the client accepts. It panics when the body cannot be written as JSON; that the client has gone
// is no error.
func (s *server) write(hc huma.Context, status int, body any) {
	form, err := s.api.Negotiate(hc.Header("Accept"))
	if err != nil {
		s.refuse(hc, http.StatusNotAcceptable, "unable to marshal response", err)
		return
	}
	shown, err := s.api.Transform(hc, strconv.Itoa(status), body)
	if err != nil {
		panic(fmt.Errorf("endpoint: %s: %w", s.op.OperationID, err))
	}
	hc.SetHeader("Content-Type", form)
	hc.SetStatus(status)
	if status == http.StatusNoContent || status == http.StatusNotModified {
		return
	}
	if err := s.api.Marshal(hc.BodyWriter(), form, shown); err != nil && !errors.Is(hc.Context().Err(), context.Canceled) {
		panic(fmt.Errorf("endpoint: %s: %w", s.op.OperationID, err))
	}
}

// timeType is the type of parameters that are times.
var timeType = reflect.TypeFor[time.Time]()

// param is a parameter of In.
type param struct {
	index              []int
	in, name, fallback string
	required           bool
	schema             *huma.Schema
}

func (s *server) describeParams() {
	for _, f := range reflect.VisibleFields(s.In) {
		p := param{index: f.Index, fallback: f.Tag.Get("default"), required: f.Tag.Get("required") == "true"}
		for _, p.in = range []string{"path", "query", "header"} {
			if p.name = f.Tag.Get(p.in); p.name != "" {
				break
			}
		}
		if p.name == "" {
			continue
		}
		_, _ = set(reflect.New(f.Type).Elem(), "") // panics when the type is none for parameters
		p.required = p.required || p.in == "path"
		p.schema = s.schema(f, "")
		s.params = append(s.params, p)
		described := &huma.Param{Name: p.name, In: p.in, Description: p.schema.Description, Required: p.required, Schema: p.schema}
		if p.in == "query" {
			described.Explode = new(bool) // a list has commas between its values
		}
		if !slices.ContainsFunc(s.op.Parameters, func(known *huma.Param) bool { return known.Name == p.name && known.In == p.in }) {
			s.op.Parameters = append(s.op.Parameters, described)
		}
	}
}

// checkQuery finds query parameters that the operation does not have.
func (s *server) checkQuery(hc huma.Context, path *huma.PathBuffer, found *huma.ValidateResult) {
	u := hc.URL()
	for _, name := range slices.Sorted(maps.Keys(u.Query())) {
		if !slices.ContainsFunc(s.params, func(p param) bool { return p.in == "query" && p.name == name }) {
			path.Reset()
			path.Push("query")
			path.Push(name)
			found.Add(path, "", "unknown query parameter")
		}
	}
}

// readParams sets the parameters of in.
func (s *server) readParams(hc huma.Context, in reflect.Value, path *huma.PathBuffer, found *huma.ValidateResult) {
	read := map[string]func(string) string{"path": hc.Param, "query": hc.Query, "header": hc.Header}
	for _, p := range s.params {
		path.Reset()
		path.Push(p.in)
		path.Push(p.name)
		text := read[p.in](p.name)
		if text == "" {
			text = p.fallback
		}
		if text == "" {
			if p.required {
				found.Add(path, "", "required "+p.in+" parameter is missing")
			}
			continue
		}
		value, err := set(in.FieldByIndex(p.index), text)
		if err != nil {
			found.Add(path, text, err.Error())
			continue
		}
		huma.Validate(s.api.OpenAPI().Components.Schemas, p.schema, path, huma.ModeWriteToServer, value, found)
	}
}

// set sets a field from the text of a parameter, and returns the value that its schema is about.
func set(f reflect.Value, text string) (any, error) {
	switch {
	case f.Type() == timeType:
		t, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return nil, errors.New("invalid date/time for format " + time.RFC3339Nano)
		}
		f.Set(reflect.ValueOf(t))
		return text, nil
	case f.Kind() == reflect.String:
		f.SetString(text)
		return text, nil
	case f.CanInt():
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || f.OverflowInt(n) {
			return nil, errors.New("invalid integer")
		}
		f.SetInt(n)
		return n, nil
	case f.Kind() == reflect.Bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return nil, errors.New("invalid boolean")
		}
		f.SetBool(b)
		return b, nil
	case f.Type() == reflect.TypeFor[[]int]():
		var list []int
		var values []any
		for word := range strings.SplitSeq(text, ",") {
			n, err := strconv.Atoi(word)
			if err != nil && text != "" {
				return nil, errors.New("invalid integer")
			}
			list, values = append(list, n), append(values, float64(n))
		}
		f.Set(reflect.ValueOf(list))
		return values, nil
	case f.Type() == reflect.TypeFor[[]string]():
		list := strings.Split(text, ",")
		f.Set(reflect.ValueOf(list))
		return list, nil
	}
	panic("endpoint: no parameter can be a " + f.Type().String())
}
