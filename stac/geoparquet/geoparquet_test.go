package geoparquet_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stac/geoparquet"
	"github.com/stepwell/stepwell/stream/parquet"
)

// plain is what of an item must survive: its value without the members that are null.
func plain(t testing.TB, it *item.Value) map[string]any {
	t.Helper()
	v := native(it).(map[string]any)
	for _, always := range []string{"stac_extensions", "links"} {
		if v[always] == nil {
			v[always] = []any{}
		}
	}
	if v["assets"] == nil {
		v["assets"] = map[string]any{}
	}
	props := v["properties"].(map[string]any)
	for _, name := range []string{"datetime", "start_datetime", "end_datetime", "created", "updated"} {
		s, ok := props[name].(string)
		if !ok {
			continue
		}
		at, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		props[name] = at.UTC()
	}
	return v
}

func native(v *item.Value) any {
	switch v.Kind() {
	case item.Object:
		out := map[string]any{}
		for name, m := range v.Members() {
			if !m.IsNull() {
				out[name] = native(m)
			}
		}
		return out
	case item.List:
		out := []any{}
		for _, e := range v.Elements() {
			out = append(out, native(e))
		}
		return out
	case item.Text:
		s, _ := v.Str()
		return s
	case item.Number:
		f, _ := v.Float()
		return f
	case item.Bool:
		return string(v.Bytes()) == "true"
	}
	return nil
}

// same holds items against what was read back.
func same(t testing.TB, want, got []*item.Value) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d items, want %d", len(got), len(want))
	}
	for i := range want {
		if diff := cmp.Diff(plain(t, want[i]), plain(t, got[i])); diff != "" {
			t.Fatalf("item %d differs (-written +read):\n%s", i, diff)
		}
	}
}

func TestLandsatSurvives(t *testing.T) {
	items := valid(t)
	path, stats := write(t, geoparquet.Options{RowGroup: 200}, items)
	if stats.Items != 716 {
		t.Errorf("%d items, want 716", stats.Items)
	}
	same(t, items, read(t, path))
}

func parquetFiles(t *testing.T, elem ...string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(shared(t, elem[0]), filepath.Join(elem[1:]...)))
	if err != nil || len(paths) == 0 {
		t.Fatal(elem, err)
	}
	return paths
}

