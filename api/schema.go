package api

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"maps"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/stepwell/stepwell/definition"
)

// schema serves the JSON Schema of documents.
func (s *server) schema() {
	handle(s, "schema.get", s.getSchema, func(op *huma.Operation) {
		op.Description = "What stepwell schema prints, and besides: the actions and modules that this server has, as the values of action and module, and the schemas of their parameters in $defs, as action:NAME and module:NAME. " +
			"These describe parameters after their templates have been rendered; a step's params do not refer to them."
		op.Responses["200"] = &huma.Response{Description: "The schema (draft 2020-12)", Headers: map[string]*huma.Param{"ETag": {Schema: &huma.Schema{Type: huma.TypeString}}},
			Content: map[string]*huma.MediaType{"application/schema+json": {Schema: &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true}}}}
	})
}

type schemaInput struct {
	IfNoneMatch string `header:"If-None-Match" maxLength:"2000"`
}

func (s *server) getSchema(_ context.Context, in *schemaInput) (*streamed, error) {
	raw, err := json.Marshal(s.documentSchema())
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(raw)
	tag := int64(1) // a revision that follows from the content
	for _, b := range sum[:7] {
		tag = tag<<8 | int64(b)
	}
	if unchanged(in.IfNoneMatch, tag) {
		return nil, notModified(tag)
	}
	return &streamed{func(hc huma.Context) {
		hc.SetHeader("ETag", etag(tag))
		hc.SetHeader("Content-Type", "application/schema+json")
		hc.SetStatus(http.StatusOK)
		_, _ = hc.BodyWriter().Write(raw) // the client may have gone
	}}, nil
}

// documentSchema is the schema of documents with this server's actions and modules.
func (s *server) documentSchema() map[string]any {
	out := definition.Schema()
	defs := out["$defs"].(map[string]any)
	names := map[string][]string{}
	for _, about := range s.o.Catalog.Specs() {
		if about.Internal {
			continue
		}
		kind := "action"
		if about.Stream != nil {
			kind = "module"
		}
		names[kind] = append(append(names[kind], about.Name), about.Aliases...)
		if params, ok := s.o.Catalog.Schema(about.Name); ok {
			own := maps.Clone(params)
			delete(own, "$schema")
			defs[kind+":"+about.Name] = own
		}
	}
	properties := defs["step"].(map[string]any)["properties"].(map[string]any)
	for kind, list := range names {
		slices.Sort(list)
		if of, ok := properties[kind].(map[string]any); ok {
			of["enum"] = list
		}
	}
	return out
}
