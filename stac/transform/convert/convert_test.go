package convert

import (
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
)

func parse(t testing.TB, text string) *item.Value {
	t.Helper()
	v, err := item.Parse([]byte(text))
	if err != nil {
		t.Fatal(text, err)
	}
	return v
}

type row struct{ in, want, fault string }

func try(t *testing.T, name string, rows []row, f func(*item.Value) (*item.Value, error)) {
	t.Helper()
	for _, c := range rows {
		in := parse(t, c.in)
		got, err := f(in)
		switch {
		case c.fault != "":
			if stepwell.CodeOf(err) != stepwell.CodeInvalid || !strings.Contains(err.Error()+stepwell.HintOf(err), c.fault) {
				t.Errorf("%s %s: error %v (%s), want %q", name, c.in, err, stepwell.HintOf(err), c.fault)
			}
		case err != nil || string(got.Bytes()) != c.want:
			t.Errorf("%s %s: %s, %v, want %s", name, c.in, got.Bytes(), err, c.want)
		}
		if string(in.Bytes()) != c.in {
			t.Errorf("%s changed its input %s", name, c.in)
		}
	}
}

func TestTimesWithoutAFormat(t *testing.T) {
	try(t, "time", []row{
		{`"2023-11-17T16:00:00Z"`, `"2023-11-17T16:00:00Z"`, ""},
		{`"2022-03-24T10:27:05.856308Z"`, `"2022-03-24T10:27:05.856308Z"`, ""},
		{`"2022-03-24T10:27:05.500Z"`, `"2022-03-24T10:27:05.500Z"`, ""},
		{`"2022-03-24 10:27:05.5"`, `"2022-03-24T10:27:05.5Z"`, ""},
		{`"2022-03-24 10:27:05+02:00"`, `"2022-03-24T08:27:05Z"`, ""},
		{`"2022-03-24 10:27:05 +02:00"`, `"2022-03-24T08:27:05Z"`, ""},
		{`"2022-03-24T10:27:05-0130"`, `"2022-03-24T11:57:05Z"`, ""},
		{`"2022-03-24 10:27:05 UTC"`, `"2022-03-24T10:27:05Z"`, ""},
		{`" 2022-03-24 "`, `"2022-03-24T00:00:00Z"`, ""},
		{`"20220324T102705Z"`, `"2022-03-24T10:27:05Z"`, ""},
		{`"20220324"`, `"2022-03-24T00:00:00Z"`, ""},
		{`1648117625`, `"2022-03-24T10:27:05Z"`, ""},
		{`1648117625856`, `"2022-03-24T10:27:05.856Z"`, ""},
		{`1648117625.25`, `"2022-03-24T10:27:05.25Z"`, ""},
		{`"24.03.2022"`, "", "give its format"},
		{`"2022-02-30"`, "", "is not a time"},
		{`""`, "", "is not a time"},
		{`1e300`, "", "is not a time"},
		{`true`, "", "is not a time"},
		{`{"a":1}`, "", "is not a time"},
	}, Clock{}.DateTime)
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	try(t, "Berlin", []row{{`"2022-07-01T12:00:00"`, `"2022-07-01T10:00:00Z"`, ""}, {`"2022-01-01"`, `"2021-12-31T23:00:00Z"`, ""}, {`"2022-07-01T12:00:00Z"`, `"2022-07-01T12:00:00Z"`, ""}},
		Clock{Zone: berlin}.DateTime)
}

