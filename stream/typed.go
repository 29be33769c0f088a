package stream

import (
	"context"
	"slices"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/spec"
)

// Typed is a Module whose config is the struct C. Its tags (package spec) are the fields of Spec.Params; only fields
// whose description a tag cannot hold are given there. Check does the checks that tags cannot. Fields of C without a
// json tag are the module's own: Check may set them for Open.
type Typed[C any] struct {
	Spec spec.Spec
	// Check returns every problem of a config that fits the tags, without I/O. Defaults to none. Early is set before
	// templates are rendered: texts that hold one are absent from c then, except in Raw fields.
	Check func(c *C, config Config) []error
	// Open is Module.Open, of a config without problems.
	Open func(ctx context.Context, env *Env, c *C) (any, error)
	// Try is Module.Try. Defaults to Open where that is Pure, else to Check alone.
	Try func(ctx context.Context, env *Env, c *C) []error
	// Pure says that Open changes nothing.
	Pure bool
	// Replaces is Module.Replaces.
	Replaces func(c *C) bool
}

// Config is a config as it was written.
type Config struct {
	Values map[string]any
	Early  bool // templates are still to be rendered
}

// Has reports whether a field is given, be it by a template.
func (c Config) Has(name string) bool { return c.Values[name] != nil && c.Values[name] != "" }

// Given lists those of some fields that are given.
func (c Config) Given(names ...string) (given []string) {
	for _, name := range names {
		if c.Has(name) {
			given = append(given, name)
		}
	}
	return given
}

// Module is the Module.
func (t Typed[C]) Module() Module {
	fields := spec.FieldsOf[C]()
	for _, given := range t.Spec.Params {
		i := slices.IndexFunc(fields, func(f spec.Field) bool { return f.Name == given.Name })
		fields[i] = given
	}
	t.Spec.Params = fields
	if t.Check == nil {
		t.Check = func(*C, Config) []error { return nil }
	}
	m := Module{Spec: t.Spec}
	read := func(values map[string]any) (*C, []error) {
		c := new(C)
		if err := spec.Bind(values, c); err != nil {
			return nil, []error{err}
		}
		return c, t.Check(c, Config{Values: values})
	}
	m.Open = func(ctx context.Context, env *Env, values map[string]any) (any, error) {
		c, problems := read(values)
		if len(problems) > 0 {
			return nil, &Error{Type: ConfigurationError, Err: problems[0]}
		}
		return t.Open(ctx, env, c)
	}
	m.Try = func(ctx context.Context, env *Env, values map[string]any) []error {
		c, problems := read(values)
		if len(problems) > 0 {
			return problems
		}
		if t.Try != nil {
			return t.Try(ctx, env, c)
		}
		if !t.Pure {
			return nil
		}
		if _, err := t.Open(ctx, env, c); err != nil {
			return []error{err}
		}
		return nil
	}
	m.Check = func(values map[string]any) []error {
		c := new(C)
		if err := spec.BindTemplated(values, c); err != nil {
			return nil // the Spec says so
		}
		return t.Check(c, Config{Values: values, Early: true})
	}
	if t.Replaces != nil {
		m.Replaces = func(values map[string]any) bool {
			c := new(C)
			err := spec.BindTemplated(values, c)
			return err == nil && t.Replaces(c)
		}
	}
	return m
}

// Problems collects the errors of a config.
type Problems []error

// Add adds an error under its place, unless it is nil.
func (p *Problems) Add(where string, err error) {
	if err != nil {
		*p = append(*p, &stepwell.Error{Code: stepwell.CodeInvalid, Message: where, Hint: stepwell.HintOf(err), Err: err})
	}
}

// Pending reports whether there is a text with a template in it, so that only some of the config is known.
func (c Config) Pending() bool { return c.Early && pending(c.Values) }

func pending(v any) bool {
	switch v := v.(type) {
	case string:
		return strings.Contains(v, "{{") || strings.Contains(v, "{%")
	case []any:
		return slices.ContainsFunc(v, pending)
	case map[string]any:
		for _, inner := range v {
			if pending(inner) {
				return true
			}
		}
	}
	return false
}
