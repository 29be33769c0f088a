package convert

import (
	"math"
	"strings"

	"github.com/stepwell/stepwell/item"
)

const boxHint = "a bounding box is west, south, east, north (or west, south, lowest, east, north, highest)"

// BBox reads a bounding box: a list of 4 or 6 numbers, also as texts, or one text of them with commas or
// blanks between. West may be greater than east, across the antimeridian. Numbers keep the digits they have.
func BBox(v *item.Value) (*item.Value, error) {
	var parts []*item.Value
	if text, ok := v.Str(); ok {
		for _, part := range strings.FieldsFunc(strings.Trim(strings.TrimSpace(text), "[]()"), func(r rune) bool { return r == ',' || r == ' ' || r == ';' }) {
			if parts = append(parts, item.OfText(part)); len(parts) > 6 {
				break
			}
		}
	} else {
		for _, part := range v.Elements() {
			parts = append(parts, part)
		}
	}
	if n := len(parts); n != 4 && n != 6 {
		return nil, bad(string(v.Bytes()), "is not a bounding box", boxHint)
	}
	box := item.NewList()
	for _, part := range parts {
		n, err := Number(part, ".")
		if err != nil {
			return nil, bad(string(v.Bytes()), "is not a bounding box", boxHint)
		}
		box.Append(n)
	}
	b, _ := corners(box)
	if b[1] > b[3] || math.Abs(b[1]) > 90 || math.Abs(b[3]) > 90 || math.Abs(b[0]) > 360 || math.Abs(b[2]) > 360 {
		return nil, bad(string(v.Bytes()), "is not a bounding box in degrees", boxHint)
	}
	return box, nil
}

// corners are west, south, east and north of a box, and whether v is one.
func corners(v *item.Value) ([4]float64, bool) {
	at := [4]int{0, 1, 2, 3}
	switch v.Len() {
	case 4:
	case 6:
		at = [4]int{0, 1, 3, 4}
	default:
		return [4]float64{}, false
	}
	var out [4]float64
	for i, j := range at {
		f, ok := v.At(j).Float()
		if !ok {
			return out, false
		}
		out[i] = f
	}
	return out, true
}

// FromBBox makes the geometry that a bounding box covers: a Polygon, counter-clockwise from the lower left; a
// MultiPolygon of two when it crosses the antimeridian (RFC 7946 §3.1.9); a Point when it is one.
func FromBBox(v *item.Value) (*item.Value, error) {
	box, err := BBox(v)
	if err != nil {
		return nil, err
	}
	b, _ := corners(box)
	n := box.Len() / 2
	west, south, east, north := string(box.At(0).Bytes()), string(box.At(1).Bytes()), string(box.At(n).Bytes()), string(box.At(n+1).Bytes())
	var text string
	switch {
	case b[0] == b[2] && b[1] == b[3]:
		text = `{"type":"Point","coordinates":[` + west + "," + south + `]}`
	case b[0] > b[2]:
		text = `{"type":"MultiPolygon","coordinates":[[` + ring(west, south, "180", north) + "],[" + ring("-180", south, east, north) + "]]}"
	default:
		text = `{"type":"Polygon","coordinates":[` + ring(west, south, east, north) + "]}"
	}
	return item.Parse([]byte(text))
}

func ring(west, south, east, north string) string {
	return "[[" + west + "," + south + "],[" + east + "," + south + "],[" + east + "," + north + "],[" + west + "," + north + "],[" + west + "," + south + "]]"
}

// Bounds are the extremes of a geometry.
type Bounds struct {
	Low, High [3]float64 // longitude, latitude, height
	Height    bool       // every position has a height
	any       bool
}

func (b *Bounds) add(p *item.Value) {
	if !b.any {
		inf := math.Inf(1)
		*b = Bounds{Low: [3]float64{inf, inf, inf}, High: [3]float64{-inf, -inf, -inf}, Height: true, any: true}
	}
	b.Height = b.Height && p.Len() >= 3
	for i := range min(p.Len(), 3) {
		f, _ := p.At(i).Float()
		b.Low[i], b.High[i] = min(b.Low[i], f), max(b.High[i], f)
	}
}

func (b *Bounds) walk(v *item.Value, depth int) {
	if depth == 0 {
		b.add(v)
		return
	}
	for _, inner := range v.Elements() {
		b.walk(inner, depth-1)
	}
}

// BBoxOf is the bounding box of a geometry that CheckGeometry has nothing against: 6 numbers when every
// position has a height, else 4. Of a Multi geometry that is cut at the antimeridian it is the one across it:
// west is greater than east.
func BBoxOf(g *item.Value) (*item.Value, error) {
	kind, _ := g.Get("type").Str()
	depth := depths[kind]
	coordinates := g.Get("coordinates")
	var all Bounds
	all.walk(coordinates, depth)
	if strings.HasPrefix(kind, "Multi") {
		all = across(coordinates, depth, all)
	}
	out := []any{all.Low[0], all.Low[1], all.High[0], all.High[1]}
	if all.Height {
		out = []any{all.Low[0], all.Low[1], all.Low[2], all.High[0], all.High[1], all.High[2]}
	}
	return item.Of(out)
}

// across looks for parts that meet at the antimeridian from both sides, with none on the other side of the
// world in between, and bounds them there.
func across(coordinates *item.Value, depth int, all Bounds) Bounds {
	if all.Low[0] != -180 || all.High[0] != 180 {
		return all
	}
	west, east := 180.0, -180.0
	for _, part := range coordinates.Elements() {
		var b Bounds
		b.walk(part, depth-1)
		switch {
		case b.Low[0] >= 0:
			west = min(west, b.Low[0])
		case b.High[0] <= 0:
			east = max(east, b.High[0])
		default:
			return all // it reaches around the world
		}
	}
	all.Low[0], all.High[0] = west, east
	return all
}
