package geoparquet

import (
	"encoding/binary"
	"math"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stac/transform/convert"
)

// shape is the form of a geometry, found while its WKB was made.
type shape struct {
	code   uint32 // of the whole, without convert.WKBZ
	size   int    // of a position: 2 or 3; 0 as long as there is none
	lo, hi [3]float64
}

// name is the name that GeoParquet's geometry_types have for it.
func (s *shape) name() string {
	if s.size == 3 {
		return convert.GeometryTypes[s.code] + " Z"
	}
	return convert.GeometryTypes[s.code]
}

// appendWKB appends a GeoJSON geometry as WKB (ISO 19125). Coordinates are kept to the last bit; members other than type,
// coordinates and geometries are not kept. It is written here, and not with orb, which would lose heights.
func appendWKB(dst []byte, g *item.Value) ([]byte, error) {
	out, _, err := measureWKB(dst, g)
	return out, err
}

func measureWKB(dst []byte, g *item.Value) ([]byte, *shape, error) {
	s := &shape{lo: [3]float64{math.Inf(1), math.Inf(1), math.Inf(1)}, hi: [3]float64{math.Inf(-1), math.Inf(-1), math.Inf(-1)}}
	s.size = positionSize(g, 0)
	dst, err := s.geometry(dst, g, 0)
	if err != nil {
		return nil, nil, err
	}
	s.code = codeOf(g)
	return dst, s, nil
}

func codeOf(g *item.Value) uint32 {
	name, _ := g.Get("type").Str()
	for code := convert.WKBPoint; code <= convert.WKBCollection; code++ {
		if convert.GeometryTypes[code] == name {
			return uint32(code)
		}
	}
	return 0
}

// positionSize is the length of the first position of a geometry or of nested coordinates.
func positionSize(v *item.Value, depth int) int {
	switch {
	case depth > convert.MaxCollections+4:
		return 0
	case v.Kind() == item.Object && v.Get("geometries") != nil:
		return positionSize(v.Get("geometries"), depth+1)
	case v.Kind() == item.Object:
		return positionSize(v.Get("coordinates"), depth+1)
	case v.At(0).Kind() == item.Number:
		return v.Len()
	}
	for _, e := range v.Elements() {
		if n := positionSize(e, depth+1); n > 0 {
			return n
		}
	}
	return 0
}

func (s *shape) header(dst []byte, code uint32) []byte {
	if s.size == 3 {
		code += convert.WKBZ
	}
	return binary.LittleEndian.AppendUint32(append(dst, 1), code)
}

func (s *shape) geometry(dst []byte, g *item.Value, depth int) ([]byte, error) {
	code := codeOf(g)
	switch {
	case g.Kind() != item.Object:
		return nil, stepwell.Invalid("", "a geometry is %s, not an object", g.Kind())
	case code == 0:
		return nil, stepwell.Invalid("", "a geometry's type is %s, which GeoJSON does not have", g.Get("type").Bytes())
	case depth > convert.MaxCollections:
		return nil, stepwell.Invalid("", "more than %d GeometryCollections inside each other", convert.MaxCollections)
	case s.size != 0 && s.size != 2 && s.size != 3:
		return nil, stepwell.Invalid("", "a position of %d numbers, not 2 or 3", s.size)
	}
	dst = s.header(dst, code)
	parts := g.Get("coordinates")
	if code == convert.WKBCollection {
		parts = g.Get("geometries")
	}
	if parts.Kind() != item.List {
		return nil, stepwell.Invalid("", "a %s's coordinates are %s, not a list", convert.GeometryTypes[code], parts.Kind())
	}
	switch code {
	case convert.WKBPoint:
		return s.point(dst, parts)
	case convert.WKBLineString:
		return s.each(dst, parts, s.position)
	case convert.WKBPolygon:
		return s.each(dst, parts, s.line)
	case convert.WKBMultiPoint:
		return s.each(dst, parts, func(dst []byte, v *item.Value) ([]byte, error) { return s.point(s.header(dst, convert.WKBPoint), v) })
	case convert.WKBMultiLineString:
		return s.each(dst, parts, func(dst []byte, v *item.Value) ([]byte, error) {
			return s.line(s.header(dst, convert.WKBLineString), v)
		})
	case convert.WKBMultiPolygon:
		return s.each(dst, parts, func(dst []byte, v *item.Value) ([]byte, error) {
			if v.Kind() != item.List {
				return nil, stepwell.Invalid("", "a polygon's coordinates are %s, not a list", v.Kind())
			}
			return s.each(s.header(dst, convert.WKBPolygon), v, s.line)
		})
	}
	return s.each(dst, parts, func(dst []byte, v *item.Value) ([]byte, error) { return s.geometry(dst, v, depth+1) })
}

// each appends a count and the elements of a list.
func (s *shape) each(dst []byte, v *item.Value, one func([]byte, *item.Value) ([]byte, error)) ([]byte, error) {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(v.Len()))
	for _, e := range v.Elements() {
		var err error
		if dst, err = one(dst, e); err != nil {
			return nil, err
		}
	}
	return dst, nil
}

func (s *shape) line(dst []byte, v *item.Value) ([]byte, error) {
	if v.Kind() != item.List {
		return nil, stepwell.Invalid("", "a line's coordinates are %s, not a list", v.Kind())
	}
	return s.each(dst, v, s.position)
}

// point is a position, or an empty point, which WKB writes as NaN.
func (s *shape) point(dst []byte, v *item.Value) ([]byte, error) {
	if v.Kind() == item.List && v.Len() == 0 {
		for range max(s.size, 2) {
			dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(math.NaN()))
		}
		return dst, nil
	}
	return s.position(dst, v)
}

func (s *shape) position(dst []byte, v *item.Value) ([]byte, error) {
	if v.Kind() != item.List {
		return nil, stepwell.Invalid("", "a position is %s, not a list", v.Kind())
	}
	if v.Len() != s.size {
		return nil, stepwell.Invalid("", "positions of %d and of %d numbers in one geometry", s.size, v.Len())
	}
	for i, c := range v.Elements() {
		f, ok := c.Float()
		if !ok {
			return nil, stepwell.Invalid("", "a coordinate is %s, not a number that a double can hold", c.Bytes())
		}
		s.lo[i], s.hi[i] = min(s.lo[i], f), max(s.hi[i], f)
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(f))
	}
	return dst, nil
}
