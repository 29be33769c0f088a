package scaffold

import (
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stac/pattern"
)

// template is a value whose texts are patterns. Unlike pattern.Tree it omits missing values, as tables have gaps. It is
// immutable.
type template struct {
	kind     item.Kind
	text     pattern.Pattern
	needs    []item.Path // of the properties in text
	json     string      // of other values
	children []*template
	keys     []string
}

func parseTemplate(v *item.Value) (*template, error) {
	return parseNode(v, pattern.MaxDepth)
}

func parseNode(v *item.Value, depth int) (*template, error) {
	if depth == 0 {
		return nil, stepwell.Invalid("", "the template is nested more than %d levels deep", pattern.MaxDepth)
	}
	t := &template{kind: v.Kind(), json: string(v.Bytes())}
	var err error
	add := func(key string, inner *item.Value) {
		if err != nil {
			return
		}
		var child *template
		child, err = parseNode(inner, depth-1)
		t.children, t.keys = append(t.children, child), append(t.keys, key)
	}
	switch t.kind {
	case item.Text:
		text, _ := v.Str()
		if t.text, err = pattern.Parse(text); err == nil {
			t.needs, err = needs(text)
		}
	case item.List:
		for _, inner := range v.Elements() {
			add("", inner)
		}
	case item.Object:
		for key, inner := range v.Members() {
			add(key, inner)
		}
	}
	return t, err
}

// needs are the paths of the properties that a pattern, which has been parsed, names.
func needs(text string) ([]item.Path, error) {
	var out []item.Path
	text = strings.NewReplacer("{{", "", "}}", "").Replace(text)
	for {
		_, after, found := strings.Cut(text, "{")
		if !found {
			return out, nil
		}
		name, rest, _ := strings.Cut(after, "}")
		if text = rest; !strings.HasPrefix(name, "properties.") {
			continue
		}
		path, err := item.ParsePath(name)
		if err != nil {
			return nil, err
		}
		out = append(out, path)
	}
}

// expand makes the value for one item, nil when it is left out. asset is the key of the asset around it.
func (t *template) expand(vars *item.Value, asset string) (*item.Value, error) {
	switch t.kind {
	case item.Text:
		for _, path := range t.needs {
			if vars.Find(path).IsNull() {
				return nil, nil
			}
		}
		return t.text.Value(vars, asset)
	case item.List:
		out := item.NewList()
		for _, child := range t.children {
			v, err := child.expand(vars, asset)
			if err != nil {
				return nil, err
			}
			if v != nil {
				out.Append(v)
			}
		}
		return out, nil
	case item.Object:
		out := item.NewObject()
		for i, child := range t.children {
			v, err := child.expand(vars, asset)
			if err != nil {
				return nil, err
			}
			if v != nil {
				out.Set(t.keys[i], v)
			}
		}
		return out, nil
	}
	return item.Parse([]byte(t.json))
}

// item expands a template of a whole item, in which assets have keys.
func (t *template) item(vars *item.Value) (*item.Value, error) {
	out := item.NewObject()
	for i, key := range t.keys {
		child := t.children[i]
		if key != "assets" || child.kind != item.Object {
			v, err := child.expand(vars, "")
			if err != nil {
				return nil, err
			}
			if v != nil {
				out.Set(key, v)
			}
			continue
		}
		assets := item.NewObject()
		for j, name := range child.keys {
			v, err := child.children[j].expand(vars, name)
			if err != nil {
				return nil, err
			}
			if v != nil {
				assets.Set(name, v)
			}
		}
		out.Set(key, assets)
	}
	return out, nil
}
