package convert

import (
	"strconv"
	"strings"

	"github.com/stepwell/stepwell/item"
)

// WKT reads well-known text (OGC 06-103r4), also with SRID=4326; in front of it. M values are left out.
func WKT(text string) (*item.Value, error) {
	p := wkt{text: text, rest: text}
	out, err := p.geometry()
	if err != nil {
		return nil, err
	}
	return item.Parse(out)
}

var wktNames = map[string]string{"POINT": "Point", "MULTIPOINT": "MultiPoint", "LINESTRING": "LineString", "MULTILINESTRING": "MultiLineString",
	"POLYGON": "Polygon", "MULTIPOLYGON": "MultiPolygon"}

type wkt struct {
	text, rest string
	measured   bool // the last number of a position is M
}

func (p *wkt) wrong(what string) error {
	return bad(p.text, "is not WKT: "+what+" at character "+strconv.Itoa(len(p.text)-len(p.rest)+1), "")
}

func (p *wkt) space() { p.rest = strings.TrimLeft(p.rest, " \t\r\n") }

func (p *wkt) word() string {
	p.space()
	i := 0
	for i < len(p.rest) && (p.rest[i]|0x20 >= 'a' && p.rest[i]|0x20 <= 'z') {
		i++
	}
	word := strings.ToUpper(p.rest[:i])
	p.rest = p.rest[i:]
	return word
}

func (p *wkt) skip(c byte) bool {
	p.space()
	if p.rest == "" || p.rest[0] != c {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

func (p *wkt) geometry() ([]byte, error) {
	word := p.word()
	if word == "SRID" {
		srid, after, found := strings.Cut(p.rest, ";")
		if srid = strings.Trim(srid, "= "); !found || srid != "4326" && srid != "0" {
			return nil, bad(p.text, "is not in WGS 84", "transform the coordinates to EPSG:4326 first")
		}
		p.rest = after
		word = p.word()
	}
	plain, dimension := strings.TrimRight(word, "ZM"), ""
	if wktNames[word] != "" {
		dimension = p.word()
	} else {
		word, dimension = plain, word[len(plain):] // POINTZ
	}
	name := wktNames[word]
	switch {
	case word == "GEOMETRYCOLLECTION":
		return nil, bad("GEOMETRYCOLLECTION", "is not allowed in STAC", "use a MULTIPOINT, MULTILINESTRING or MULTIPOLYGON")
	case name == "":
		return nil, bad(p.text, "is not a geometry", "write WKT, GeoJSON, WKB in hexadecimal, a bounding box, or longitude and latitude")
	case dimension == "EMPTY":
		return nil, bad(p.text, "is empty", "leave an empty geometry out")
	case dimension != "" && dimension != "Z" && dimension != "M" && dimension != "ZM":
		return nil, p.wrong(strconv.Quote(dimension) + " is not known")
	}
	p.measured = strings.HasSuffix(dimension, "M")
	out, err := p.nested([]byte(`{"type":"`+name+`","coordinates":`), depths[name], name == "MultiPoint")
	if err != nil {
		return nil, err
	}
	if p.space(); p.rest != "" {
		return nil, p.wrong("something follows")
	}
	return append(out, '}'), nil
}

// nested writes ( … ) of depth levels of lists; loose allows each position in brackets of its own.
func (p *wkt) nested(dst []byte, depth int, loose bool) ([]byte, error) {
	if !p.skip('(') {
		return nil, p.wrong("( is missing")
	}
	if depth == 0 {
		dst, err := p.position(dst)
		if err == nil && !p.skip(')') {
			err = p.wrong(") is missing")
		}
		return dst, err
	}
	dst = append(dst, '[')
	for {
		var err error
		p.space()
		switch {
		case depth > 1 || loose && strings.HasPrefix(p.rest, "("):
			dst, err = p.nested(dst, depth-1, false)
		default:
			dst, err = p.position(dst)
		}
		if err != nil {
			return nil, err
		}
		if p.skip(')') {
			return append(dst, ']'), nil
		}
		if !p.skip(',') {
			return nil, p.wrong("a comma is missing")
		}
		dst = append(dst, ',')
	}
}

// position writes the numbers up to the next comma or bracket.
func (p *wkt) position(dst []byte) ([]byte, error) {
	end := strings.IndexAny(p.rest, ",()")
	if end < 0 {
		return nil, p.wrong(") is missing")
	}
	fields := strings.Fields(p.rest[:end])
	if p.measured && len(fields) > 2 || len(fields) == 4 {
		fields = fields[:len(fields)-1]
	}
	if len(fields) != 2 && len(fields) != 3 {
		return nil, p.wrong("a position has 2 or 3 numbers")
	}
	for i, field := range fields {
		dst = append(dst, "[,"[min(i, 1)])
		f, err := strconv.ParseFloat(field, 64)
		switch {
		case err != nil || f != f || f-f != 0 || strings.ContainsAny(field, "xX_pPiInN"):
			return nil, p.wrong(strconv.Quote(field) + " is not a number")
		case isNumber(field):
			dst = append(dst, field...)
		default: // .5 and 1. are no numbers in JSON
			dst = appendFloat(dst, f)
		}
	}
	p.rest = p.rest[end:]
	return append(dst, ']'), nil
}

// isNumber reports whether a text that is a number in Go is written as JSON has it. With an exponent it is
// written anew.
func isNumber(text string) bool {
	text = strings.TrimPrefix(text, "-")
	whole, fraction, point := strings.Cut(text, ".")
	digits := func(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
	return digits(whole) && (len(whole) == 1 || whole[0] != '0') && (!point || digits(fraction))
}
