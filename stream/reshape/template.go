package reshape

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/item"
)

// maker makes a value for each item. Safe for concurrent use.
type maker interface {
	make(s *scope) (*item.Value, error)
}

// compile makes a maker of a value of a config, in which any text may be a template. look may refuse one.
func compile(v any, look func(*expr.Template) error) (maker, error) {
	switch v := v.(type) {
	case string:
		return compileText(v, look)
	case []any:
		return compileParts(nil, v, look)
	case map[string]any:
		keys, values := make([]string, 0, len(v)), make([]any, 0, len(v))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			keys, values = append(keys, key), append(values, v[key])
		}
		return compileParts(keys, values, look)
	}
	made, err := item.Of(v)
	return constant{made}, err
}

// constant is a value without templates.
type constant struct{ val *item.Value }

func (c constant) make(*scope) (*item.Value, error) { return c.val.Clone(), nil }

func compileText(source string, look func(*expr.Template) error) (maker, error) {
	t, err := expr.Parse(source)
	switch {
	case err != nil:
		return nil, err
	case t.Static():
		return constant{item.OfText(source)}, nil
	}
	if look != nil {
		if err := look(t); err != nil {
			return nil, err
		}
	}
	if path, ok := plainPath(t); ok {
		return copied{path, t}, nil
	}
	return evaluated{t}, nil
}

// evaluated is a template's value, in its own type.
type evaluated struct{ t *expr.Template }

func (e evaluated) make(s *scope) (*item.Value, error) {
	v, err := e.t.Eval(s, expr.Limits{})
	if err != nil {
		return nil, err
	}
	return item.Of(v)
}

// copied is the value of {{ item.some.place }}. It is not evaluated but copied, so that numbers stay as they
// are written and keys in their order.
type copied struct {
	path []string
	t    *expr.Template
}

func (c copied) make(s *scope) (*item.Value, error) {
	v := s.item
	for _, key := range c.path {
		if v.Kind() == item.List {
			i, err := strconv.Atoi(key)
			if err != nil {
				i = -1
			}
			v = v.At(i)
			continue
		}
		v = v.Get(key)
	}
	if v == nil { // counted from the end, a letter of a text, or undefined
		return evaluated{c.t}.make(s)
	}
	return v.Clone(), nil
}

// plainPath recognises {{ item.some.place }}, by writing the one name it mentions again.
func plainPath(t *expr.Template) ([]string, bool) {
	refs := t.Refs()
	if len(refs) != 1 || refs[0].Dynamic || refs[0].Path[0] != "item" {
		return nil, false
	}
	source := strings.TrimSpace(t.Source())
	source, opened := strings.CutPrefix(source, "{{")
	source, closed := strings.CutSuffix(source, "}}")
	rest, named := strings.CutPrefix(strings.TrimSpace(source), "item")
	if !opened || !closed || !named {
		return nil, false
	}
	for _, key := range refs[0].Path[1:] {
		found := false
		for _, form := range []string{"." + key, `["` + key + `"]`, "['" + key + "']", "[" + key + "]"} {
			if after, ok := strings.CutPrefix(rest, form); ok {
				rest, found = after, true
				break
			}
		}
		if !found {
			return nil, false
		}
	}
	return refs[0].Path[1:], rest == ""
}

// composite is a list, or an object with these keys.
type composite struct {
	keys  []string // nil: a list
	parts []maker
}

// compileParts makes a maker of a list or an object. One without templates inside becomes a constant, whose text is made
// once, so that goroutines can clone it and every item that has it writes the same text.
func compileParts(keys []string, values []any, look func(*expr.Template) error) (maker, error) {
	out, fixed := composite{keys: keys}, true
	for _, v := range values {
		part, err := compile(v, look)
		if err != nil {
			return nil, err
		}
		_, isFixed := part.(constant)
		out.parts, fixed = append(out.parts, part), fixed && isFixed
	}
	if !fixed {
		return out, nil
	}
	made, err := out.make(nil)
	if err != nil {
		return nil, err
	}
	made, err = item.Of(expr.Raw(made.Bytes()))
	return constant{made}, err
}

func (c composite) make(s *scope) (*item.Value, error) {
	out := item.NewList()
	if c.keys != nil {
		out = item.NewObject()
	}
	for i, part := range c.parts {
		v, err := part.make(s)
		if err != nil {
			return nil, err
		}
		if c.keys == nil {
			out.Append(v)
		} else {
			out.Set(c.keys[i], v)
		}
	}
	return out, nil
}
