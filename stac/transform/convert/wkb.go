package convert

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"

	"github.com/stepwell/stepwell/item"
)

// WKB reads well-known binary, of ISO 19125 and the extended one of PostGIS, in WGS 84. Measures (M) are left out.
func WKB(raw []byte) (*item.Value, error) {
	out, srid, err := AppendGeoJSON(nil, raw)
	if err == nil && srid != 4326 && srid != 0 {
		err = errors.New("it is not in WGS 84: transform the coordinates to EPSG:4326 first")
	}
	if err != nil {
		return nil, bad(hex.EncodeToString(raw[:min(len(raw), 40)]), "is not WKB: "+err.Error(), "")
	}
	return item.Parse(out)
}

// The type codes of WKB, as ISO 19125 and GeoParquet have them; WKBZ is added for a third coordinate.
const (
	WKBPoint = 1 + iota
	WKBLineString
	WKBPolygon
	WKBMultiPoint
	WKBMultiLineString
	WKBMultiPolygon
	WKBCollection

	WKBZ = 1000
)

// GeometryTypes are the types of GeoJSON by their codes in WKB, which begin with 1.
var GeometryTypes = [...]string{"", "Point", "LineString", "Polygon", "MultiPoint", "MultiLineString", "MultiPolygon", "GeometryCollection"}

// MaxCollections bounds GeometryCollections inside each other.
const MaxCollections = 8

var errShort = errors.New("the WKB ends too early")

// wkb reads WKB.
type wkb struct {
	rest  []byte
	order binary.ByteOrder
	srid  uint32
	size  int // numbers of a position in the WKB
	keep  int // of them to keep: measures (M) are left out
}

// AppendGeoJSON appends a WKB geometry as GeoJSON, and returns its spatial reference system (0: it names none). It reads
// ISO and extended (EWKB) type codes. Heights stay, measures (M) are left out; an empty point has no coordinates.
func AppendGeoJSON(dst, b []byte) (out []byte, srid uint32, err error) {
	w := &wkb{rest: b}
	dst, err = w.geometry(dst, 0, 0)
	if err == nil && len(w.rest) > 0 {
		return nil, 0, errors.New("something follows the WKB")
	}
	return dst, w.srid, err
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
	switch w.rest[0] {
	case 0:
		w.order = binary.BigEndian
	case 1:
		w.order = binary.LittleEndian
	default:
		return 0, errors.New("the WKB has no byte order")
	}
	w.rest = w.rest[1:]
	if code, err = w.uint32(); err != nil {
		return 0, err
	}
	const z, m, srid = 1 << 31, 1 << 30, 1 << 29
	if code&srid != 0 {
		if w.srid, err = w.uint32(); err != nil {
			return 0, err
		}
	}
	hasZ, hasM := code&z != 0, code&m != 0
	code &^= z | m | srid
	switch code / WKBZ {
	case 1:
		hasZ = true
	case 2:
		hasM = true
	case 3:
		hasZ, hasM = true, true
	}
	if code >= 4*WKBZ || code%WKBZ < WKBPoint || code%WKBZ > WKBCollection {
		return 0, fmt.Errorf("WKB of type %d, which is not a geometry that GeoJSON has", code)
	}
	w.size, w.keep = 2, 2
	if hasZ {
		w.size, w.keep = 3, 3
	}
	if hasM {
		w.size++
	}
	return code % WKBZ, nil
}

// geometry appends one geometry; want is the type it must have, 0 for any.
func (w *wkb) geometry(dst []byte, want uint32, depth int) ([]byte, error) {
	code, err := w.header()
	switch {
	case err != nil:
		return nil, err
	case want != 0 && code != want:
		return nil, fmt.Errorf("a %s where WKB must have a %s", GeometryTypes[code], GeometryTypes[want])
	case depth > MaxCollections:
		return nil, fmt.Errorf("more than %d GeometryCollections inside each other", MaxCollections)
	}
	if want == 0 {
		dst = append(append(append(dst, `{"type":"`...), GeometryTypes[code]...), `","coordinates":`...)
		if code == WKBCollection {
			dst = append(dst[:len(dst)-len(`"coordinates":`)], `"geometries":`...)
		}
	}
	switch code {
	case WKBPoint:
		dst, err = w.position(dst)
	case WKBLineString:
		dst, err = w.each(dst, w.position)
	case WKBPolygon:
		dst, err = w.each(dst, func(dst []byte) ([]byte, error) { return w.each(dst, w.position) })
	case WKBCollection:
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
		dst = appendFloat(dst, f)
	}
	w.rest = w.rest[8*w.size:]
	if empty {
		return append(dst[:begin], ']'), nil
	}
	return append(dst, ']'), nil
}
