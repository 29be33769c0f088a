package pattern

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
)

// Tree is a configured value, all texts of which, at any depth, are patterns. Names of members are not.
type Tree struct {
	fixed   *item.Value // a value without names in it
	pattern Pattern
	list    []*Tree
	keys    []string // of an object's members
	kind    item.Kind
}

// MaxDepth bounds the nesting of a Tree.
const MaxDepth = 32

// ParseTree reads a config value, of the types of item.Of. Errors are those of Parse, and CodeInvalid for a value that
// is nested too deeply.
func ParseTree(v any) (*Tree, error) {
	val, err := item.Of(v)
	if err != nil {
		return nil, err
	}
	return parseTree(val, MaxDepth)
}

func parseTree(v *item.Value, depth int) (*Tree, error) {
	if depth == 0 {
		return nil, &stepwell.Error{Code: stepwell.CodeInvalid, Message: "the value is nested more than " + strconv.Itoa(MaxDepth) + " levels deep"}
	}
	t := &Tree{kind: v.Kind()}
	add := func(at string, inner *item.Value) error {
		kid, err := parseTree(inner, depth-1)
		if err != nil {
			return err
		}
		t.list, t.keys = append(t.list, kid), append(t.keys, at)
		return nil
	}
	var err error
	switch t.kind {
	case item.Text:
		s, _ := v.Str()
		t.pattern, err = Parse(s)
		return t, err
	case item.List:
		for _, inner := range v.Elements() {
			if err := add("", inner); err != nil {
				return nil, err
			}
		}
	case item.Object:
		for key, inner := range v.Members() {
			if err := add(key, inner); err != nil {
				return nil, err
			}
		}
	default:
		// A copy of the text: Of may have returned one that the config shares.
		t.fixed, err = item.Parse(append(json.RawMessage{}, v.Bytes()...))
	}
	return t, err
}

// UsesAsset reports whether {asset_key} occurs anywhere.
func (t *Tree) UsesAsset() bool { return t.uses(Pattern.UsesAsset) }

// UsesItem reports whether {item_id} or {properties.x} occurs anywhere.
func (t *Tree) UsesItem() bool { return t.uses(Pattern.UsesItem) }

func (t *Tree) uses(names func(Pattern) bool) bool {
	return names(t.pattern) || slices.ContainsFunc(t.list, func(kid *Tree) bool { return kid.uses(names) })
}

// Expand makes the value for one item, as Pattern.Value does at every text. It is the caller's own.
func (t *Tree) Expand(it *item.Value, asset string) (*item.Value, error) {
	switch t.kind {
	case item.Text:
		return t.pattern.Value(it, asset)
	case item.List:
		out := item.NewList()
		for _, kid := range t.list {
			v, err := kid.Expand(it, asset)
			if err != nil {
				return nil, err
			}
			out.Append(v)
		}
		return out, nil
	case item.Object:
		out := item.NewObject()
		for i, kid := range t.list {
			v, err := kid.Expand(it, asset)
			if err != nil {
				return nil, err
			}
			out.Set(t.keys[i], v)
		}
		return out, nil
	}
	return t.fixed.Clone(), nil
}