func TestStrftime(t *testing.T) {
	for _, c := range []struct{ format, in, want, fault string }{
		{"%d.%m.%Y %H:%M", "24.03.2022 10:27", "2022-03-24T10:27:00Z", ""},
		{"%d.%m.%Y %H:%M", "24.3.2022   9:05", "2022-03-24T09:05:00Z", ""},
		{"%-d/%-m/%y", "4/3/99", "1999-03-04T00:00:00Z", ""},
		{"%m/%d/%y", "03/04/68", "2068-03-04T00:00:00Z", ""},
		{"%Y%m%d%H%M%S", "20220324102705", "2022-03-24T10:27:05Z", ""},
		{"%Y-%m-%dT%H:%M:%S.%fZ", "2022-03-24T10:27:05.856308Z", "2022-03-24T10:27:05.856308Z", ""},
		{"%Y-%m-%d %I:%M %p", "2022-03-24 12:27 AM", "2022-03-24T00:27:00Z", ""},
		{"%Y-%m-%d %I:%M %p", "2022-03-24 1:27 pm", "2022-03-24T13:27:00Z", ""},
		{"%d %b %Y", "24 Mar 2022", "2022-03-24T00:00:00Z", ""},
		{"%A, %d %B %Y", "Thursday, 24 march 2022", "2022-03-24T00:00:00Z", ""},
		{"%Y-%j", "2020-366", "2020-12-31T00:00:00Z", ""},
		{"%F %T %z", "2022-03-24 10:27:05 +0530", "2022-03-24T04:57:05Z", ""},
		{"%F %R%z", "2022-03-24 10:27-08:00", "2022-03-24T18:27:00Z", ""},
		{"%D", "03/24/22", "2022-03-24T00:00:00Z", ""},
		{"%s", "1648117625", "2022-03-24T10:27:05Z", ""},
		{"%Y %%", "2022 %", "2022-01-01T00:00:00Z", ""},
		{"%Y-%m-%d %Z", "2022-03-24 UTC", "2022-03-24T00:00:00Z", ""},
		{"%Y-%j", "2021-366", "", "is not a time of the form %Y-%j"},
		{"%Y-%m-%d", "2022-02-29", "", "is not a time"},
		{"%Y-%m-%d", "2022-13-01", "", "is not a time"},
		{"%Y-%m-%d", "2022-01-01x", "", "is not a time"},
		{"%Y-%m-%d", "2022-01", "", "is not a time"},
		{"%H:%M", "24:00", "", "is not a time"},
		{"%s", "99999999999999", "", "is not a time"},
	} {
		if err := CheckFormat(c.format); err != nil {
			t.Fatal(err)
		}
		got, err := Clock{Format: c.format}.DateTime(item.OfText(c.in))
		if c.fault != "" {
			if err == nil || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%s %q: %v, want %q", c.format, c.in, err, c.fault)
			}
			continue
		}
		if text, _ := got.Str(); err != nil || text != c.want {
			t.Errorf("%s %q: %s, %v, want %s", c.format, c.in, text, err, c.want)
		}
	}
	if got, err := (Clock{Format: "%Y%m%d"}).DateTime(parse(t, "20220324")); err != nil || string(got.Bytes()) != `"2022-03-24T00:00:00Z"` {
		t.Errorf("a number with a format: %s, %v", got.Bytes(), err)
	}
	for _, format := range []string{"%", "%Q", "%Y-%", "%-", "yyyy %E"} {
		if err := CheckFormat(format); stepwell.CodeOf(err) != stepwell.CodeInvalid || !strings.Contains(stepwell.HintOf(err), "%Y") {
			t.Errorf("%q: %v", format, err)
		}
	}
}

func TestNumbers(t *testing.T) {
	dot := func(v *item.Value) (*item.Value, error) { return Number(v, ".") }
	try(t, "number", []row{{`7e-06`, `7e-06`, ""}, {`"7e-06"`, `7e-06`, ""}, {`" 1,234.50 "`, `1234.50`, ""}, {`"-0.5"`, `-0.5`, ""}, {`".5"`, `0.5`, ""}, {`"007"`, `7`, ""},
		{`"12345678901234567890"`, `12345678901234567890`, ""}, {`"1'000"`, `1000`, ""}, {`""`, "", "is not a number"}, {`"x"`, "", "is not a number"}, {`"0x10"`, "", "is not a number"},
		{`"NaN"`, "", "is not a number"}, {`"1e999"`, "", "is not a number"}, {`"1_0"`, "", "is not a number"}, {`true`, "", "is not a number"}}, dot)
	comma := func(v *item.Value) (*item.Value, error) { return Number(v, ",") }
	try(t, "comma", []row{{`"3,14"`, `3.14`, ""}, {`"1.234,5"`, `1234.5`, ""}, {`3.5`, `3.5`, ""}, {`"1 234,5"`, `1234.5`, ""}}, comma)
	try(t, "int", []row{{`3`, `3`, ""}, {`3.0`, `3`, ""}, {`"26911"`, `26911`, ""}, {`1e3`, `1000`, ""}, {`"3.5"`, "", "is not a whole number"}, {`1e300`, "", "is not a whole number"}},
		func(v *item.Value) (*item.Value, error) { return Integer(v, ".") })
	try(t, "bool", []row{{`true`, `true`, ""}, {`"Yes"`, `true`, ""}, {`0`, `false`, ""}, {`"n"`, `false`, ""}, {`"maybe"`, "", "neither"}}, Boolean)
	try(t, "text", []row{{`"a"`, `"a"`, ""}, {`1.50`, `"1.50"`, ""}, {`true`, `"true"`, ""}, {`[1]`, "", "a list"}}, Text)
}

