package api

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// config is the description's head, and how bodies are read and written: JSON alone.
func (s *server) config() huma.Config {
	format := huma.Format{Marshal: marshal, Unmarshal: unmarshal}
	return huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info:    &huma.Info{Title: "Stepwell", Version: s.o.Version, Description: description},
			Components: &huma.Components{
				Schemas: s.registry(),
				SecuritySchemes: map[string]*huma.SecurityScheme{
					"bearer": {Type: "http", Scheme: "bearer", Description: "An API key (sw_…) or a JSON Web Token."},
					"apiKey": {Type: "apiKey", In: "header", Name: "X-API-Key", Description: "An API key (sw_…)."},
				},
			},
			Tags: []*huma.Tag{},
		},
		Formats:                      map[string]huma.Format{"application/json": format, "json": format},
		DefaultFormat:                "application/json",
		RejectUnknownQueryParameters: true,
		Transformers:                 []huma.Transformer{s.rewritten},
	}
}

const description = `Runs pipelines: graphs of steps, to their end.

Every answer that is not a success is a Problem {code, message, hint, details}. Times are UTC, RFC 3339 with milliseconds. Lists are
pages: next_cursor, when there is one, is the cursor of the next. Things that people change have an ETag: send it as If-Match, and a
change that came between is refused with 412. An Idempotency-Key makes a start happen once, however often it is sent.`

// schemaName names a type's schema: as its kind says, else by the type.
func (s *server) schemaName(t reflect.Type, hint string) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if name, ok := s.names[t]; ok {
		return name
	}
	name := huma.DefaultSchemaNamer(t, hint)
	return strings.ToUpper(name[:min(1, len(name))]) + name[min(1, len(name)):]
}

// failure refers to the answer of every failed operation.
const failure = "#/components/responses/Failure"

// describeOperation is a row of the table in OpenAPI's words.
func (s *server) describeOperation(op *operation) huma.Operation {
	h := huma.Operation{
		OperationID: op.id, Method: op.method, Path: op.path, Summary: op.summary, Tags: []string{tagOf(op)},
		Middlewares: huma.Middlewares{s.guard(op)},
		// The guard has read the body within its own limits.
		MaxBodyBytes: -1, BodyReadTimeout: -1,
		Responses:  map[string]*huma.Response{"4XX": {Ref: failure}, "default": {Ref: failure}},
		Extensions: map[string]any{"x-role": "public"},
		Security:   []map[string][]string{},
	}
	if op.role != public {
		h.Extensions["x-role"] = op.role.String()
		h.Security = []map[string][]string{{"bearer": {}}, {"apiKey": {}}}
	}
	return h
}

// tagOf groups operations by the first part of their id.
func tagOf(op *operation) string {
	tag, _, _ := strings.Cut(op.id, ".")
	return tag
}

func (s *server) schemaOf(t reflect.Type) *huma.Schema {
	return s.api.OpenAPI().Components.Schemas.Schema(t, true, "")
}

// describe finishes the description and serves it.
func (s *server) describe() error {
	doc := s.api.OpenAPI()
	schemas := doc.Components.Schemas.Map()
	delete(schemas, "ErrorModel") // huma's own, which nothing answers
	delete(schemas, "ErrorDetail")
	hides[Progress](s)(nil)
	doc.Components.Responses = map[string]*huma.Response{"Failure": {Description: "Anything but a success",
		Content: map[string]*huma.MediaType{"application/json": {Schema: s.schemaOf(reflect.TypeFor[Problem]())}}}}
	body, err := json.MarshalIndent(doc, "", " ")
	if err != nil {
		return fmt.Errorf("api: describe: %w", err)
	}
	s.mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body) // the client may have gone
	})
	return s.page()
}

// marshal writes a body.
func marshal(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// unmarshal reads a body. Messages of encoding/json about Go types are translated to JSON types.
func unmarshal(data []byte, v any) error {
	err := json.Unmarshal(data, v)
	if te, is := errors.AsType[*json.UnmarshalTypeError](err); is {
		return fmt.Errorf("%s has the wrong type: it is a %s", cmp.Or(te.Field, "something in it"), te.Value)
	}
	if se, is := errors.AsType[*json.SyntaxError](err); is {
		line := 1 + bytes.Count(data[:min(int(se.Offset), len(data))], []byte("\n"))
		return fmt.Errorf("not JSON: %w (line %d, byte %d)", se, line, se.Offset)
	}
	return err
}
