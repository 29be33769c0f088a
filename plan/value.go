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
	parts  *parts // of a list or an object with templates in it
}

// parts are absent from most values.
type parts struct {
	list []*Value
	keys []string         // of an object, sorted, with list as its values; nil for a list
	raw  []*expr.Template // in parts that the handler renders itself
}

// CompileValue turns a document value into a Value. The error names the path inside the value.
func CompileValue(v any) (*Value, error) { return compileValue(v, "", nil) }

// compileValue uses the description of the value, if there is one: a Raw field is left as it is.
func compileValue(v any, path string, f *spec.Field) (*Value, error) {
	if f == nil {
		f = &spec.Field{}
	}
	if f.Raw {
		return withRaw(v, rawTemplates(v, f, nil)), nil
	}
	switch v := v.(type) {
	case string:
		if !spec.Templated(v) {
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

// withRaw is a static value, of which the handler may render parts.
func withRaw(v any, raw []*expr.Template) *Value {
	if len(raw) == 0 {
		return &Value{static: v}
	}
	return &Value{static: v, parts: &parts{raw: raw}}
}

// rawTemplates adds the templates in a value that is not rendered here, for their reads. A malformed one is left to
// the handler, which has a better error for it.
func rawTemplates(v any, f *spec.Field, into []*expr.Template) []*expr.Template {
	if f == nil {
		f = &spec.Field{}
	}
	switch v := v.(type) {
	case string:
		parse := expr.Parse
		if !spec.Templated(v) {
			if !f.Bare {
				return into
			}
			parse = expr.ParseExpression
		}
		if t, err := parse(v); err == nil && len(t.Refs()) > 0 {
			into = append(into, t)
		}
	case []any:
		for _, e := range v {
			into = rawTemplates(e, f.Element(), into)
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			into = rawTemplates(v[k], f.Member(k), into)
		}
	}
	return into
}

func compileList(v []any, path string, items *spec.Field) (*Value, error) {
	out := &parts{list: make([]*Value, len(v))}
	static := true
	for i, e := range v {
		c, err := compileValue(e, path+"["+strconv.Itoa(i)+"]", items)
		if err != nil {
			return nil, err
		}
		out.list[i] = c
		static = static && c.Static()
	}
	return out.value(v, static), nil
}

func compileObject(v map[string]any, path string, fields []spec.Field) (*Value, error) {
	out := &parts{keys: slices.Sorted(maps.Keys(v))}
	static := true
	for _, k := range out.keys {
		field, _ := spec.FieldNamed(fields, k)
		c, err := compileValue(v[k], strings.TrimPrefix(path+"."+k, "."), field)
		if err != nil {
			return nil, err
		}
		out.list = append(out.list, c)
		static = static && c.Static()
	}
	return out.value(v, static), nil
}

// value makes the value of parts. A static one keeps only the parts that the handler renders.
func (p *parts) value(v any, static bool) *Value {
	if !static {
		return &Value{parts: p}
	}
	var raw []*expr.Template
	for _, c := range p.list {
		c.Templates(func(t *expr.Template) { raw = append(raw, t) })
	}
	return withRaw(v, raw)
}

// Static reports whether rendering gives the same value for every scope.
func (v *Value) Static() bool {
	return v == nil || v.tmpl == nil && (v.parts == nil || v.parts.list == nil)
}

// Render evaluates the templates. The result shares nothing with v, so that its user may change it.
func (v *Value) Render(s expr.Scope, l expr.Limits) (any, error) {
	switch {
	case v == nil:
		return nil, nil
	case v.tmpl != nil:
		return v.tmpl.Eval(s, l)
	case v.Static():
		return spec.Clone(v.static), nil
	case v.parts.keys == nil:
		out := make([]any, len(v.parts.list))
		for i, e := range v.parts.list {
			r, err := e.Render(s, l)
			if err != nil {
				return nil, fmt.Errorf("[%d]: %w", i, err)
			}
			out[i] = r
		}
		return out, nil
	default:
		out := make(map[string]any, len(v.parts.keys))
		for i, k := range v.parts.keys {
			r, err := v.parts.list[i].Render(s, l)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", k, err)
			}
			out[k] = r
		}
		return out, nil
	}
}

// Unrendered calls f for every template in v, at any depth, that the handler renders itself.
func (v *Value) Unrendered(f func(*expr.Template)) {
	if v == nil || v.parts == nil {
		return
	}
	for _, t := range v.parts.raw {
		f(t)
	}
	for _, e := range v.parts.list {
		e.Unrendered(f)
	}
}

// Templates calls f for every template in v, at any depth, also those that the handler renders.
func (v *Value) Templates(f func(*expr.Template)) {
	if v == nil {
		return
	}
	if v.tmpl != nil {
		f(v.tmpl)
	}
	if v.parts == nil {
		return
	}
	for _, t := range v.parts.raw {
		f(t)
	}
	for _, e := range v.parts.list {
		e.Templates(f)
	}
}

// document is the value as it was written, templates as text.
func (v *Value) document() any {
	switch {
	case v == nil:
		return nil
	case v.tmpl != nil:
		return v.tmpl.Source()
	case v.Static():
		return v.static
	case v.parts.keys == nil:
		list := make([]any, len(v.parts.list))
		for i, e := range v.parts.list {
			list[i] = e.document()
		}
		return list
	}
	object := make(map[string]any, len(v.parts.keys))
	for i, key := range v.parts.keys {
		object[key] = v.parts.list[i].document()
	}
	return object
}
