package lsp

import (
	"slices"
	"strings"

	"github.com/stepwell/stepwell/spec"
)

// schemaAt is what may stand at a path: the schema of documents, and in a step's params and config that of its action.
func (x *completer) schemaAt(path []string) map[string]any {
	schema := x.s.schema
	inStep := len(path) - len(x.under)
	for i, name := range path {
		if x.step != nil && i == inStep && (name == "params" || name == "config") {
			if own := x.params(name); own != nil {
				schema = own
				continue
			}
		}
		schema = x.member(schema, name)
	}
	return schema
}

// params describes the params or the config of the step.
func (x *completer) params(key string) map[string]any {
	name := x.get("action")
	if key == "config" {
		name = x.get("module")
	}
	if about, ok := x.s.o.Catalog.Spec(name); ok && name != "" {
		return spec.JSONSchema(about.Params, about.OpenParams)
	}
	if name = x.get("pipeline"); name == "" || x.good == nil || x.good.pipeline.Definition.Pipelines[name] == nil {
		return nil
	}
	sub := x.good.pipeline.Definition.Pipelines[name]
	fields := make([]spec.Field, len(sub.Parameters))
	for i := range fields {
		fields[i] = sub.Parameters[i].Field()
	}
	return spec.JSONSchema(fields, false)
}

// resolve follows references within the schema of documents.
func (x *completer) resolve(v any) map[string]any {
	schema, _ := v.(map[string]any)
	for range 8 {
		name, ok := schema["$ref"].(string)
		if !ok {
			return schema
		}
		defs, _ := x.s.schema["$defs"].(map[string]any)
		schema, _ = defs[strings.TrimPrefix(name, "#/$defs/")].(map[string]any)
	}
	return schema
}

// member is the schema of a key, or of the elements for [].
func (x *completer) member(schema map[string]any, name string) map[string]any {
	return x.find(schema, name, 0)
}

func (x *completer) find(schema map[string]any, name string, depth int) map[string]any {
	schema = x.resolve(schema)
	if name == "[]" {
		if items, ok := schema["items"]; ok {
			return x.resolve(items)
		}
	} else if props, ok := schema["properties"].(map[string]any); ok {
		if m, ok := props[name].(map[string]any); ok {
			return x.resolve(m)
		}
	}
	if depth < 4 {
		for _, of := range alternatives(schema) {
			if m := x.find(x.resolve(of), name, depth+1); m != nil {
				return m
			}
		}
	}
	if more, ok := schema["additionalProperties"].(map[string]any); ok && name != "[]" {
		return x.resolve(more)
	}
	return nil
}

func alternatives(schema map[string]any) (all []any) {
	for _, key := range []string{"anyOf", "oneOf"} {
		list, _ := schema[key].([]any)
		all = append(all, list...)
	}
	return all
}

// properties are the keys of a schema, or of the first of its alternatives that has some.
func properties(schema map[string]any) map[string]map[string]any {
	props, _ := schema["properties"].(map[string]any)
	out := map[string]map[string]any{}
	for name, v := range props {
		if about, ok := v.(map[string]any); ok {
			out[name] = about
		}
	}
	if len(out) > 0 {
		return out
	}
	for _, of := range alternatives(schema) {
		if m, ok := of.(map[string]any); ok {
			if found := properties(m); len(found) > 0 {
				return found
			}
		}
	}
	return nil
}

// texts are the texts of a list in a schema.
func texts(v any) (words []string) {
	switch list := v.(type) {
	case []string:
		return slices.Clone(list)
	case []any:
		for _, item := range list {
			if word, ok := item.(string); ok {
				words = append(words, word)
			}
		}
	}
	return words
}
