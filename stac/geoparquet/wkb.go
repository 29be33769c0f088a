package geoparquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
)

// WKB as ISO 19125 and GeoParquet have it: type codes 1 to 7, plus 1000 for a third coordinate. It is
// written here, and not with orb, which knows two coordinates only: a height would be lost.
const (
	codePoint = 1 + iota
	codeLineString
	codePolygon
	codeMultiPoint
	codeMultiLineString
	codeMultiPolygon
	codeCollection

	codeZ = 1000
)

var typeNames = [...]string{"", "Point", "LineString", "Polygon", "MultiPoint", "MultiLineString", "MultiPolygon", "GeometryCollection"}

// maxCollections bounds GeometryCollections inside each other.
const maxCollections = 8

// shape is the form of a geometry, found while its WKB was made.
type shape struct {
	code   uint32 // of the whole, without codeZ
	size   int    // of a position: 2 or 3; 0 as long as there is none
	lo, hi [3]float64
}

// name is the name that GeoParquet's geometry_types have for it.
func (s *shape) name() string {
	if s.size == 3 {
		return typeNames[s.code] + " Z"
	}
	return typeNames[s.code]
}

// appendWKB appends a GeoJSON geometry as WKB. Coordinates are kept to the last bit; members other than
// type, coordinates and geometries are not kept.
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
	for code := codePoint; code <= codeCollection; code++ {
		if typeNames[code] == name {
			return uint32(code)
		}
	}
	return 0
}

