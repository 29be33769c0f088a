package reshape

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/item"
)

// maker makes a value for each item. It is for any goroutine.
type maker interface {
	make(s *scope) (*item.Value, error)
}

// compile makes a maker of a value of a config, in which any text may be a template. look may refuse one.
func compile(v any, look func(*expr.Template) error) (maker, error) {
	switch v := v.(type) {
	case string:
		return compileText(v, look)
	case []any:
		return compileList(v, look)
	case map[string]any:
		return compileObject(v, look)
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

type list []maker

func compileList(v []any, look func(*expr.Template) error) (maker, error) {
	out, fixed := make(list, len(v)), true
	for i, e := range v {
		made, err := compile(e, look)
		if err != nil {
			return nil, err
		}
		_, isFixed := made.(constant)
		out[i], fixed = made, fixed && isFixed
	}
	return folded(out, fixed)
}

func (l list) make(s *scope) (*item.Value, error) {
	out := item.NewList()
	for _, m := range l {
		v, err := m.make(s)
		if err != nil {
			return nil, err
		}
		out.Append(v)
	}
	return out, nil
}

type object []member

type member struct {
	key string
	val maker
}

func compileObject(v map[string]any, look func(*expr.Template) error) (maker, error) {
	out, fixed := make(object, 0, len(v)), true
	for _, key := range slices.Sorted(maps.Keys(v)) {
		made, err := compile(v[key], look)
		if err != nil {
			return nil, err
		}
		_, isFixed := made.(constant)
		out, fixed = append(out, member{key, made}), fixed && isFixed
	}
	return folded(out, fixed)
}

func (o object) make(s *scope) (*item.Value, error) {
	out := item.NewObject()
	for _, m := range o {
		v, err := m.val.make(s)
		if err != nil {
			return nil, err
		}
		out.Set(m.key, v)
	}
	return out, nil
}

// folded makes a constant of a value without templates inside. Its text is made once, so that goroutines can clone it
// and every item that has it writes the same text.
func folded(m maker, fixed bool) (maker, error) {
	if !fixed {
		return m, nil
	}
	made, err := m.make(nil)
	if err != nil {
		return nil, err
	}
	made, err = item.Of(expr.Raw(made.Bytes()))
	return constant{made}, err
}
