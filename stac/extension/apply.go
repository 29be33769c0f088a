package extension

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stac/schema"
	"github.com/stepwell/stepwell/stac/summary"
	"github.com/stepwell/stepwell/stream"
)

// change is the changes made to one object.
type change struct {
	any    bool
	assets map[string]bool // those changed
	absent []string        // assets that a default names and that are not there
}

// failure is an ExtensionError at a path.
func failure(path item.Path, err error) error {
	return &stream.Error{Type: stream.ExtensionError, Context: stream.Context{Field: path.String()}, Err: err}
}

// apply declares the extension and fills in values.
func (s *settings) apply(it *stream.Item, scaffold []fill) (c change, err error) {
	c.assets = map[string]bool{}
	if c.any, err = s.declare(it.Value); err != nil {
		return c, failure(item.Path{{Key: "stac_extensions"}}, err)
	}
	kind, _ := it.Get("type").Str()
	for i := range s.fills {
		if err := fillAs(it, kind, &s.fills[i], &c); err != nil {
			return c, err
		}
	}
	if kind == string(schema.Collection) {
		return c, s.summarise(it, &c)
	}
	for i := range scaffold {
		if err := fillAs(it, kind, &scaffold[i], &c); err != nil {
			return c, err
		}
	}
	return c, nil
}

// fillAs applies a fill as the kind of object needs it.
func fillAs(it *stream.Item, kind string, f *fill, c *change) error {
	root := f.path[0].Key
	switch schema.Kind(kind) {
	case schema.Catalog:
		if root == "properties" || root == "summaries" || inAssets(f.path) {
			return nil
		}
	case schema.Collection:
		if root == "properties" || f.value.UsesItem() {
			return nil // properties: summarise
		}
		if err := putValue(it, f, f.path, c); err != nil || root != "assets" {
			return err
		}
		if last := f.path[len(f.path)-1]; last.Key == "href" {
			return nil // item_assets have none
		}
		return putValue(it, f, append(item.Path{{Key: "item_assets"}}, f.path[1:]...), c)
	default:
		if root == "summaries" || root == "item_assets" {
			return nil
		}
	}
	return putValue(it, f, f.path, c)
}

// putValue writes the value to every place of the path that is to have it.
func putValue(it *stream.Item, f *fill, path item.Path, c *change) error {
	if inAssets(path) {
		assets := it.Get(path[0].Key)
		if assets.Kind() != item.Object {
			return nil // missing assets are not made up
		}
		if !path[1].Any && assets.Get(path[1].Key).Kind() != item.Object {
			if path[0].Key == "assets" {
				c.absent = append(c.absent, path[1].Key)
			}
			return nil
		}
	}
	err := it.Put(path, true, func(stars []string, old *item.Value) (*item.Value, error) {
		if old != nil && (f.over == never || f.over == nullOnly && !old.IsNull()) {
			return nil, nil
		}
		asset := ""
		if inAssets(path) {
			if asset = path[1].Key; path[1].Any {
				asset = stars[0]
			}
		}
		val, err := f.value.Expand(it.Value, asset)
		if err != nil || old != nil && equal(old, val) {
			return nil, err
		}
		c.any = true
		if asset != "" {
			c.assets[asset] = true
		}
		return val, nil
	})
	if err != nil {
		return failure(path, err)
	}
	return nil
}

// equal compares texts, white space aside.
func equal(a, b *item.Value) bool {
	x, y := jsontext.Value(bytes.Clone(a.Bytes())), jsontext.Value(bytes.Clone(b.Bytes()))
	return x.Canonicalize() == nil && y.Canonicalize() == nil && bytes.Equal(x, y)
}

// summarise puts the values of properties into a collection's summaries: added to a list of values, while a
// range or a JSON Schema stays as it is.
func (s *settings) summarise(it *stream.Item, c *change) error {
	for _, sum := range s.sums {
		at := item.Path{{Key: "summaries"}, {Key: sum.name}}
		val, err := sum.value.Expand(it.Value, "")
		if err != nil {
			return failure(at, err)
		}
		list := it.Find(at)
		if !list.IsNull() && list.Kind() != item.List {
			continue
		}
		values := []*item.Value{val}
		if val.Kind() == item.List {
			values = nil
			for _, v := range val.Elements() {
				values = append(values, v.Clone())
			}
		}
		var more []*item.Value
		for _, v := range values {
			if !contains(list, v) {
				more = append(more, v)
			}
		}
		if len(more) == 0 {
			continue
		}
		c.any = true
		if list.Kind() == item.List {
			list.Append(more...)
			continue
		}
		err = it.Put(at, true, func([]string, *item.Value) (*item.Value, error) { return item.NewList(more...), nil })
		if err != nil {
			return failure(at, err)
		}
	}
	return nil
}

