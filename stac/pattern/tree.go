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
	return t.expand(it, asset, false)
}

// Present is Expand, but leaves out texts that name a property without a value, as tables have gaps; nil is nothing.
func (t *Tree) Present(it *item.Value, asset string) (*item.Value, error) {
	return t.expand(it, asset, true)
}

// Item is Present for a whole item, in which {asset_key} is the key of each asset.
func (t *Tree) Item(it *item.Value) (*item.Value, error) {
	return t.object(func(key string, kid *Tree) (*item.Value, error) {
		if key != "assets" || kid.kind != item.Object {
			return kid.Present(it, "")
		}
		return kid.object(func(asset string, kid *Tree) (*item.Value, error) { return kid.Present(it, asset) })
	})
}

func (t *Tree) expand(it *item.Value, asset string, present bool) (*item.Value, error) {
	switch t.kind {
	case item.Text:
		if present && t.pattern.lacks(it) {
			return nil, nil
		}
		return t.pattern.Value(it, asset)
	case item.List:
		out := item.NewList()
		for _, kid := range t.list {
			v, err := kid.expand(it, asset, present)
			if err != nil {
				return nil, err
			}
			if v != nil {
				out.Append(v)
			}
		}
		return out, nil
	case item.Object:
		return t.object(func(_ string, kid *Tree) (*item.Value, error) { return kid.expand(it, asset, present) })
	}
	return t.fixed.Clone(), nil
}

// object makes an object of the values that member gives; nil leaves one out.
func (t *Tree) object(member func(key string, kid *Tree) (*item.Value, error)) (*item.Value, error) {
	out := item.NewObject()
	for i, kid := range t.list {
		v, err := member(t.keys[i], kid)
		if err != nil {
			return nil, err
		}
		if v != nil {
			out.Set(t.keys[i], v)
		}
	}
	return out, nil
}
