// Package pattern expands the names that stand for parts of an item in configured texts:
// "s3://bucket/{collection_id}/{item_id}/{asset_key}.tif" (specification: stac-manager; docs/semantics §2,
// the third template dialect).
//
// The names are {item_id}, {collection_id}, {asset_key} and {properties.x}, where x is an item.Path below
// properties. A brace that is meant as it stands is written twice. Parse once, expand per item. Pure; a
// Pattern does not change and may be shared.
package pattern

import (
	"slices"
	"strconv"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
)

// Pattern is a text with names in it. The zero value is the empty text.
type Pattern struct {
	parts []part
	text  string
}

// part is a literal text, or a name.
type part struct {
	literal string
	name    string
	path    item.Path // of {properties.x}, from the item's root
}

const hint = `known names are {item_id}, {collection_id}, {asset_key} and {properties.x}; write {{ and }} for literal braces`

func bad(text, what string) error {
	return &stepwell.Error{Code: stepwell.CodeInvalid, Message: "pattern " + strconv.Quote(text) + ": " + what, Hint: hint}
}

// Parse reads a text. Errors are CodeInvalid: an unknown name, a brace alone.
func Parse(text string) (Pattern, error) {
	p := Pattern{text: text}
	literal := ""
	for rest := text; ; {
		i := strings.IndexAny(rest, "{}")
		if i < 0 {
			literal += rest
			break
		}
		literal += rest[:i]
		brace := rest[i : i+1]
		switch rest = rest[i+1:]; {
		case strings.HasPrefix(rest, brace):
			literal += brace
			rest = rest[1:]
			continue
		case brace == "}":
			return Pattern{}, bad(text, "a } without a {")
		}
		name, after, closed := strings.Cut(rest, "}")
		if !closed {
			return Pattern{}, bad(text, "a { without a }")
		}
		named, err := parseName(text, name)
		if err != nil {
			return Pattern{}, err
		}
		if literal != "" {
			p.parts = append(p.parts, part{literal: literal})
		}
		p.parts = append(p.parts, named)
		literal, rest = "", after
	}
	if literal != "" {
		p.parts = append(p.parts, part{literal: literal})
	}
	return p, nil
}

func parseName(text, name string) (part, error) {
	switch name {
	case "item_id", "collection_id", "asset_key":
		return part{name: name}, nil
	}
	if !strings.HasPrefix(name, "properties.") {
		return part{}, bad(text, "unknown name {"+name+"}")
	}
	path, err := item.ParsePath(name)
	if err != nil {
		return part{}, bad(text, err.Error())
	}
	if slices.ContainsFunc(path, func(s item.Step) bool { return s.Any }) {
		return part{}, bad(text, "{"+name+"} stands for more than one value")
	}
	return part{name: name, path: path}, nil
}

// String is the text that Parse was given.
func (p Pattern) String() string { return p.text }

// Literal reports whether the text has no names in it: it expands to the same for every item.
func (p Pattern) Literal() bool {
	return len(p.parts) == 0 || len(p.parts) == 1 && p.parts[0].name == ""
}

// UsesAsset reports whether {asset_key} occurs: the pattern makes sense at assets only.
func (p Pattern) UsesAsset() bool {
	return slices.ContainsFunc(p.parts, func(s part) bool { return s.name == "asset_key" })
}

// UsesItem reports whether {item_id} or {properties.x} occurs: the pattern makes no sense for a collection.
func (p Pattern) UsesItem() bool {
	return slices.ContainsFunc(p.parts, func(s part) bool { return s.name == "item_id" || s.path != nil })
}

// Expand replaces the names by the item's values. asset is the key of the asset that the text is for, "" outside of
// assets. {collection_id} of a Collection is its own id. Errors are CodeInvalid: a value is missing, or neither a text
// nor a number nor a boolean.
func (p Pattern) Expand(it *item.Value, asset string) (string, error) {
	if len(p.parts) == 1 && p.parts[0].name == "" {
		return p.parts[0].literal, nil
	}
	var b strings.Builder
	for i := range p.parts {
		if p.parts[i].name == "" {
			b.WriteString(p.parts[i].literal)
			continue
		}
		v, err := p.lookup(&p.parts[i], it, asset)
		if err != nil {
			return "", err
		}
		switch s, ok := v.Str(); {
		case ok:
			b.WriteString(s)
		case v.Kind() == item.Number || v.Kind() == item.Bool:
			b.Write(v.Bytes())
		default:
			return "", bad(p.text, "{"+p.parts[i].name+"} is "+v.Kind().String())
		}
	}
	return b.String(), nil
}

// Value is Expand, but a pattern that is exactly one name keeps the kind of the value: a number stays a number, a list
// a list. The value is the caller's own.
func (p Pattern) Value(it *item.Value, asset string) (*item.Value, error) {
	if len(p.parts) == 1 && p.parts[0].name != "" {
		v, err := p.lookup(&p.parts[0], it, asset)
		return v.Clone(), err
	}
	text, err := p.Expand(it, asset)
	if err != nil {
		return nil, err
	}
	return item.OfText(text), nil
}

// lacks reports whether the item has no value for a property that the pattern names.
func (p Pattern) lacks(it *item.Value) bool {
	return slices.ContainsFunc(p.parts, func(s part) bool { return s.path != nil && it.Find(s.path).IsNull() })
}

// lookup is the value of a name; a missing one is an error.
func (p Pattern) lookup(s *part, it *item.Value, asset string) (*item.Value, error) {
	var v *item.Value
	switch s.name {
	case "item_id":
		v = it.Get("id")
	case "collection_id":
		if v = it.Get("collection"); v == nil {
			if kind, _ := it.Get("type").Str(); kind == "Collection" {
				v = it.Get("id")
			}
		}
	case "asset_key":
		if asset != "" {
			v = item.OfText(asset)
		}
	default:
		v = it.Find(s.path)
	}
	if v.IsNull() {
		return nil, bad(p.text, "the item has no value for {"+s.name+"}")
	}
	return v, nil
}
