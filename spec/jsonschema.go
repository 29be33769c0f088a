package spec

// Keys of a JSON Schema of test files that say which names of the tested pipeline may stand there: as keys of a mapping (NamesKey), or as
// values (ValuesKey).
const (
	NamesKey  = "x-names"
	ValuesKey = "x-values"

	NamesMocks  = "mocks"  // steps, their iterations and actions
	NamesSteps  = "steps"  // steps
	NamesParams = "params" // parameters
	NamesFiles  = "files"  // of pipelines
)

// JSONSchema describes the values of fields as a JSON Schema (draft 2020-12) object. Open allows names
// beyond the fields.
func JSONSchema(fields []Field, open bool) map[string]any {
	properties := map[string]any{}
	required := []any{}
	for i := range fields {
		properties[fields[i].Name] = fieldSchema(&fields[i])
		if fields[i].Required && fields[i].Default == nil {
			required = append(required, fields[i].Name)
		}
	}
	schema := map[string]any{"type": "object", "properties": properties}
	if len(required) > 0 {
		schema["required"] = required
	}
	if !open {
		schema["additionalProperties"] = false
	}
	return schema
}

func fieldSchema(f *Field) map[string]any {
	schema := typeSchema(f)
	if f.Doc != "" {
		schema["description"] = f.Doc
	}
	if f.Default != nil && !f.Secret {
		schema["default"] = Clone(f.Default)
	}
	if f.Secret {
		schema["writeOnly"] = true
	}
	return schema
}

// typeSchema is a table of types.
func typeSchema(f *Field) map[string]any {
	switch f.Type {
	case String:
		schema := map[string]any{"type": "string"}
		if f.Enum != nil {
			allowed := make([]any, len(f.Enum))
			for i, word := range f.Enum {
				allowed[i] = word
			}
			schema["enum"] = allowed
		}
		if f.Pattern != "" {
			schema["pattern"] = f.Pattern
		}
		return bounded(schema, f, "minLength", "maxLength")
	case Ref:
		return map[string]any{"type": "string", "minLength": 1}
	case Integer:
		return bounded(map[string]any{"type": "integer"}, f, "minimum", "maximum")
	case Number:
		return bounded(map[string]any{"type": "number"}, f, "minimum", "maximum")
	case Boolean:
		return map[string]any{"type": "boolean"}
	case Array:
		schema := map[string]any{"type": "array"}
		if f.Items != nil {
			schema["items"] = fieldSchema(f.Items)
		}
		return bounded(schema, f, "minItems", "maxItems")
	case Object:
		if f.Fields != nil {
			return JSONSchema(f.Fields, false)
		}
		return map[string]any{"type": "object"}
	case Duration:
		return bounded(map[string]any{"type": []any{"number", "string"}}, f, "minimum", "maximum")
	case Time:
		return map[string]any{"type": "string", "format": "date-time"}
	}
	return map[string]any{}
}

func bounded(schema map[string]any, f *Field, low, high string) map[string]any {
	if f.Above && low == "minimum" {
		low = "exclusiveMinimum"
	}
	if f.Min != nil {
		schema[low] = *f.Min
	}
	if f.Max != nil {
		schema[high] = *f.Max
	}
	return schema
}
