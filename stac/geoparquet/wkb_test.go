package geoparquet

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"math"
	"strings"
	"testing"

	"github.com/paulmach/orb"
	orbwkb "github.com/paulmach/orb/encoding/wkb"

	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stac/transform/convert"
)

func parseGeometry(t testing.TB, text string) *item.Value {
	t.Helper()
	v, err := item.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

var geometries = []string{
	`{"type":"Point","coordinates":[-179.33988247452157,1e-7]}`,
	`{"type":"Point","coordinates":[]}`,
	`{"type":"LineString","coordinates":[[30,10],[10,30.123456789012344],[40,-0]]}`,
	`{"type":"LineString","coordinates":[]}`,
	`{"type":"Polygon","coordinates":[[[35,10],[45,45],[15,40],[35,10]],[[20,30],[35,35],[30,20],[20,30]]]}`,
	`{"type":"MultiPoint","coordinates":[[10,40],[40,30]]}`,
	`{"type":"MultiLineString","coordinates":[[[10,10],[20,20]],[[40,40],[30,30],[40,20]]]}`,
	`{"type":"MultiPolygon","coordinates":[[[[40,40],[20,45],[45,30],[40,40]]],[[[20,35],[10,30],[10,10],[20,35]],[[30,20],[20,15],[20,25],[30,20]]]]}`,
	`{"type":"GeometryCollection","geometries":[{"type":"Point","coordinates":[1,2]},{"type":"GeometryCollection","geometries":[]}]}`,
	`{"type":"Point","coordinates":[1,2,3.5]}`,
	`{"type":"MultiPolygon","coordinates":[[[[0,0,1],[1,0,2],[1,1,3],[0,0,1]]]]}`,
}

func TestGeometriesSurvive(t *testing.T) {
	for _, text := range geometries {
		b, err := appendWKB(nil, parseGeometry(t, text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got, _, err := convert.AppendGeoJSON(nil, b)
		want := strings.ReplaceAll(text, "1e-7", "0.0000001")
		if err != nil || string(got) != want {
			t.Errorf("%s comes back as %s %v", text, got, err)
		}
	}
}

// TestSameAsOrb holds our WKB against another implementation's, which knows two coordinates.
func TestSameAsOrb(t *testing.T) {
	ring := func(points ...orb.Point) orb.Ring { return orb.Ring(points) }
	for i, g := range map[int]orb.Geometry{
		0: orb.Point{-179.33988247452157, 1e-7},
		2: orb.LineString{{30, 10}, {10, 30.123456789012344}, {40, math.Copysign(0, -1)}},
		4: orb.Polygon{ring(orb.Point{35, 10}, orb.Point{45, 45}, orb.Point{15, 40}, orb.Point{35, 10}),
			ring(orb.Point{20, 30}, orb.Point{35, 35}, orb.Point{30, 20}, orb.Point{20, 30})},
		5: orb.MultiPoint{{10, 40}, {40, 30}},
		6: orb.MultiLineString{{{10, 10}, {20, 20}}, {{40, 40}, {30, 30}, {40, 20}}},
		7: orb.MultiPolygon{{ring(orb.Point{40, 40}, orb.Point{20, 45}, orb.Point{45, 30}, orb.Point{40, 40})},
			{ring(orb.Point{20, 35}, orb.Point{10, 30}, orb.Point{10, 10}, orb.Point{20, 35}),
				ring(orb.Point{30, 20}, orb.Point{20, 15}, orb.Point{20, 25}, orb.Point{30, 20})}},
	} {
		ours, err := appendWKB(nil, parseGeometry(t, geometries[i]))
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := orbwkb.Marshal(g, binary.LittleEndian)
		if err != nil || !bytes.Equal(ours, theirs) {
			t.Errorf("%s:\nours   %x\ntheirs %x %v", geometries[i], ours, theirs, err)
		}
		big, err := orbwkb.Marshal(g, binary.BigEndian)
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := convert.AppendGeoJSON(nil, big)
		want, _, err2 := convert.AppendGeoJSON(nil, ours)
		if err != nil || err2 != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: big-endian is read as %s %v %v", geometries[i], got, err, err2)
		}
	}
}

func TestShapes(t *testing.T) {
	_, s, err := measureWKB(nil, parseGeometry(t, geometries[10]))
	if err != nil || s.name() != "MultiPolygon Z" || s.lo != [3]float64{0, 0, 1} || s.hi != [3]float64{1, 1, 3} {
		t.Errorf("%+v %v", s, err)
	}
	_, s, err = measureWKB(nil, parseGeometry(t, geometries[1]))
	if err != nil || s.name() != "Point" || !math.IsInf(s.lo[0], 1) {
		t.Errorf("%+v %v", s, err)
	}
}

func TestBadGeometries(t *testing.T) {
	for text, want := range map[string]string{
		`[1,2]`:                                               "a geometry is a list, not an object",
		`{"type":"Circle","coordinates":[]}`:                  `a geometry's type is "Circle", which GeoJSON does not have`,
		`{"coordinates":[]}`:                                  `a geometry's type is null, which GeoJSON does not have`,
		`{"type":"Point"}`:                                    "a Point's coordinates are null, not a list",
		`{"type":"Point","coordinates":[1]}`:                  "a position of 1 numbers, not 2 or 3",
		`{"type":"Point","coordinates":["1",2]}`:              `positions of 0 and of 2 numbers in one geometry`,
		`{"type":"Point","coordinates":[1,"2"]}`:              `a coordinate is "2", not a number that a double can hold`,
		`{"type":"LineString","coordinates":[[1,2],[1,2,3]]}`: "positions of 2 and of 3 numbers in one geometry",
		`{"type":"LineString","coordinates":[[1,2],3]}`:       "a position is a number, not a list",
		`{"type":"Polygon","coordinates":["x"]}`:              "a line's coordinates are a text, not a list",
		`{"type":"MultiPolygon","coordinates":["x"]}`:         "a polygon's coordinates are a text, not a list",
		`{"type":"Point","coordinates":[1,1e999]}`:            "a coordinate is 1e999, not a number that a double can hold",
		strings.Repeat(`{"type":"GeometryCollection","geometries":[`, 20) + strings.Repeat(`]}`, 20): "more than 8 GeometryCollections inside each other",
	} {
		if _, err := appendWKB(nil, parseGeometry(t, text)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func TestOtherWKB(t *testing.T) {
	point := func(code string, numbers ...float64) []byte {
		b, _ := hex.DecodeString("01" + code)
		for _, n := range numbers {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(n))
		}
		return b
	}
	for want, b := range map[string][]byte{
		`{"type":"Point","coordinates":[1,2,3]}`: point("e9030000", 1, 2, 3),         // ISO Z
		`{"type":"Point","coordinates":[1,2]}`:   point("d1070000", 1, 2, 3),         // ISO M
		`{"type":"Point","coordinates":[1,3,2]}`: point("b90b0000", 1, 3, 2, 4),      // ISO ZM
		`{"type":"Point","coordinates":[3,2,1]}`: point("010000a0e6100000", 3, 2, 1), // extended, with Z and SRID
	} {
		if got, _, err := convert.AppendGeoJSON(nil, b); err != nil || string(got) != want {
			t.Errorf("%x: %s %v, want %s", b, got, err, want)
		}
	}
	for want, b := range map[string][]byte{
		"the WKB ends too early": point("01000000", 1), "something follows the WKB": append(point("01000000", 1, 2), 0),
		"WKB of type 8, which is not a geometry that GeoJSON has": point("08000000", 1, 2), "a coordinate is infinite": point("01000000", 1, math.Inf(1)),
	} {
		if got, _, err := convert.AppendGeoJSON(nil, b); err == nil || err.Error() != want {
			t.Errorf("%x: %s %v, want %s", b, got, err, want)
		}
	}
}

// FuzzWKB: what can be read is JSON, and reads the same again when it is written as GeoJSON.
func FuzzWKB(f *testing.F) {
	for _, text := range geometries {
		b, err := appendWKB(nil, parseGeometry(f, text))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		text, _, err := convert.AppendGeoJSON(nil, b)
		if err != nil {
			return
		}
		v := parseGeometry(t, string(text))
		again, err := appendWKB(nil, v)
		if err != nil {
			return // a coordinate that is not a number, mixed dimensions
		}
		if twice, _, err := convert.AppendGeoJSON(nil, again); err != nil || !bytes.Equal(twice, text) {
			t.Fatalf("%s became %s %v", text, twice, err)
		}
	})
}
