package extension

import (
	"slices"
	"strings"

	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stac/pattern"
	"github.com/stepwell/stepwell/stac/schema"
)

const maxSchemaDepth = 24

// scaffold lists the fields that an extension's schema requires of items, to be filled in where they are
// absent: with the schema's default or constant, else with null.
func scaffold(doc any) ([]fill, error) {
	r := &requirement{root: doc}
	r.item(doc, maxSchemaDepth)
	var fills []fill
	for _, f := range r.found {
		value, err := pattern.ParseTree(f.value)
		if err != nil { // braces in a schema's text are no names
			value, err = pattern.ParseTree(nil)
		}
		if err != nil {
			return nil, err
		}
		fills = append(fills, fill{f.path, value, never, true})
	}
	return fills, nil
}

// requirement goes over a schema document.
type requirement struct {
	root  any
	found []required
}

type required struct {
	path  item.Path
	value any
}

// resolve follows local references.
func (r *requirement) resolve(v any) map[string]any {
	for range maxSchemaDepth {
		obj, _ := v.(map[string]any)
		ref, ok := obj["$ref"].(string)
		if !ok {
			return obj
		}
		if !strings.HasPrefix(ref, "#/") {
			return nil // another document's fields are not this extension's
		}
		v = schema.Find(r.root, ref[1:])
	}
	return nil
}

// item looks at a schema for the whole item; of alternatives, at the one for type Feature.
func (r *requirement) item(v any, depth int) {
	obj := r.resolve(v)
	if obj == nil || depth == 0 {
		return
	}
	for _, all := range list(obj["allOf"]) {
		r.item(all, depth-1)
	}
	for _, alternative := range append(list(obj["oneOf"]), list(obj["anyOf"])...) {
		if r.isFeature(alternative, depth-1) {
			r.item(alternative, depth-1)
			break
		}
	}
	members, _ := obj["properties"].(map[string]any)
	r.fields(item.Path{{Key: "properties"}}, members["properties"], depth-1)
	if assets := r.resolve(members["assets"]); assets != nil {
		r.fields(item.Path{{Key: "assets"}, {Any: true}}, assets["additionalProperties"], depth-1)
	}
}

func (r *requirement) isFeature(v any, depth int) bool {
	obj := r.resolve(v)
	if obj == nil || depth == 0 {
		return false
	}
	members, _ := obj["properties"].(map[string]any)
	if kind := r.resolve(members["type"]); kind["const"] == "Feature" {
		return true
	}
	return slices.ContainsFunc(list(obj["allOf"]), func(all any) bool { return r.isFeature(all, depth-1) })
}

// coreFields are core fields, which an extension may mention but does not own.
var coreFields = []string{"datetime", "start_datetime", "end_datetime", "created", "updated", "href", "title", "description", "type", "roles",
	"bands", "license", "providers", "platform", "instruments", "constellation", "mission", "gsd"}

// fields are the required ones of an object.
func (r *requirement) fields(at item.Path, v any, depth int) {
	obj := r.resolve(v)
	if obj == nil || depth == 0 {
		return
	}
	for _, all := range list(obj["allOf"]) {
		r.fields(at, all, depth-1)
	}
	members, _ := obj["properties"].(map[string]any)
	for _, e := range list(obj["required"]) {
		name, ok := e.(string)
		path := append(slices.Clone(at), item.Step{Key: name})
		if !ok || slices.Contains(coreFields, name) || slices.ContainsFunc(r.found, func(f required) bool { return f.path.String() == path.String() }) {
			continue
		}
		field := r.resolve(members[name])
		value, ok := field["default"]
		if !ok {
			value = field["const"]
		}
		r.found = append(r.found, required{path, value})
	}
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}
