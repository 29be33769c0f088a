package api_test

import (
	"strings"
	"testing"
)

// The description is enough for generated clients: each answer has a type, failures too, and nothing that may be left
// out looks as if it could not.
func TestDescription(t *testing.T) {
	type content map[string]struct{ Schema map[string]any }
	var doc struct {
		Paths map[string]map[string]struct {
			Responses map[string]struct {
				Ref     string `json:"$ref"`
				Content content
			}
		}
		Components struct {
			Responses map[string]struct{ Content content }
			Schemas   map[string]struct{ Properties map[string]map[string]any }
		}
	}
	newRig(t).do("", "GET", "/openapi.json", nil).is(200).into(&doc)
	for path, methods := range doc.Paths {
		for method, op := range methods {
			for status, answer := range op.Responses {
				if status[0] == '4' || status == "default" {
					name, _ := strings.CutPrefix(answer.Ref, "#/components/responses/")
					if got := doc.Components.Responses[name].Content["application/json"].Schema["$ref"]; got != "#/components/schemas/Problem" {
						t.Errorf("%s %s %s is %v", method, path, status, got)
					}
				}
				for kind, media := range answer.Content {
					if media.Schema == nil {
						t.Errorf("%s %s: the answer %s as %s has no type", method, path, status, kind)
					}
				}
			}
			if _, ok := op.Responses["4XX"]; !ok {
				t.Errorf("%s %s does not say what 4XX is", method, path)
			}
		}
	}
	if got := doc.Paths["/api/v1/metrics"]["get"].Responses["200"].Content; got["application/json"].Schema["$ref"] != "#/components/schemas/Metrics" || got["text/plain"].Schema["type"] != "string" {
		t.Errorf("metrics are %v", got)
	}
	// openapi-typescript and others make a member with a default required.
	for name, schema := range doc.Components.Schemas {
		for member, is := range schema.Properties {
			if value, ok := is["default"]; ok {
				t.Errorf("%s.%s has the default %v", name, member, value)
			}
		}
	}
}
