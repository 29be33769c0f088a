package spec

import (
	"maps"
	"slices"
)

// redacted replaces a secret wherever it is shown.
const redacted = "***"

// Redact returns an object for recording and showing: values of fields that are declared secret, at any depth, are replaced. The object
// itself is not changed; without secrets the result is the same map.
func Redact(object map[string]any, fields []Field) map[string]any {
	shown, _ := redactFields(object, fields).(map[string]any)
	return shown
}

func redactFields(v any, fields []Field) any {
	m, ok := v.(map[string]any)
	if !ok {
		return v
	}
	copied := false
	for i := range fields {
		f := &fields[i]
		value, given := m[f.Name]
		if !given || value == nil || !hidesSomething(f) {
			continue
		}
		if !copied {
			m, copied = maps.Clone(m), true
		}
		m[f.Name] = redactValue(value, f)
	}
	return m
}

func redactValue(v any, f *Field) any {
	if f.Secret {
		return redacted
	}
	if list, ok := v.([]any); ok && f.Items != nil {
		list = slices.Clone(list)
		for i := range list {
			list[i] = redactValue(list[i], f.Items)
		}
		return list
	}
	return redactFields(v, f.Fields)
}

func hidesSomething(f *Field) bool {
	if f.Secret || f.Items != nil && hidesSomething(f.Items) {
		return true
	}
	for i := range f.Fields {
		if hidesSomething(&f.Fields[i]) {
			return true
		}
	}
	return false
}

// Secretive reports whether one of the fields, at any depth, is declared secret.
func Secretive(fields []Field) bool { return hidesSomething(&Field{Fields: fields}) }
