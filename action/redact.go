package action

import (
	"maps"
	"slices"

	"github.com/stepwell/stepwell/spec"
)

// redacted replaces a secret wherever it is shown.
const redacted = "***"

// Redact returns parameters for recording and showing: those that the action's Spec declares secret, at any depth, are
// replaced. The parameters themselves are not changed; without secrets the result is the same map.
func (a *Action) Redact(params map[string]any) map[string]any {
	shown, _ := redactFields(params, a.Spec.Params).(map[string]any)
	return shown
}

func redactFields(v any, fields []spec.Field) any {
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

func redactValue(v any, f *spec.Field) any {
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

func hidesSomething(f *spec.Field) bool {
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

// Secretive reports whether the Spec declares any parameter secret.
func (a *Action) Secretive() bool { return hidesSomething(&spec.Field{Fields: a.Spec.Params}) }
