package geoparquet

import (
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stream/parquet"
)

// top are the members of an item that are no properties. A property of such a name has no place.
var top = map[string]bool{"type": true, "stac_version": true, "stac_extensions": true, "id": true, "geometry": true,
	"bbox": true, "properties": true, "links": true, "assets": true, "collection": true}

const projGeometry = "proj:geometry"

// base are the columns that every file has, and proj:geometry.
func base() parquet.Schema {
	text := func() *parquet.Type { return &parquet.Type{Kind: parquet.Text} }
	kept := func(kind parquet.Kind) *parquet.Type { return &parquet.Type{Kind: kind, Keep: true} }
	side := func() *parquet.Type { return &parquet.Type{Kind: parquet.Double, Keep: true, Required: true} }
	wkb := func() *parquet.Type { return &parquet.Type{Kind: parquet.Binary, Encode: appendWKB} }
	id, extensions, links := kept(parquet.Text), kept(parquet.List), kept(parquet.List)
	id.Required, extensions.Required, extensions.Elem = true, true, kept(parquet.Text)
	links.Elem = kept(parquet.Struct)
	links.Elem.Fields = []parquet.Field{{Name: "href", Type: text()}, {Name: "rel", Type: text()}, {Name: "type", Type: text()}, {Name: "title", Type: text()}}
	bbox := kept(parquet.Struct)
	bbox.Fields = []parquet.Field{{Name: "xmin", Type: side()}, {Name: "ymin", Type: side()}, {Name: "xmax", Type: side()}, {Name: "ymax", Type: side()}}
	// A struct needs a member, and readers look for a struct of structs.
	assets := kept(parquet.Struct)
	assets.Empty = []parquet.Field{{Name: "data", Type: &parquet.Type{Kind: parquet.Struct, Fields: []parquet.Field{{Name: "href", Type: text()}}}}}
	return parquet.Schema{
		{Name: "id", Type: id},
		{Name: "stac_version", Type: kept(parquet.Text)},
		{Name: "stac_extensions", Type: extensions},
		{Name: "collection", Type: kept(parquet.Text)},
		{Name: "geometry", Type: wkb()},
		{Name: "bbox", Type: bbox},
		{Name: "datetime", Type: kept(parquet.Timestamp)},
		{Name: "start_datetime", Type: kept(parquet.Timestamp)},
		{Name: "end_datetime", Type: kept(parquet.Timestamp)},
		{Name: "created", Type: kept(parquet.Timestamp)},
		{Name: "updated", Type: kept(parquet.Timestamp)},
		{Name: projGeometry, Type: wkb()},
		{Name: "links", Type: links},
		{Name: "assets", Type: assets},
	}
}

// sides are the members of the bbox struct in the order of a bbox of 6 numbers, and of 4.
var (
	sides6 = []string{"xmin", "ymin", "zmin", "xmax", "ymax", "zmax"}
	sides4 = []string{"xmin", "ymin", "xmax", "ymax"}
)

// extent is a bbox on its way to the file's.
type extent struct {
	any, z bool
	lo, hi [3]float64
}

func (e *extent) add(lo, hi [3]float64, z bool) {
	if lo[0] > hi[0] { // across the antimeridian
		lo[0], hi[0] = -180, 180
	}
	n := 2
	if z {
		n = 3
	}
	for i := range n {
		first := !e.any || i == 2 && !e.z
		if first || lo[i] < e.lo[i] {
			e.lo[i] = lo[i]
		}
		if first || hi[i] > e.hi[i] {
			e.hi[i] = hi[i]
		}
	}
	e.any, e.z = true, e.z || z
}

// list is the extent as a bbox.
func (e *extent) list() []float64 {
	switch {
	case !e.any:
		return nil
	case e.z:
		return []float64{e.lo[0], e.lo[1], e.lo[2], e.hi[0], e.hi[1], e.hi[2]}
	}
	return []float64{e.lo[0], e.lo[1], e.hi[0], e.hi[1]}
}

// foreign prefixes the name of a column that is an item's non-STAC member outside of its properties. Only our reader
// knows it; for others it is one property more.
const foreign = "stepwell:"

// rowOf makes the row of an item, which stays as it is.
func rowOf(it *item.Value) (*item.Value, error) {
	props := it.Get("properties")
	if kind, _ := it.Get("type").Str(); kind != "Feature" {
		return nil, stepwell.Invalid("", `the item's type is %s, not "Feature"`, it.Get("type").Bytes())
	}
	if props.Kind() != item.Object {
		return nil, stepwell.Invalid("", "the item's properties are %s, not an object", props.Kind())
	}
	row := item.NewObject()
	copyMembers(row, it, "id", "stac_version")
	extensions := it.Get("stac_extensions")
	if extensions.IsNull() {
		extensions = item.NewList()
	}
	setShared(row, "stac_extensions", extensions)
	copyMembers(row, it, "collection", "geometry")
	bbox, err := boxOf(it.Get("bbox"))
	if err != nil {
		return nil, err
	}
	setShared(row, "bbox", bbox)
	for name, v := range props.Members() {
		if top[name] || strings.HasPrefix(name, foreign) {
			return nil, stepwell.Invalid("", "the property %q is named like a member of the item, and would take its column", name)
		}
		setShared(row, name, v)
	}
	copyMembers(row, it, "links", "assets")
	for name, v := range it.Members() {
		if !top[name] {
			setShared(row, foreign+name, v)
		}
	}
	return row, nil
}

func copyMembers(row, it *item.Value, names ...string) {
	for _, name := range names {
		if v := it.Get(name); v != nil {
			setShared(row, name, v)
		}
	}
}

// setShared sets a member without taking the value over.
func setShared(row *item.Value, name string, v *item.Value) {
	shared := *v
	row.Set(name, &shared)
}

// boxOf makes the struct of a bbox.
func boxOf(bbox *item.Value) (*item.Value, error) {
	if bbox.IsNull() {
		return &item.Value{}, nil
	}
	names := sides4
	switch n := bbox.Len(); {
	case bbox.Kind() != item.List || n != 4 && n != 6:
		return nil, stepwell.Invalid("", "the bbox is %s, not a list of 4 or 6 numbers", stepwell.Clip(bbox.Bytes(), 60))
	case n == 6:
		names = sides6
	}
	box := item.NewObject()
	for i, name := range names {
		if bbox.At(i).Kind() != item.Number {
			return nil, stepwell.Invalid("", "the bbox is %s, not a list of 4 or 6 numbers", stepwell.Clip(bbox.Bytes(), 60))
		}
		setShared(box, name, bbox.At(i))
	}
	return box, nil
}