func TestGeometry(t *testing.T) {
	square := `{"type":"Polygon","coordinates":[[[1.0,2],[3,2],[3,4.50],[1.0,4.50],[1.0,2]]]}`
	try(t, "geometry", []row{
		{square, square, ""},
		{`{"type":"Feature","geometry":` + square + `,"properties":null}`, square, ""},
		{`"{\"type\":\"Point\",\"coordinates\":[1,2]}"`, `{"type":"Point","coordinates":[1,2]}`, ""},
		{`"POLYGON ((1.0 2, 3 2, 3 4.50, 1.0 4.50, 1.0 2))"`, square, ""},
		{`"polygon((1.0 2,3 2,3 4.50,1.0 4.50,1.0 2))"`, square, ""},
		{`"POINT (-1.5 .5)"`, `{"type":"Point","coordinates":[-1.5,0.5]}`, ""},
		{`"POINT (1e1 007.50)"`, `{"type":"Point","coordinates":[10,7.5]}`, ""},
		{`"POINT Z (1 2 3)"`, `{"type":"Point","coordinates":[1,2,3]}`, ""},
		{`"POINTZ(1 2 3)"`, `{"type":"Point","coordinates":[1,2,3]}`, ""},
		{`"POINT M (1 2 3)"`, `{"type":"Point","coordinates":[1,2]}`, ""},
		{`"POINT ZM (1 2 3 4)"`, `{"type":"Point","coordinates":[1,2,3]}`, ""},
		{`"SRID=4326;POINT(1 2)"`, `{"type":"Point","coordinates":[1,2]}`, ""},
		{`"MULTIPOINT (1 2, 3 4)"`, `{"type":"MultiPoint","coordinates":[[1,2],[3,4]]}`, ""},
		{`"MULTIPOINT ((1 2), (3 4))"`, `{"type":"MultiPoint","coordinates":[[1,2],[3,4]]}`, ""},
		{`"LINESTRING (1 2, 3 4)"`, `{"type":"LineString","coordinates":[[1,2],[3,4]]}`, ""},
		{`"MULTILINESTRING ((1 2, 3 4), (5 6, 7 8))"`, `{"type":"MultiLineString","coordinates":[[[1,2],[3,4]],[[5,6],[7,8]]]}`, ""},
		{`"MULTIPOLYGON (((0 0, 1 0, 1 1, 0 0)))"`, `{"type":"MultiPolygon","coordinates":[[[[0,0],[1,0],[1,1],[0,0]]]]}`, ""},
		{`"0101000000000000000000F03F0000000000000040"`, `{"type":"Point","coordinates":[1,2]}`, ""},
		{`"00000000013ff00000000000004000000000000000"`, `{"type":"Point","coordinates":[1,2]}`, ""},
		{`"0101000020E6100000000000000000F03F0000000000000040"`, `{"type":"Point","coordinates":[1,2]}`, ""},
		{`"01E9030000000000000000F03F00000000000000400000000000000840"`, `{"type":"Point","coordinates":[1,2,3]}`, ""},
		{`"0103000000010000000400000000000000000000000000000000000000000000000000f03f0000000000000000000000000000f03f000000000000f03f00000000000000000000000000000000"`, `{"type":"Polygon","coordinates":[[[0,0],[1,0],[1,1],[0,0]]]}`, ""},
		{`"0103000000010000000400000000000000000000000000000000000000000000000000f03f0000000000000000000000000000f03f000000000000f03f0000000000000000000000000000000000"`, "", "something follows"},
		{`[1,2]`, `{"type":"Point","coordinates":[1,2]}`, ""},
		{`["1.50","2"]`, `{"type":"Point","coordinates":[1.50,2]}`, ""},
		{`[1,2,3.0,4]`, `{"type":"Polygon","coordinates":[[[1,2],[3.0,2],[3.0,4],[1,4],[1,2]]]}`, ""},
		{`"170,-10,-170,10"`, `{"type":"MultiPolygon","coordinates":[[[[170,-10],[180,-10],[180,10],[170,10],[170,-10]]],[[[-180,-10],[-170,-10],[-170,10],[-180,10],[-180,-10]]]]}`, ""},
		{`[5,6,5,6]`, `{"type":"Point","coordinates":[5,6]}`, ""},
		{`"SRID=32632;POINT(1 2)"`, "", "EPSG:4326"},
		{`"POINT (568284 5427678)"`, "", "EPSG:4326"},
		{`"POINT EMPTY"`, "", "is empty"},
		{`"POINT (1 2) x"`, "", "something follows"},
		{`"POINT (1"`, "", ") is missing"},
		{`"POINT (1 nan)"`, "", "is not a number"},
		{`"CIRCLE (1 2)"`, "", "is not a geometry"},
		{`"POLYGON ((0 0, 1 0, 1 1, 0 1))"`, "", "is not closed"},
		{`"GEOMETRYCOLLECTION (POINT (1 2))"`, "", "is not allowed"},
		{`{"type":"GeometryCollection","geometries":[]}`, "", "is not allowed"},
		{`{"type":"Polygon","coordinates":[]}`, "", "has no coordinates"},
		{`{"type":"Polygon","coordinates":[1,2]}`, "", "is not a list of coordinates"},
		{`{"type":"Point","coordinates":["1",2]}`, "", "is not a coordinate"},
		{`{"type":"LineString","coordinates":[[1,2]]}`, "", "fewer than 2"},
		{`{}`, "", "is not a type of geometry"}, {`""`, "", "is not a geometry"}, {`"abc"`, "", "WKB"}, {`"01"`, "", "WKB"}, {`true`, "", "is not a geometry"}, {`[1]`, "", "bounding box"},
		{`"010700000000000000"`, "", "is not allowed"}, {`"0103000000FFFFFFFF"`, "", "ends too early"},
	}, Geometry)
}

