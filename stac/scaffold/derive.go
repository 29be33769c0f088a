package scaffold

import (
	"github.com/stepwell/stepwell/stac/transform/convert"
	"github.com/stepwell/stepwell/stream"
)

// Derived implements stream.Deriver: bbox, when it was computed from the geometry, follows the geometry that a join of
// branches gives, and the links of the layout follow id and collection.
func (b *builder) Derived(it *stream.Item) func(merged *stream.Item) error {
	id, collection, geometry := it.ID(), it.Collection(), it.Get("geometry").Clone()
	box, err := convert.BBoxOf(geometry)
	computed := err == nil && box.Equal(it.Get("bbox"))
	return func(merged *stream.Item) error {
		if now := merged.Get("geometry"); computed && !now.IsNull() && !now.Equal(geometry) {
			box, err := convert.BBoxOf(now)
			if err != nil {
				return stream.At("bbox", err)
			}
			merged.Set("bbox", box)
		}
		if merged.ID() != id || merged.Collection() != collection {
			d := &draft{config: b.config, out: merged.Value, id: merged.ID(), collection: merged.Collection()}
			d.links()
		}
		return nil
	}
}