func contains(list, v *item.Value) bool {
	for _, e := range list.Elements() {
		if equal(e, v) {
			return true
		}
	}
	return false
}

// declare adds the schema to stac_extensions, once, and takes older versions away when asked to.
func (s *settings) declare(it *item.Value) (changed bool, err error) {
	list := it.Get("stac_extensions")
	if list.IsNull() {
		it.Set("stac_extensions", item.NewList(item.OfText(s.uri)))
		return true, nil
	}
	if list.Kind() != item.List {
		return false, fmt.Errorf("stac_extensions is %s, not a list", list.Kind())
	}
	there := false
	for _, e := range list.Elements() {
		text, _ := e.Str()
		there = there || schema.Normal(text) == s.uri
	}
	var kept []*item.Value
	for _, e := range list.Elements() {
		text, _ := e.Str()
		switch {
		case !s.ReplaceVersion || !s.older(text):
			kept = append(kept, e.Clone())
		case !there:
			kept, there, changed = append(kept, item.OfText(s.uri)), true, true
		default:
			changed = true
		}
	}
	if !there {
		kept, changed = append(kept, item.OfText(s.uri)), true
	}
	if changed {
		it.Set("stac_extensions", item.NewList(kept...))
	}
	return changed, nil
}

// older reports whether a text is the short name or an older version of the extension.
func (s *settings) older(text string) bool {
	if s.known.Name != "" && (text == s.known.Name || text == s.known.Prefix) {
		return true
	}
	mine, version := schema.Version(s.uri)
	theirs, other := schema.Version(text)
	return mine == theirs && other != "" && other != version && summary.Later(version, other)
}

// check are the checks of our own: a schema that passes may prove nothing (stac-and-media §0.6).
func (s *settings) check(it *stream.Item) error {
	kind, _ := it.Get("type").Str()
	if kind == string(schema.Collection) || kind == string(schema.Catalog) {
		return nil
	}
	required := s.required
	if s.Validate {
		for i := range s.fills {
			if f := &s.fills[i]; !f.null && (f.path[0].Key == "properties" || f.path[0].Key == "assets" && f.path[1].Any) {
				required = append(required[:len(required):len(required)], f.path)
			}
		}
	}
	for _, path := range required {
		if at, ok := lacks(it.Value, path, 0); ok {
			return failure(path, errors.New("missing "+at))
		}
	}
	if s.Validate && s.known.Name == "alternate-assets" {
		return alternates(it)
	}
	return nil
}

// lacks finds a place of a path that has no value.
func lacks(v *item.Value, path item.Path, i int) (at string, found bool) {
	switch {
	case i > 0 && v.IsNull():
		return path[:i].String(), true
	case i == len(path):
		return "", false
	case path[i].IsIndex:
		return lacks(v.At(path[i].Index), path, i+1)
	case !path[i].Any:
		return lacks(v.Get(path[i].Key), path, i+1)
	}
	inside := func(key string, inner *item.Value) (string, bool) {
		if at, found := lacks(inner, path, i+1); found {
			return at + " of " + key, true
		}
		return "", false
	}
	for key, inner := range v.Members() {
		if at, found := inside(key, inner); found {
			return at, true
		}
	}
	for n, inner := range v.Elements() {
		if at, found := inside(fmt.Sprint(n), inner); found {
			return at, true
		}
	}
	return "", false
}

// alternates makes a check that the schema of alternate-assets 1.2.0 misses in items: it takes `alternate` for the key
// of an asset.
func alternates(it *stream.Item) error {
	for key, asset := range it.Get("assets").Members() {
		alternate := asset.Get("alternate")
		if alternate == nil {
			continue
		}
		at := item.Path{{Key: "assets"}, {Key: key}, {Key: "alternate"}}
		if alternate.Kind() != item.Object || alternate.Len() == 0 {
			return failure(at, errors.New("is not an object of alternate places"))
		}
		for name, place := range alternate.Members() {
			if href, _ := place.Get("href").Str(); href == "" {
				return failure(append(at, item.Step{Key: name}), errors.New("missing href"))
			}
		}
	}
	return nil
}
