package geoparquet

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/stepwell/stepwell/item"
)

// Version is that of both specifications, GeoParquet and stac-geoparquet.
const Version = "1.1.0"

// Keys of the metadata.
const (
	geoKey  = "geo"
	stacKey = "stac-geoparquet"
)

// findings are the facts about the items for the metadata.
type findings struct {
	types     map[string]bool
	extent    extent
	projected bool // an item has proj:geometry
	scratch   []byte
}

// add takes in a row, which fits.
func (f *findings) add(row *item.Value) {
	f.projected = f.projected || row.Get(projGeometry) != nil
	var place *shape
	if g := row.Get("geometry"); !g.IsNull() {
		wkb, s, err := measureWKB(f.scratch[:0], g)
		if err != nil { // not of a row that fits
			return
		}
		f.scratch, place = wkb, s
		f.types[s.name()] = true
	}
	if box := row.Get("bbox"); !box.IsNull() {
		var lo, hi [3]float64
		for i, axis := range []string{"x", "y", "z"} {
			lo[i], _ = box.Get(axis + "min").Float()
			hi[i], _ = box.Get(axis + "max").Float()
		}
		f.extent.add(lo, hi, box.Get("zmin") != nil)
	} else if place != nil && place.size > 0 {
		f.extent.add(place.lo, place.hi, place.size == 3)
	}
}

// geoColumn is a column of the geo metadata. The crs is left out: OGC:CRS84. proj:geometry is not told of: every
// item has its own crs there, and DuckDB refuses a file with "crs": null.
type geoColumn struct {
	Encoding string              `json:"encoding"`
	Types    []string            `json:"geometry_types"`
	BBox     []float64           `json:"bbox,omitempty"`
	Covering map[string]covering `json:"covering,omitempty"`
}

type covering map[string][2]string

type geoMetadata struct {
	Version string               `json:"version"`
	Primary string               `json:"primary_column"`
	Columns map[string]geoColumn `json:"columns"`
}

type stacMetadata struct {
	Version     string                 `json:"version"`
	Collections map[string]*item.Value `json:"collections"`
}

// metadata makes the key/value metadata.
func (f *File) metadata() (map[string]string, error) {
	box := covering{}
	for _, side := range sides4 {
		box[side] = [2]string{"bbox", side}
	}
	types := slices.Sorted(maps.Keys(f.found.types))
	if types == nil {
		types = []string{}
	}
	geo := geoMetadata{Version: Version, Primary: "geometry", Columns: map[string]geoColumn{"geometry": {
		Encoding: "WKB", Types: types, BBox: f.found.extent.list(), Covering: map[string]covering{"bbox": box}}}}
	stac := stacMetadata{Version: Version, Collections: f.collections}
	if stac.Collections == nil {
		stac.Collections = map[string]*item.Value{}
	}
	values := map[string]any{geoKey: geo, stacKey: stac}
	out := map[string]string{}
	for key, value := range values {
		text, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		out[key] = string(text)
	}
	return out, nil
}
