package convert

import (
	"encoding/binary"
	"encoding/hex"
	"math"

	"github.com/stepwell/stepwell/item"
)

// WKB reads well-known binary: of the ISO, and the extended one of PostGIS. M values are left out.
func WKB(raw []byte) (*item.Value, error) {
	p := wkb{raw: raw, rest: raw}
	out, err := p.geometry(nil, 0)
	if err != nil {
		return nil, err
	}
	if len(p.rest) > 0 {
		return nil, p.wrong("something follows")
	}
	return item.Parse(append(out, '}'))
}

var wkbNames = [...]string{1: "Point", 2: "LineString", 3: "Polygon", 4: "MultiPoint", 5: "MultiLineString", 6: "MultiPolygon"}

type wkb struct {
	raw, rest []byte
	order     binary.ByteOrder
	numbers   int  // of a position
	height    bool // its third number is a height
}

func (p *wkb) wrong(what string) error {
	return bad(hex.EncodeToString(p.raw[:min(len(p.raw), 40)]), "is not WKB: "+what, "")
}

func (p *wkb) uint32() (uint32, error) {
	if len(p.rest) < 4 {
		return 0, p.wrong("it ends too early")
	}
	n := p.order.Uint32(p.rest)
	p.rest = p.rest[4:]
	return n, nil
}

// count reads how many parts of at least size bytes come.
func (p *wkb) count(size int) (int, error) {
	n, err := p.uint32()
	if err == nil && uint64(n)*uint64(size) > uint64(len(p.rest)) {
		err = p.wrong("it ends too early")
	}
	return int(n), err
}

// geometry writes a geometry; inside a Multi geometry (of type outer) only its coordinates.
func (p *wkb) geometry(dst []byte, outer uint32) ([]byte, error) {
	kind, err := p.head()
	if err != nil {
		return nil, err
	}
	switch {
	case kind == 7:
		return nil, bad("GeometryCollection", "is not allowed in STAC", "")
	case kind == 0 || int(kind) >= len(wkbNames):
		return nil, p.wrong("the type of geometry is not known")
	case outer != 0 && kind != outer-3:
		return nil, p.wrong("a " + wkbNames[kind] + " inside a " + wkbNames[outer])
	case outer == 0:
		dst = append(dst, `{"type":"`+wkbNames[kind]+`","coordinates":`...)
	}
	switch kind {
	case 1:
		return p.position(dst)
	case 2:
		return p.list(dst, 8*p.numbers, p.position)
	case 3:
		return p.list(dst, 4, func(dst []byte) ([]byte, error) { return p.list(dst, 8*p.numbers, p.position) })
	}
	return p.list(dst, 9, func(dst []byte) ([]byte, error) { return p.geometry(dst, kind) })
}

// head reads the byte order, the type, and the reference system if it is told.
func (p *wkb) head() (uint32, error) {
	if len(p.rest) == 0 || p.rest[0] > 1 {
		return 0, p.wrong("the byte order is missing")
	}
	p.order = binary.BigEndian
	if p.rest[0] == 1 {
		p.order = binary.LittleEndian
	}
	p.rest = p.rest[1:]
	kind, err := p.uint32()
	if err != nil {
		return 0, err
	}
	const hasZ, hasM, hasSRID = 0x80000000, 0x40000000, 0x20000000
	if kind&hasSRID != 0 {
		srid, err := p.uint32()
		if err != nil {
			return 0, err
		}
		if srid != 4326 && srid != 0 {
			return 0, p.wrong("it is not in WGS 84: transform the coordinates to EPSG:4326 first")
		}
	}
	iso := kind & 0xffff / 1000 // 1: Z, 2: M, 3: both
	p.height = kind&hasZ != 0 || iso == 1 || iso == 3
	p.numbers = 2
	for _, has := range []bool{p.height, kind&hasM != 0 || iso == 2 || iso == 3} {
		if has {
			p.numbers++
		}
	}
	return kind & 0xffff % 1000, nil
}

func (p *wkb) list(dst []byte, size int, part func([]byte) ([]byte, error)) ([]byte, error) {
	n, err := p.count(size)
	if err != nil {
		return nil, err
	}
	dst = append(dst, '[')
	for i := range n {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = part(dst); err != nil {
			return nil, err
		}
	}
	return append(dst, ']'), nil
}

func (p *wkb) position(dst []byte) ([]byte, error) {
	if len(p.rest) < 8*p.numbers {
		return nil, p.wrong("it ends too early")
	}
	dst = append(dst, '[')
	for i := range p.numbers {
		f := math.Float64frombits(p.order.Uint64(p.rest[8*i:]))
		switch {
		case i == 2 && !p.height || i == 3:
			continue // M
		case math.IsNaN(f) || math.IsInf(f, 0):
			return nil, p.wrong("a coordinate is missing")
		case i > 0:
			dst = append(dst, ',')
		}
		dst = appendFloat(dst, f)
	}
	p.rest = p.rest[8*p.numbers:]
	return append(dst, ']'), nil
}
