package validate

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/stepwell/stepwell/stac/schema"
)

// tolerance is how far, in degrees, a geometry may stand out of its bbox: both are rounded.
const tolerance = 1e-5

// ring is a line of positions, longitude and latitude.
type ring [][2]float64

func position(v any) (p [2]float64, ok bool) {
	list, _ := v.([]any)
	if len(list) < 2 {
		return p, false
	}
	for i := range p {
		n, isNumber := list[i].(json.Number)
		f, err := n.Float64()
		if !isNumber || err != nil {
			return p, false
		}
		p[i] = f
	}
	return p, true
}

func lineOf(v any) (r ring) {
	list, _ := v.([]any)
	for _, e := range list {
		if p, ok := position(e); ok {
			r = append(r, p)
		}
	}
	return r
}

// polygons are the polygons of a geometry, each with where it stands.
func polygons(geometry map[string]any) (all [][]any, pointers []string) {
	list, _ := geometry["coordinates"].([]any)
	switch geometry["type"] {
	case "Polygon":
		return [][]any{list}, []string{"/geometry/coordinates"}
	case "MultiPolygon":
		for i, e := range list {
			rings, _ := e.([]any)
			all = append(all, rings)
			pointers = append(pointers, fmt.Sprintf("/geometry/coordinates/%d", i))
		}
	}
	return all, pointers
}

// checkGeometry: rings are closed and wound as RFC 7946 §3.1.6 says, do not cross themselves, and have neither
// spikes nor repeated positions; holes lie inside; positions are on the earth, and nothing spans more than half
// of it, which means that it was not cut at the antimeridian.
func checkGeometry(_ schema.Kind, obj map[string]any) (found []schema.Problem) {
	geometry, _ := obj["geometry"].(map[string]any)
	if geometry["type"] == "GeometryCollection" {
		return problem("/geometry", "is a GeometryCollection")
	}
	if at, found := outside(geometry["coordinates"], onEarth); found {
		return problem("/geometry/coordinates", "has the position %v, which is not longitude and latitude", at)
	}
	found = append(found, checkLines(geometry)...)
	all, pointers := polygons(geometry)
	for i, rings := range all {
		var shell ring
		for n, e := range rings {
			r := lineOf(e)
			where := fmt.Sprintf("%s/%d", pointers[i], n)
			switch area := r.area(); {
			case len(r) < 4:
				found = append(found, problem(where, "is a ring of fewer than 4 positions")...)
			case r[0] != r[len(r)-1]:
				found = append(found, problem(where, "is a ring that is not closed")...)
			case area == 0:
				found = append(found, problem(where, "is a ring without an area")...)
			case (n == 0) != (area > 0):
				found = append(found, problem(where, "is wound the wrong way round (right-hand rule)")...)
			case r.span() > 180:
				found = append(found, problem(where, "spans %.0f degrees: not cut at the antimeridian?", r.span())...)
			case n > 0 && !shell.surrounds(r):
				found = append(found, problem(where, "is a hole outside of its polygon")...)
			}
			if len(r) >= 4 && r[0] == r[len(r)-1] {
				found = append(found, r.faults(where)...)
			}
			if n == 0 {
				shell = r
			}
		}
	}
	return found
}

func onEarth(p [2]float64) bool {
	return math.Abs(p[0]) <= 180+tolerance && math.Abs(p[1]) <= 90+tolerance
}

// area is positive for a ring that runs against the clock.
func (r ring) area() (sum float64) {
	for i := 1; i < len(r); i++ {
		sum += (r[i-1][0]-r[0][0])*(r[i][1]-r[0][1]) - (r[i][0]-r[0][0])*(r[i-1][1]-r[0][1])
	}
	return sum / 2
}

func (r ring) span() float64 {
	low, high := math.Inf(1), math.Inf(-1)
	for _, p := range r {
		low, high = math.Min(low, p[0]), math.Max(high, p[0])
	}
	return high - low
}

// checkBox: the bbox covers the geometry (RFC 7946 §5; west may be greater than east) and is on the
// earth.
func checkBox(_ schema.Kind, obj map[string]any) []schema.Problem {
	list, _ := obj["bbox"].([]any)
	geometry, _ := obj["geometry"].(map[string]any)
	if len(list) != 4 && len(list) != 6 || geometry == nil {
		return nil
	}
	var box [6]float64
	for i, e := range list {
		n, ok := e.(json.Number)
		f, err := n.Float64()
		if !ok || err != nil {
			return nil // the core's business
		}
		box[i] = f
	}
	west, south, east, north := box[0], box[1], box[len(list)/2], box[len(list)/2+1]
	switch {
	case south > north:
		return problem("/bbox", "its south is north of its north")
	case math.Abs(west) > 180+tolerance || math.Abs(east) > 180+tolerance || math.Abs(south) > 90+tolerance || math.Abs(north) > 90+tolerance:
		return problem("/bbox", "is not on the earth")
	}
	inside := func(p [2]float64) bool {
		if p[1] < south-tolerance || p[1] > north+tolerance {
			return false
		}
		if west > east {
			return p[0] >= west-tolerance || p[0] <= east+tolerance
		}
		return p[0] >= west-tolerance && p[0] <= east+tolerance
	}
	if p, ok := outside(geometry["coordinates"], inside); ok {
		return problem("/bbox", "does not cover the geometry's position %v", p)
	}
	return nil
}

// outside finds a position that is not inside.
func outside(v any, inside func([2]float64) bool) (p [2]float64, found bool) {
	if p, is := position(v); is {
		return p, !inside(p)
	}
	list, _ := v.([]any)
	for _, e := range list {
		if p, found := outside(e, inside); found {
			return p, true
		}
	}
	return p, false
}
