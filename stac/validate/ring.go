package validate

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/stepwell/stepwell/stac/schema"
)

// maxPairs bounds the pairs of edges that are compared in one ring; a ring of 100,000 positions needs a tenth of it.
const maxPairs = 5_000_000

// checkLines looks at the lines of a geometry: each needs two different positions, and none twice in a row.
func checkLines(geometry map[string]any) (found []schema.Problem) {
	list, _ := geometry["coordinates"].([]any)
	switch geometry["type"] {
	case "LineString":
		return lineOf(list).repeated("/geometry/coordinates")
	case "MultiLineString":
		for i, e := range list {
			found = append(found, lineOf(e).repeated(fmt.Sprintf("/geometry/coordinates/%d", i))...)
		}
	}
	return found
}

// repeated finds the first position that stands twice in a row.
func (r ring) repeated(where string) []schema.Problem {
	for i := 1; i < len(r); i++ {
		if r[i] == r[i-1] {
			return problem(fmt.Sprintf("%s/%d", where, i), "repeats the position before it, %v", r[i])
		}
	}
	return nil
}

// faults finds errors in the course of a closed ring, the first of each kind.
func (r ring) faults(where string) []schema.Problem {
	found := r.repeated(where)
	open := slices.Compact(slices.Clone(r[:len(r)-1]))
	for i, p := range open {
		before, after := open[(i+len(open)-1)%len(open)], open[(i+1)%len(open)]
		if turn(before, p, after) == 0 && (before[0]-p[0])*(after[0]-p[0])+(before[1]-p[1])*(after[1]-p[1]) > 0 {
			return append(found, problem(where, "has a spike at %v: it goes back the way it came", p)...)
		}
	}
	if a, b, crosses := crossing(open); crosses {
		found = append(found, problem(where, "crosses itself between %v and %v", a, b)...)
	}
	return found
}

// turn is positive where c lies to the left of the way from a to b, 0 where it lies on it.
func turn(a, b, c [2]float64) float64 {
	return (b[0]-a[0])*(c[1]-a[1]) - (c[0]-a[0])*(b[1]-a[1])
}

type edge struct {
	from, to [2]float64
	at       int
	low      float64 // the smaller of its longitudes
	high     float64
}

// crossing finds an edge of a ring that meets another that is not its neighbour, and gives where both begin.
func crossing(open ring) (a, b [2]float64, found bool) {
	edges := make([]edge, len(open))
	for i, p := range open {
		q := open[(i+1)%len(open)]
		edges[i] = edge{p, q, i, min(p[0], q[0]), max(p[0], q[0])}
	}
	slices.SortFunc(edges, func(x, y edge) int { return cmp.Compare(x.low, y.low) })
	pairs := 0
	for i, x := range edges {
		for _, y := range edges[i+1:] {
			if y.low > x.high {
				break
			}
			if pairs++; pairs > maxPairs {
				return a, b, false
			}
			next := (x.at+1)%len(open) == y.at || (y.at+1)%len(open) == x.at
			if !next && x.meets(y) {
				return x.from, y.from, true
			}
		}
	}
	return a, b, false
}

// meets says whether two edges have a position in common.
func (x edge) meets(y edge) bool {
	a, b := turn(x.from, x.to, y.from), turn(x.from, x.to, y.to)
	c, d := turn(y.from, y.to, x.from), turn(y.from, y.to, x.to)
	if a*b < 0 && c*d < 0 {
		return true
	}
	return a == 0 && x.covers(y.from) || b == 0 && x.covers(y.to) || c == 0 && y.covers(x.from) || d == 0 && y.covers(x.to)
}

// covers says whether a position in line with the edge lies on it.
func (x edge) covers(p [2]float64) bool {
	return p[0] >= x.low && p[0] <= x.high && p[1] >= min(x.from[1], x.to[1]) && p[1] <= max(x.from[1], x.to[1])
}

// surrounds says whether a hole lies inside, as far as its first positions tell; on the border counts.
func (r ring) surrounds(hole ring) bool {
	for _, p := range hole[:min(len(hole), 16)] {
		inside, border := false, false
		for i := 1; i < len(r); i++ {
			a, b := r[i-1], r[i]
			border = border || turn(a, b, p) == 0 && edge{a, b, 0, min(a[0], b[0]), max(a[0], b[0])}.covers(p)
			if (a[1] > p[1]) != (b[1] > p[1]) && p[0] < (b[0]-a[0])*(p[1]-a[1])/(b[1]-a[1])+a[0] {
				inside = !inside
			}
		}
		if !inside && !border {
			return false
		}
	}
	return true
}