// positionSize is the length of the first position of a geometry or of nested coordinates.
func positionSize(v *item.Value, depth int) int {
	switch {
	case depth > maxCollections+4:
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
		code += codeZ
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
	case depth > maxCollections:
		return nil, stepwell.Invalid("", "more than %d GeometryCollections inside each other", maxCollections)
	case s.size != 0 && s.size != 2 && s.size != 3:
		return nil, stepwell.Invalid("", "a position of %d numbers, not 2 or 3", s.size)
	}
	dst = s.header(dst, code)
	parts := g.Get("coordinates")
	if code == codeCollection {
		parts = g.Get("geometries")
	}
	if parts.Kind() != item.List {
		return nil, stepwell.Invalid("", "a %s's coordinates are %s, not a list", typeNames[code], parts.Kind())
	}
	switch code {
	case codePoint:
		return s.point(dst, parts)
	case codeLineString:
		return s.each(dst, parts, s.position)
	case codePolygon:
		return s.each(dst, parts, s.line)
	case codeMultiPoint:
		return s.each(dst, parts, func(dst []byte, v *item.Value) ([]byte, error) { return s.point(s.header(dst, codePoint), v) })
	case codeMultiLineString:
		return s.each(dst, parts, func(dst []byte, v *item.Value) ([]byte, error) { return s.line(s.header(dst, codeLineString), v) })
	case codeMultiPolygon:
		return s.each(dst, parts, func(dst []byte, v *item.Value) ([]byte, error) {
			if v.Kind() != item.List {
				return nil, stepwell.Invalid("", "a polygon's coordinates are %s, not a list", v.Kind())
			}
			return s.each(s.header(dst, codePolygon), v, s.line)
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

var errShort = errors.New("the WKB is cut off")

// wkb reads WKB.
type wkb struct {
	rest  []byte
	order binary.ByteOrder
	size  int // numbers of a position in the WKB
	keep  int // of them to keep: measures (M) are dropped
}

// appendGeoJSON appends a WKB geometry as GeoJSON. It reads ISO and extended (EWKB) type codes.
func appendGeoJSON(dst, b []byte) ([]byte, error) {
	w := &wkb{rest: b}
	dst, err := w.geometry(dst, 0, 0)
	if err == nil && len(w.rest) > 0 {
		return nil, fmt.Errorf("%d bytes follow the WKB", len(w.rest))
	}
	return dst, err
}

func (w *wkb) uint32() (uint32, error) {
	if len(w.rest) < 4 {
		return 0, errShort
	}
	n := w.order.Uint32(w.rest)
	w.rest = w.rest[4:]
	return n, nil
}

// header reads the byte order and the type.
func (w *wkb) header() (code uint32, err error) {
	if len(w.rest) < 5 {
		return 0, errShort
	}
	w.order = binary.ByteOrder(binary.LittleEndian)
	if w.rest[0] == 0 {
		w.order = binary.BigEndian
	}
	w.rest = w.rest[1:]
	if code, err = w.uint32(); err != nil {
		return 0, err
	}
	const z, m, srid = 1 << 31, 1 << 30, 1 << 29
	if code&srid != 0 {
		if _, err := w.uint32(); err != nil {
			return 0, err
		}
	}
	hasZ, hasM := code&z != 0, code&m != 0
	code &^= z | m | srid
	switch code / codeZ {
	case 1:
		hasZ = true
	case 2:
		hasM = true
	case 3:
		hasZ, hasM = true, true
	}
	if code >= 4*codeZ || code%codeZ < codePoint || code%codeZ > codeCollection {
		return 0, fmt.Errorf("WKB of type %d, which is no geometry that GeoJSON has", code)
	}
	w.size, w.keep = 2, 2
	if hasZ {
		w.size, w.keep = 3, 3
	}
	if hasM {
		w.size++
	}
	return code % codeZ, nil
}

// geometry appends one geometry; want is the type it must have, 0 for any.
func (w *wkb) geometry(dst []byte, want uint32, depth int) ([]byte, error) {
	code, err := w.header()
	switch {
	case err != nil:
		return nil, err
	case want != 0 && code != want:
		return nil, fmt.Errorf("a %s where WKB must have a %s", typeNames[code], typeNames[want])
	case depth > maxCollections:
		return nil, fmt.Errorf("more than %d GeometryCollections inside each other", maxCollections)
	}
	if want == 0 {
		dst = append(append(append(dst, `{"type":"`...), typeNames[code]...), `","coordinates":`...)
		if code == codeCollection {
			dst = append(dst[:len(dst)-len(`"coordinates":`)], `"geometries":`...)
		}
	}
	switch code {
	case codePoint:
		dst, err = w.position(dst)
	case codeLineString:
		dst, err = w.each(dst, w.position)
	case codePolygon:
		dst, err = w.each(dst, func(dst []byte) ([]byte, error) { return w.each(dst, w.position) })
	case codeCollection:
		dst, err = w.each(dst, func(dst []byte) ([]byte, error) { return w.geometry(dst, 0, depth+1) })
	default: // the multi types hold whole geometries of the type three codes before
		dst, err = w.each(dst, func(dst []byte) ([]byte, error) { return w.geometry(dst, code-3, depth+1) })
	}
	if err != nil {
		return nil, err
	}
	if want == 0 {
		dst = append(dst, '}')
	}
	return dst, nil
}

// each appends a list of as many elements as the count that comes first.
func (w *wkb) each(dst []byte, one func([]byte) ([]byte, error)) ([]byte, error) {
	n, err := w.uint32()
	if err != nil {
		return nil, err
	}
	const smallest = 4 // bytes of an element, an empty ring
	if int64(n) > int64(len(w.rest)/smallest) {
		return nil, errShort
	}
	dst = append(dst, '[')
	for i := range n {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = one(dst); err != nil {
			return nil, err
		}
	}
	return append(dst, ']'), nil
}

func (w *wkb) position(dst []byte) ([]byte, error) {
	if len(w.rest) < 8*w.size {
		return nil, errShort
	}
	dst = append(dst, '[')
	begin, empty := len(dst), true
	for i := range w.size {
		f := math.Float64frombits(w.order.Uint64(w.rest[8*i:]))
		if i >= w.keep {
			break
		}
		if math.IsInf(f, 0) {
			return nil, errors.New("a coordinate is infinite")
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		if math.IsNaN(f) {
			dst = append(dst, "null"...)
			continue
		}
		empty = false
		dst = strconv.AppendFloat(dst, f, 'f', -1, 64)
	}
	w.rest = w.rest[8*w.size:]
	if empty {
		return append(dst[:begin], ']'), nil
	}
	return append(dst, ']'), nil
}
