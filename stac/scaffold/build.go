package scaffold

import (
	"context"
	"iter"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stac/transform/convert"
	"github.com/stepwell/stepwell/stream"
)

// builder is the component of mode items.
type builder struct {
	*config
	items atomic.Int64
}

// Modify completes an item.
func (b *builder) Modify(_ context.Context, it *stream.Item) (*stream.Item, error) {
	out, err := b.build(it.Value)
	if err != nil {
		return nil, err
	}
	b.items.Add(1)
	it.Value.Replace(out)
	return it, nil
}

// Read is of no use: there is nothing to complete.
func (b *builder) Read(context.Context, iter.Seq[*stream.Item], stream.Out) error {
	return &stream.Error{Type: stream.ConfigurationError, Err: stepwell.Invalid("write depends_on", "no items come to complete")}
}

// Finish gives the count.
func (b *builder) Finish(error) (any, error) { return map[string]any{"items": b.items.Load()}, nil }

// draft is an item on the way to being one.
type draft struct {
	*config
	out            *item.Value // members as they come, above the template
	id, collection string
}

// build makes the item. It is a straight line.
func (b *builder) build(from *item.Value) (*item.Value, error) {
	d := &draft{config: b.config}
	vars := item.NewObject() // the scope of patterns
	properties, isRow := from.Get("properties"), false
	if properties.Kind() != item.Object {
		properties, isRow = from, true
	}
	vars.Set("properties", properties.Clone())
	if err := d.name(from, vars); err != nil {
		return nil, err
	}
	if err := d.mergeTemplate(from, vars, isRow); err != nil {
		return nil, err
	}
	if err := d.addDefaults(vars); err != nil {
		return nil, err
	}
	if err := d.times(); err != nil {
		return nil, err
	}
	if err := d.place(); err != nil {
		return nil, err
	}
	if err := d.assets(); err != nil {
		return nil, err
	}
	d.projection()
	d.uris()
	d.links()
	return d.finish(), nil
}

// name finds collection and id, also for patterns.
func (d *draft) name(from, vars *item.Value) error {
	d.collection = d.CollectionID
	if d.collection == "" {
		d.collection = textOf(from.Get("collection"))
	}
	if d.collection != "" {
		vars.Set("collection", item.OfText(d.collection))
	}
	d.id = textOf(from.Get("id"))
	if d.id != "" {
		vars.Set("id", item.OfText(d.id))
	}
	if d.config.id != nil {
		id, err := d.config.id.Expand(vars, "")
		if err != nil {
			return stream.At("id", err)
		}
		if d.SanitizeID {
			id = sanitized(id)
		}
		d.id = id
		vars.Set("id", item.OfText(id))
	}
	if d.id == "" {
		return stream.At("id", stepwell.Invalid("map a column to id, or write id_pattern", "there is no id"))
	}
	return nil
}

func textOf(v *item.Value) string {
	if v.IsNull() {
		return ""
	}
	text, err := convert.Text(v)
	if err != nil {
		return ""
	}
	s, _ := text.Str()
	return s
}

// sanitized replaces characters unsafe in file names, URLs and object stores.
func sanitized(id string) string {
	id = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
			return r
		}
		return '_'
	}, strings.TrimSpace(id))
	if strings.Trim(id, ".") == "" {
		return strings.ReplaceAll(id, ".", "_")
	}
	return id
}

// ownMembers are the members that a plain row may have for the item itself.
var ownMembers = []string{"geometry", "bbox", "datetime", "start_datetime", "end_datetime"}

// mergeTemplate merges the input over the template.
func (d *draft) mergeTemplate(from, vars *item.Value, isRow bool) error {
	d.out = item.NewObject()
	if d.template != nil {
		var err error
		if d.out, err = d.template.Item(vars); err != nil {
			return stream.At("item_template", err)
		}
	}
	if !isRow {
		for key, val := range from.Members() {
			d.putOver(key, val)
		}
		return nil
	}
	rest := item.NewObject()
	for key, val := range from.Members() {
		switch {
		case key == "id" || key == "collection":
		case slices.Contains(ownMembers, key):
			d.putOver(key, val)
		case (key == "assets" || key == "links") && val.Kind() >= item.List:
			d.putOver(key, val)
		case d.template == nil && !val.IsNull():
			rest.Set(key, val.Clone())
		}
	}
	d.putOver("properties", rest)
	return nil
}

// putOver puts a member over that of the template. Null and empty values are ignored.
func (d *draft) putOver(key string, val *item.Value) {
	mine := d.out.Get(key)
	switch {
	case mine == nil:
		d.out.Set(key, val.Clone())
	case val.IsNull() || val.Kind() == item.List && val.Len() == 0:
	case key == "geometry" || mine.Kind() != item.Object || val.Kind() != item.Object:
		d.out.Set(key, val.Clone())
	default:
		mergePresent(mine, val)
	}
}

// mergePresent is Value.Merge, but a null hides nothing.
func mergePresent(mine, val *item.Value) {
	for key, v := range val.Members() {
		switch have := mine.Get(key); {
		case have == nil:
			mine.Set(key, v.Clone())
		case v.IsNull():
		case have.Kind() == item.Object && v.Kind() == item.Object:
			mergePresent(have, v)
		default:
			mine.Set(key, v.Clone())
		}
	}
}

// addDefaults adds the default properties.
func (d *draft) addDefaults(vars *item.Value) error {
	if d.out.Get("properties").Kind() != item.Object {
		d.out.Set("properties", item.NewObject())
	}
	given, err := d.defaults.fields.Present(vars, "")
	if err != nil {
		return stream.At("defaults", err)
	}
	properties := d.out.Get("properties")
	for key, val := range given.Members() {
		if properties.Get(key).IsNull() {
			properties.Set(key, val.Clone())
			properties = d.out.Get("properties")
		}
	}
	return nil
}

// finish writes the members in the usual order, foreign ones last.
func (d *draft) finish() *item.Value {
	d.out.Set("type", item.OfText("Feature"))
	d.out.Set("stac_version", item.OfText(d.Version))
	d.out.Set("id", item.OfText(d.id))
	if d.collection != "" {
		d.out.Set("collection", item.OfText(d.collection))
	} else {
		d.out.Delete("collection")
	}
	order := []string{"type", "stac_version", "stac_extensions", "id", "collection", "geometry", "bbox", "properties", "links", "assets"}
	out := item.NewObject()
	for _, key := range order {
		if val := d.out.Get(key); val != nil {
			out.Set(key, val)
		}
	}
	for key, val := range d.out.Members() {
		if !slices.Contains(order, key) {
			out.Set(key, val)
		}
	}
	return out
}