func is(t *testing.T, path string) bool {
	t.Helper()
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	ok, err := geoparquet.Is(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	return ok
}

// TestItemsOfOthers reads a file that another tool has written, and writes it again.
func TestItemsOfOthers(t *testing.T) {
	path := parquetFiles(t, "stac-manager-samples", "*", "sample-data", "items.parquet")[0]
	items := read(t, path)
	if !is(t, path) || len(items) != 20 {
		t.Fatalf("STAC items: %t, %d of them", is(t, path), len(items))
	}
	for _, it := range items {
		geometry, _ := it.Find(item.Path{{Key: "geometry"}, {Key: "type"}}).Str()
		_, known := it.Find(item.Path{{Key: "properties"}, {Key: "eo:cloud_cover"}}).Float()
		if geometry != "Polygon" || !known || it.Get("bbox").Len() != 4 || it.Get("assets").Len() != 23 || it.Get("collection") == nil {
			t.Fatalf("%s", it.Bytes())
		}
	}
	again, _ := write(t, geoparquet.Options{}, items)
	if !is(t, again) {
		t.Error("our own file is not taken for one")
	}
	same(t, items, read(t, again))
}

// TestFeaturesOfOthers reads GeoParquet that holds no STAC items.
func TestFeaturesOfOthers(t *testing.T) {
	path := parquetFiles(t, "geoparquet", "examples", "example.parquet")[0]
	features := read(t, path)
	if is(t, path) || len(features) != 5 {
		t.Fatalf("STAC items: %t, %d features", is(t, path), len(features))
	}
	name, _ := features[0].Find(item.Path{{Key: "properties"}, {Key: "name"}}).Str()
	kind, _ := features[0].Find(item.Path{{Key: "geometry"}, {Key: "type"}}).Str()
	if name != "Fiji" || kind != "MultiPolygon" || features[0].Get("links") != nil || features[0].Get("bbox").Len() != 0 && features[0].Get("bbox").Len() != 4 {
		t.Errorf("%s", features[0].Bytes())
	}
	kinds := map[string]int{}
	for _, path := range parquetFiles(t, "geoparquet", "test_data", "*.parquet") {
		for _, f := range read(t, path) {
			kind, _ := f.Find(item.Path{{Key: "geometry"}, {Key: "type"}}).Str()
			kinds[kind]++
		}
	}
	// As DuckDB counts them.
	want := map[string]int{"": 6, "Point": 3, "LineString": 2, "Polygon": 3, "MultiPoint": 3, "MultiLineString": 3, "MultiPolygon": 4}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestRefusedItems(t *testing.T) {
	good := feature("a", `{"type":"Point","coordinates":[1,2]}`, `,"bbox":[1,2,1,2]`, `,"n":1`, `"x":{"href":"h"}`)
	for text, want := range map[string]string{
		`{"type":"Collection","id":"c"}`:                               `the item's type is "Collection", not "Feature"`,
		`{"type":"Feature","id":"c"}`:                                  `the item's properties are null, not an object`,
		feature("b", "null", "", `,"id":1`, ""):                        `the property "id" is named like a member of the item, and would take its column`,
		feature("b", "null", "", `,"n":"1"`, ""):                       `column "n": "1" is a text, where int is expected`,
		feature("b", "null", "", "", `"x":"h"`):                        `column "assets.x": "h" is a text, where struct is expected`,
		feature("b", "7", "", "", ""):                                  `column "geometry": a geometry is a number, not an object`,
		feature("b", "null", `,"bbox":[1]`, "", ""):                    `the bbox is [1], not a list of 4 or 6 numbers`,
		feature("b", "null", `,"bbox":[1,2,3,"4"]`, "", ""):            `the bbox is [1,2,3,"4"], not a list of 4 or 6 numbers`,
		feature("b", "null", "", `,"created":"2026"`, ""):              `column "created": "2026" is not a time of RFC 3339`,
		feature("b", "null", "", `,"proj:geometry":{"type":"X"}`, ""):  `column "proj:geometry": a geometry's type is "X", which GeoJSON does not have`,
		`{"type":"Feature","properties":{"datetime":null},"links":[]}`: `column "id": must not be null or absent`,
		`{"type":"Feature","id":7,"properties":{},"links":[]}`:         `column "id": 7 is a number, where text is expected`,
	} {
		for _, conflict := range []parquet.Conflict{parquet.Refuse, parquet.AsJSON} {
			f, err := geoparquet.New(t.TempDir(), geoparquet.Options{Conflict: conflict})
			if err != nil {
				t.Fatal(err)
			}
			if err := f.Add(parse(t, []byte(good))); err != nil {
				t.Fatal(err)
			}
			err = f.Add(parse(t, []byte(text)))
			isJSON := conflict == parquet.AsJSON && (strings.Contains(text, `"n":"1"`) || strings.Contains(text, `"x":"h"`))
			if isJSON && err != nil || !isJSON && (err == nil || err.Error() != want || stepwell.CodeOf(err) != stepwell.CodeInvalid) {
				t.Errorf("%s: %v, want %s", text, err, want)
			}
			path := filepath.Join(t.TempDir(), "f.parquet")
			stats, err := f.Close(t.Context(), path, nil)
			if err != nil || stats.Items != f.Items || len(read(t, path)) != int(stats.Items) || isJSON != (stats.Items == 2) {
				t.Errorf("%s: %+v %v", text, stats, err)
			}
		}
	}
}

// TestModes: what the first items or a given schema decide, and that a file goes on after a crash.
func TestModes(t *testing.T) {
	one := feature("a", "null", "", `,"n":1`, `"x":{"href":"h"}`)
	more := feature("b", "null", "", `,"m":1`, `"x":{"href":"h"}`)
	asset := feature("c", "null", "", `,"n":2`, `"y":{"href":"h"}`)
	fits := feature("d", "null", "", `,"n":3`, `"x":{"href":"i"}`)
	text := &parquet.Type{Kind: parquet.Text}
	schema := parquet.Schema{{Name: "n", Type: &parquet.Type{Kind: parquet.Int}}, {Name: "assets", Type: &parquet.Type{Kind: parquet.Struct,
		Fields: []parquet.Field{{Name: "x", Type: &parquet.Type{Kind: parquet.Struct, Fields: []parquet.Field{{Name: "href", Type: text}}}}}}}}
	for name, o := range map[string]geoparquet.Options{"first": {FirstN: 1}, "fixed": {Schema: schema}} {
		dir := t.TempDir()
		f, err := geoparquet.New(dir, o)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Add(parse(t, []byte(one))); err != nil {
			t.Fatal(name, err)
		}
		state, err := f.Commit()
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Leave(); err != nil {
			t.Fatal(err)
		}
		o.Resume = &state
		if f, err = geoparquet.New(dir, o); err != nil {
			t.Fatal(err)
		}
		if err := f.Add(parse(t, []byte(more))); err == nil || err.Error() != `column "m": not in the schema` {
			t.Errorf("%s: %v", name, err)
		}
		if err := f.Add(parse(t, []byte(asset))); err == nil || err.Error() != `column "assets.y": not in the schema` {
			t.Errorf("%s: %v", name, err)
		}
		if err := f.Add(parse(t, []byte(fits))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		path := filepath.Join(t.TempDir(), "f.parquet")
		if _, err := f.Close(t.Context(), path, nil); err != nil {
			t.Fatal(err)
		}
		same(t, []*item.Value{parse(t, []byte(one)), parse(t, []byte(fits))}, read(t, path))
	}
}

// TestFixedProperties: assets and links are found over all items where they are not given.
func TestFixedProperties(t *testing.T) {
	texts := []string{feature("a", "null", "", `,"n":1`, ""), feature("b", "null", "", "", `"x":{"href":"h","eo:bands":[{"name":"B1"}]}`),
		strings.Replace(feature("c", "null", "", "", `"y":{"href":"h","gsd":0.5}`), `"links":[]`, `"links":[{"href":"h","rel":"r","method":"GET"}]`, 1)}
	schema := parquet.Schema{{Name: "n", Type: &parquet.Type{Kind: parquet.Int}}, {Name: "l", Type: &parquet.Type{Kind: parquet.List}}}
	var items []*item.Value
	for _, text := range texts {
		items = append(items, parse(t, []byte(text)))
	}
	path, _ := write(t, geoparquet.Options{Schema: schema}, items)
	same(t, items, read(t, path))
	f, err := geoparquet.New(t.TempDir(), geoparquet.Options{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := f.Leave(); err != nil {
			t.Error(err)
		}
	}()
	if err := f.Add(parse(t, []byte(feature("d", "null", "", `,"n":0.5`, "")))); err == nil || err.Error() != `column "n": 0.5 is not a number that fits int` {
		t.Errorf("%v", err)
	}
	if err := f.Add(parse(t, []byte(feature("d", "null", "", `,"m":1`, "")))); err == nil || err.Error() != `column "m": not in the schema` {
		t.Errorf("%v", err)
	}
}

// TestNoAssetsFirst: assets that the first items do not have do not fit later.
func TestNoAssetsFirst(t *testing.T) {
	f, err := geoparquet.New(t.TempDir(), geoparquet.Options{FirstN: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Add(parse(t, []byte(feature("a", "null", "", "", "")))); err != nil {
		t.Fatal(err)
	}
	err = f.Add(parse(t, []byte(feature("b", "null", "", "", `"x":{"href":"h"}`))))
	if err == nil || err.Error() != `column "assets.x": not in the schema` {
		t.Errorf("%v", err)
	}
	path := filepath.Join(t.TempDir(), "f.parquet")
	if _, err := f.Close(t.Context(), path, nil); err != nil || len(read(t, path)) != 1 {
		t.Error(err)
	}
}

// TestMembersBeside: members that STAC does not know come back where they were.
func TestMembersBeside(t *testing.T) {
	items := []*item.Value{parse(t, []byte(`{"type":"Feature","id":"a","geometry":null,"properties":{"datetime":null,"x":1},"x":{"y":[2]},"assets":{}}`))}
	path, _ := write(t, geoparquet.Options{}, items)
	got := read(t, path)
	same(t, items, got)
	if !strings.Contains(string(got[0].Bytes()), `"datetime":null`) || !strings.Contains(string(got[0].Bytes()), `"geometry":null`) {
		t.Errorf("%s", got[0].Bytes())
	}
}

func TestNoItems(t *testing.T) {
	for _, text := range []string{"", "PAR1 no Parquet file PAR1"} {
		if _, err := geoparquet.Is(strings.NewReader(text), int64(len(text))); stepwell.CodeOf(err) != stepwell.CodeInvalid {
			t.Errorf("%q: %v", text, err)
		}
	}
	var out bytes.Buffer
	w, err := parquet.NewWriter(&out, parquet.Schema{{Name: "a", Type: &parquet.Type{Kind: parquet.Int}}}, parquet.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	err = geoparquet.Each(t.Context(), bytes.NewReader(out.Bytes()), int64(out.Len()), 0, func([]byte, int64) error { return nil })
	if stepwell.CodeOf(err) != stepwell.CodeInvalid || stepwell.HintOf(err) == "" {
		t.Errorf("a file of rows: %v", err)
	}
}