func TestBBox(t *testing.T) {
	try(t, "bbox", []row{
		{`[-116.066453,48.997642,-115.995973,49.064871]`, `[-116.066453,48.997642,-115.995973,49.064871]`, ""},
		{`["1.50","2","3","4"]`, `[1.50,2,3,4]`, ""},
		{`"1, 2, 3, 4"`, `[1,2,3,4]`, ""}, {`"[1 2 3 4]"`, `[1,2,3,4]`, ""}, {`[1,2,0,3,4,9]`, `[1,2,0,3,4,9]`, ""},
		{`[1,2,3]`, "", "west, south"}, {`[1,5,3,4]`, "", "in degrees"}, {`[1,2,3,null]`, "", "bounding box"}, {`"a,b,c,d"`, "", "bounding box"}, {`null`, "", "bounding box"},
		{`[500000,4000000,600000,5000000]`, "", "in degrees"},
	}, BBox)
	of := func(g *item.Value) (*item.Value, error) {
		if err := CheckGeometry(g); err != nil {
			return nil, err
		}
		return BBoxOf(g)
	}
	try(t, "bbox of", []row{
		{`{"type":"Point","coordinates":[1.25,2]}`, `[1.25,2.0,1.25,2.0]`, ""},
		{`{"type":"LineString","coordinates":[[1,2,3],[-4,5,6]]}`, `[-4.0,2.0,3.0,1.0,5.0,6.0]`, ""},
		{`{"type":"LineString","coordinates":[[1,2,3],[-4,5]]}`, `[-4.0,2.0,1.0,5.0]`, ""},
		{`{"type":"MultiPolygon","coordinates":[[[[170,-10],[180,-10],[180,10],[170,-10]]],[[[-180,-10],[-170,-10],[-170,10],[-180,-10]]]]}`, `[170.0,-10.0,-170.0,10.0]`, ""},
		{`{"type":"MultiPolygon","coordinates":[[[[-180,-10],[180,-10],[180,10],[-180,-10]]],[[[-180,-10],[-170,-10],[-170,10],[-180,-10]]]]}`, `[-180.0,-10.0,180.0,10.0]`, ""},
	}, of)
}

func FuzzTime(f *testing.F) {
	f.Add("%Y-%m-%d %H:%M:%S.%f %z", "2022-03-24 10:27:05.5 +01:00")
	f.Add("%d %b %y %I %p %j %s %%", "24 Mar 22 1 pm 3 4 %")
	f.Add("", "20220324T102705Z")
	f.Fuzz(func(t *testing.T, format, text string) {
		if CheckFormat(format) != nil {
			return
		}
		v, err := Clock{Format: format}.DateTime(item.OfText(text))
		if err != nil {
			return
		}
		out, _ := v.Str()
		if _, err := time.Parse(time.RFC3339Nano, out); err != nil || !strings.HasSuffix(out, "Z") {
			t.Errorf("%q as %q gives %q", text, format, out)
		}
	})
}

func FuzzGeometry(f *testing.F) {
	f.Add(`"MULTIPOLYGON Z (((0 0 1, 1 0 2, 1 1 .5, 0 0 1)))"`)
	f.Add(`"0101000020E6100000000000000000F03F0000000000000040"`)
	f.Add(`{"type":"MultiPoint","coordinates":[[1,2],[3,4,5]]}`)
	f.Add(`"1,2,3,4,5,6"`)
	f.Fuzz(func(t *testing.T, text string) {
		v, err := item.Parse([]byte(text))
		if err != nil {
			return
		}
		g, err := Geometry(v)
		if err != nil {
			return
		}
		box, err := BBoxOf(g)
		if err != nil || box.Len() != 4 && box.Len() != 6 {
			t.Errorf("%s: bounding box %s, %v", text, box.Bytes(), err)
		}
		if _, err := item.Parse(g.Bytes()); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	})
}
