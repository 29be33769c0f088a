package plan

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/spec"
)

// Value is a document value in which strings may be templates, compiled once.
type Value struct {
	static any // when nothing in it is a template
	tmpl   *expr.Template
	list   []*Value
	keys   []string // of an object, sorted, with list as its values
	object bool
	raw    []*expr.Template // in a part that the handler renders itself
}

// CompileValue turns a document value into a Value. The error names the path inside the value.
func CompileValue(v any) (*Value, error) { return compileValue(v, "", nil) }

// compileValue takes the description of the value along, if there is one: what is Raw is left as it is.
func compileValue(v any, path string, f *spec.Field) (*Value, error) {
	if f == nil {
		f = &spec.Field{}
	}
	if f.Raw {
		out := &Value{static: v}
		return out, rawTemplates(v, path, &out.raw)
	}
	switch v := v.(type) {
	case string:
		if !strings.Contains(v, "{{") && !strings.Contains(v, "{%") && !strings.Contains(v, "{#") {
			return &Value{static: v}, nil
		}
		t, err := expr.Parse(v)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		return &Value{tmpl: t}, nil
	case []any:
		return compileList(v, path, f.Items)
	case map[string]any:
		return compileObject(v, path, f.Fields)
	default:
		return &Value{static: v}, nil
	}
}

// rawTemplates collects the templates in a value that is not rendered here, for what they read.
func rawTemplates(v any, path string, into *[]*expr.Template) error {
	switch v := v.(type) {
	case string:
		parse := expr.Parse
		if !strings.Contains(v, "{{") && !strings.Contains(v, "{%") && !strings.Contains(v, "{#") {
			parse = expr.ParseExpression // a condition without braces, or a text
		}
		if t, err := parse(v); err == nil && len(t.Refs()) > 0 {
			*into = append(*into, t)
		} // else the handler knows better what it is, and has its own error for it
	case []any:
		for i, e := range v {
			if err := rawTemplates(e, path+"["+strconv.Itoa(i)+"]", into); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if err := rawTemplates(v[k], path+"."+k, into); err != nil {
				return err
			}
		}
	}
	return nil
}

func compileList(v []any, path string, items *spec.Field) (*Value, error) {
	out := &Value{list: make([]*Value, len(v))}
	static := true
	for i, e := range v {
		c, err := compileValue(e, path+"["+strconv.Itoa(i)+"]", items)
		if err != nil {
			return nil, err
		}
		out.list[i] = c
		out.raw = append(out.raw, c.raw...)
		static = static && c.Static()
	}
	if static {
		return &Value{static: v, raw: out.raw}, nil
	}
	return out, nil
}

func compileObject(v map[string]any, path string, fields []spec.Field) (*Value, error) {
	out := &Value{object: true, keys: slices.Sorted(maps.Keys(v))}
	static := true
	for _, k := range out.keys {
		field, _ := spec.FieldNamed(fields, k)
		c, err := compileValue(v[k], strings.TrimPrefix(path+"."+k, "."), field)
		if err != nil {
			return nil, err
		}
		out.list = append(out.list, c)
		out.raw = append(out.raw, c.raw...)
		static = static && c.Static()
	}
	if static {
		return &Value{static: v, raw: out.raw}, nil
	}
	return out, nil
}

// Static reports whether rendering gives the same value whatever the scope.
func (v *Value) Static() bool { return v == nil || v.tmpl == nil && v.list == nil }

// Render evaluates the templates. The result shares nothing with v, so that its user may change it.
func (v *Value) Render(s expr.Scope, l expr.Limits) (any, error) {
	switch {
	case v == nil:
		return nil, nil
	case v.tmpl != nil:
		return v.tmpl.Eval(s, l)
	case v.object:
		out := make(map[string]any, len(v.keys))
		for i, k := range v.keys {
			r, err := v.list[i].Render(s, l)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", k, err)
			}
			out[k] = r
		}
		return out, nil
	case v.list != nil:
		out := make([]any, len(v.list))
		for i, e := range v.list {
			r, err := e.Render(s, l)
			if err != nil {
				return nil, fmt.Errorf("[%d]: %w", i, err)
			}
			out[i] = r
		}
		return out, nil
	default:
		return clone(v.static), nil
	}
}

func clone(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = clone(e)
		}
		return out
	case []any:
		out := slices.Clone(v)
		for i, e := range out {
			out[i] = clone(e)
		}
		return out
	default:
		return v
	}
}

// templates calls f for every template in v, those that the handler renders included.
func (v *Value) templates(f func(*expr.Template)) {
	if v == nil {
		return
	}
	for _, t := range v.raw {
		f(t)
	}
	v.rendered(f)
}

func (v *Value) rendered(f func(*expr.Template)) {
	if v.tmpl != nil {
		f(v.tmpl)
	}
	for _, e := range v.list {
		e.rendered(f)
	}
}
