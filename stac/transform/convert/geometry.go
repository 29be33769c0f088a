package convert

import (
	"encoding/hex"
	"math"
	"strconv"
	"strings"

	"github.com/stepwell/stepwell/item"
)

// depths says how deep the coordinates of a geometry nest around its positions.
var depths = map[string]int{"Point": 0, "MultiPoint": 1, "LineString": 1, "MultiLineString": 2, "Polygon": 2, "MultiPolygon": 3}

// Geometry makes a GeoJSON geometry of a geometry or Feature of GeoJSON, as an object or as text; of WKT or EWKT; of
// WKB or EWKB in hexadecimal; of a bounding box as a list or text of 4 or 6 numbers; of longitude and latitude (and
// height) as a list. The result is valid in STAC: no GeometryCollection, closed rings, longitudes within ±360 and
// latitudes within ±90 degrees. Coordinates keep their digits.
func Geometry(v *item.Value) (*item.Value, error) {
	g, err := geometry(v)
	if err != nil {
		return nil, err
	}
	return g, CheckGeometry(g)
}

func geometry(v *item.Value) (*item.Value, error) {
	switch v.Kind() {
	case item.Object:
		if kind, _ := v.Get("type").Str(); kind == "Feature" {
			return v.Get("geometry").Clone(), nil
		}
		return v.Clone(), nil
	case item.List:
		if n := v.Len(); n == 2 || n == 3 {
			return point(v)
		}
		return FromBBox(v)
	case item.Text:
		text, _ := v.Str()
		return geometryOf(strings.TrimSpace(text))
	}
	return nil, bad(string(v.Bytes()), "is not a geometry", "")
}

func geometryOf(text string) (*item.Value, error) {
	switch {
	case strings.HasPrefix(text, "{"):
		v, err := item.Parse([]byte(text))
		if err != nil {
			return nil, err
		}
		return geometry(v)
	case text != "" && strings.Trim(text, "0123456789abcdefABCDEF") == "":
		raw, err := hex.DecodeString(text)
		if err != nil {
			return nil, bad(text, "is not WKB in hexadecimal", "")
		}
		return WKB(raw)
	case text != "" && strings.ContainsAny(text[:1], "-+.0123456789["):
		box, err := BBox(item.OfText(text))
		if err != nil {
			return nil, err
		}
		return FromBBox(box)
	}
	return WKT(text)
}

func point(coordinates *item.Value) (*item.Value, error) {
	g := item.NewObject()
	g.Set("type", item.OfText("Point"))
	list := item.NewList()
	for _, c := range coordinates.Elements() {
		n, err := Number(c, ".")
		if err != nil {
			return nil, err
		}
		list.Append(n)
	}
	g.Set("coordinates", list)
	return g, nil
}

// CheckGeometry validates a geometry of GeoJSON.
func CheckGeometry(g *item.Value) error {
	kind, _ := g.Get("type").Str()
	depth, known := depths[kind]
	switch {
	case g.Kind() != item.Object:
		return bad(string(g.Bytes()), "is not a geometry", "")
	case kind == "GeometryCollection":
		return bad(kind, "is not allowed in STAC", "use a MultiPoint, MultiLineString or MultiPolygon")
	case !known:
		return bad(kind, "is not a type of geometry", "")
	}
	coordinates := g.Get("coordinates")
	if coordinates.Kind() != item.List || coordinates.Len() == 0 {
		return bad(string(g.Bytes()), "has no coordinates", "leave an empty geometry out")
	}
	return check(coordinates, depth, strings.HasSuffix(kind, "Polygon"), kind == "LineString" || kind == "MultiLineString")
}

// check looks into coordinates that nest depth levels around positions.
func check(v *item.Value, depth int, rings, lines bool) error {
	if v.Kind() != item.List {
		return bad(string(v.Bytes()), "is not a list of coordinates", "")
	}
	if depth == 0 {
		return position(v)
	}
	for _, inner := range v.Elements() {
		if err := check(inner, depth-1, rings, lines); err != nil {
			return err
		}
	}
	n := v.Len()
	switch {
	case depth > 1:
		if n == 0 {
			return bad("[]", "is an empty part of a geometry", "")
		}
	case lines && n < 2:
		return bad(string(v.Bytes()), "is a line of fewer than 2 positions", "")
	case rings && n < 4:
		return bad(string(v.Bytes()), "is a ring of fewer than 4 positions", "")
	case rings && !same(v.At(0), v.At(n-1)):
		return bad(string(v.Bytes()), "is a ring that is not closed", "its last position must be its first")
	}
	return nil
}

func position(v *item.Value) error {
	if n := v.Len(); n < 2 || n > 4 {
		return bad(string(v.Bytes()), "is not a position", "a position is [longitude, latitude] or [longitude, latitude, height]")
	}
	for i, c := range v.Elements() {
		f, ok := c.Float()
		switch limit := [...]float64{360, 90, math.MaxFloat64, math.MaxFloat64}[i]; {
		case !ok:
			return bad(string(c.Bytes()), "is not a coordinate", "")
		case math.Abs(f) > limit:
			return bad(string(v.Bytes()), "is not longitude and latitude in degrees", "transform the coordinates to WGS 84 (EPSG:4326) first, in the order longitude, latitude")
		}
	}
	return nil
}

func same(a, b *item.Value) bool {
	for i := range max(a.Len(), b.Len()) {
		x, okX := a.At(i).Float()
		y, okY := b.At(i).Float()
		if !okX || !okY || x != y {
			return false
		}
	}
	return true
}

func appendFloat(dst []byte, f float64) []byte { return strconv.AppendFloat(dst, f, 'f', -1, 64) }
