package extension

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stac/schema"
)

// What a schema requires of items, found through references and alternatives; core fields are not its own.
func TestScaffold(t *testing.T) {
	for text, want := range map[string]map[string]string{
		`{"oneOf":[{"properties":{"type":{"const":"Collection"},"properties":{"required":["x:no"]}}},
			{"$ref":"#/definitions/item"}],
		  "definitions":{"item":{"properties":{"type":{"const":"Feature"},"properties":{"required":["datetime","x:a","x:a"],"properties":{"x:a":{"default":{"k":[1]}}}},
			"assets":{"additionalProperties":{"allOf":[{"required":["href","x:b"]},{"$ref":"#/definitions/a~1b"}]}}}},
			"a/b":{"required":["x:c"],"properties":{"x:c":{"const":"{fixed"}}}}}`: {"properties.x:a": `{"k":[1]}`, "assets.*.x:b": "null", "assets.*.x:c": "null"},
		`{"$ref":"#"}`: {},
		`{"allOf":[{"$ref":"https://example.com/other.json"},{"properties":{"properties":{"required":["x:a",1]}}}]}`: {"properties.x:a": "null"},
		`true`: {},
	} {
		doc, err := schema.Decode([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		fills, err := scaffold(doc)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, f := range fills {
			v, err := f.value.Expand(item.NewObject(), "a")
			if err != nil {
				t.Fatal(err)
			}
			got[f.path.String()] = string(v.Bytes())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(text, diff)
		}
	}
}
