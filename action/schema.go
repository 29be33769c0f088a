package action

import "github.com/stepwell/stepwell/spec"

// Schema is the JSON Schema (draft 2020-12) of the parameters of an action, found by name or alias, as
// editors and forms use it. It describes rendered values: a template stands for any of them.
func (r *Registry) Schema(name string) (map[string]any, bool) {
	a, ok := r.byName[name]
	if !ok {
		return nil, false
	}
	schema := spec.JSONSchema(a.Spec.Params, a.Spec.OpenParams)
	schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	schema["title"] = a.Spec.Name
	if a.Spec.Summary != "" {
		schema["description"] = a.Spec.Summary
	}
	return schema, true
}
