package spec

import (
	"encoding/json"
	"maps"
	"math"
)

// Apply gives the values with the defaults of absent ones filled in, at every depth, and with numbers
// in the field's own type: int64 for integers (also from 3.0), float64 for numbers. Nothing else is
// converted. The values given are not changed; when there is nothing to do they are returned as
// they are. Apply expects values that passed Check.
func (c *Checker) Apply(values map[string]any) map[string]any {
	out, _ := c.root.apply(values)
	return out
}

// apply copies the map when the first member changes.
func (o *object) apply(values map[string]any) (out map[string]any, changed bool) {
	if !o.fills {
		return values, false
	}
	out = values
	for i := range o.members {
		m := &o.members[i]
		v, changes := m.fill(out)
		if !changes {
			continue
		}
		if !changed {
			if out = maps.Clone(values); out == nil {
				out = map[string]any{}
			}
			changed = true
		}
		out[m.Name] = v
	}
	return out, changed
}

// fill returns the member's value if it differs from the present one.
func (m *member) fill(values map[string]any) (v any, changes bool) {
	v, given := values[m.Name]
	if v == nil {
		if m.Default == nil || m.Type == Any && given {
			return nil, false
		}
		v, _ = m.convert(Clone(m.Default))
		return v, true
	}
	return m.convert(v)
}

// convert gives the value in the member's own type.
func (m *member) convert(v any) (converted any, changed bool) {
	if !m.fills {
		return v, false
	}
	switch m.Type {
	case Integer:
		return toInteger(v)
	case Number:
		return toFloat(v)
	case Object:
		if values, ok := v.(map[string]any); ok {
			return m.fields.apply(values)
		}
	case Array:
		if list, ok := v.([]any); ok {
			return m.convertList(list)
		}
	}
	return v, false
}

func (m *member) convertList(list []any) (any, bool) {
	out, changed := list, false
	for i, item := range list {
		v, changes := m.items.convert(item)
		if !changes {
			continue
		}
		if !changed {
			out, changed = append([]any(nil), list...), true
		}
		out[i] = v
	}
	return out, changed
}

func toInteger(v any) (any, bool) {
	switch n := v.(type) {
	case int64:
		return v, false
	case int:
		return int64(n), true
	case int32:
		return int64(n), true
	case uint64:
		if n <= math.MaxInt64 {
			return int64(n), true
		}
	case json.Number:
		if i, err := n.Int64(); err == nil {
			return i, true
		}
		return toWhole(v, n)
	case float32, float64:
		return toWhole(v, n)
	}
	return v, false
}

func toWhole(v, n any) (any, bool) {
	f, ok := number(n)
	if ok && f == math.Trunc(f) && math.Abs(f) < 1<<63 {
		return int64(f), true
	}
	return v, false
}

func toFloat(v any) (any, bool) {
	if _, already := v.(float64); already {
		return v, false
	}
	f, ok := number(v)
	if !ok {
		return v, false
	}
	return f, true
}

// Clone copies a plain value, so that whoever changes the copy changes no definition.
func Clone(v any) any {
	switch v := v.(type) {
	case map[string]any:
		c := make(map[string]any, len(v))
		for key, inner := range v {
			c[key] = Clone(inner)
		}
		return c
	case []any:
		c := make([]any, len(v))
		for i, inner := range v {
			c[i] = Clone(inner)
		}
		return c
	}
	return v
}
