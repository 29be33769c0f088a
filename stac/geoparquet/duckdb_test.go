package geoparquet_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stac/geoparquet"
	"github.com/stepwell/stepwell/stac/geoparquet/geoparquettest"
	"github.com/stepwell/stepwell/stream/parquet"
)

// one is the only row of a query, in which FILE stands for the file.
func one(t *testing.T, path, sql string) map[string]any {
	t.Helper()
	rows := geoparquettest.Query(t, strings.ReplaceAll(sql, "FILE", "'"+path+"'"))
	if len(rows) != 1 {
		t.Fatalf("%s: %d rows", sql, len(rows))
	}
	return rows[0]
}

// metadata are the key/value metadata as DuckDB sees them.
func metadata(t *testing.T, path string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, row := range geoparquettest.Query(t, `SELECT decode(key) AS k, decode(value) AS v FROM parquet_kv_metadata('`+path+`')`) {
		out[row["k"].(string)] = row["v"].(string)
	}
	return out
}

// TestLandsatInDuckDB holds the figures that another implementation finds in our file.
func TestLandsatInDuckDB(t *testing.T) {
	items := valid(t)
	dir := t.TempDir()
	f, err := geoparquet.New(dir, geoparquet.Options{RowGroup: 300})
	if err != nil {
		t.Fatal(err)
	}
	for _, it := range items {
		if err := f.Add(it); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "landsat.parquet")
	collection := parse(t, []byte(`{"type":"Collection","id":"landsat-8-c2-l2","description":"d"}`))
	if _, err := f.Close(context.Background(), path, map[string]*item.Value{"landsat-8-c2-l2": collection}); err != nil {
		t.Fatal(err)
	}
	got := one(t, path, `SELECT count(*) AS n, count(DISTINCT id) AS ids, any_value(typeof(geometry)) AS geometry,
		any_value(typeof(datetime)) AS datetime, any_value(typeof(updated)) AS updated, any_value(typeof(bbox)) AS bbox,
		min(bbox.xmin) AS xmin, min(bbox.ymin) AS ymin, max(bbox.xmax) AS xmax, max(bbox.ymax) AS ymax,
		count(*) FILTER ("eo:cloud_cover" < 10) AS clear, round(avg("eo:cloud_cover"), 4) AS cover,
		any_value(typeof(assets.ANG.href)) AS href, any_value(typeof("proj:bbox")) AS shape,
		count(*) FILTER (ST_AsText(geometry) LIKE 'POLYGON%') AS polygons,
		min(datetime)::VARCHAR LIKE '20%' AS dated FROM FILE`)
	want := map[string]any{
		"n": 716.0, "ids": 716.0, "geometry": "GEOMETRY('OGC:CRS84')", "datetime": "TIMESTAMP WITH TIME ZONE", "updated": "TIMESTAMP WITH TIME ZONE",
		"bbox": "STRUCT(xmin DOUBLE, ymin DOUBLE, xmax DOUBLE, ymax DOUBLE)", "xmin": -179.33988247452157, "ymin": -45.684344979343145,
		"xmax": 10.660959714868829, "ymax": 55.63995448776049, "clear": 112.0, "cover": 52.2716, "href": "VARCHAR", "shape": "DOUBLE[]",
		"polygons": 716.0, "dated": true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	kv := metadata(t, path)
	var geo struct {
		Version string `json:"version"`
		Primary string `json:"primary_column"`
		Columns map[string]struct {
			Types []string  `json:"geometry_types"`
			BBox  []float64 `json:"bbox"`
		} `json:"columns"`
	}
	if err := json.Unmarshal([]byte(kv["geo"]), &geo); err != nil {
		t.Fatal(err)
	}
	column := geo.Columns["geometry"]
	if geo.Version != "1.1.0" || geo.Primary != "geometry" || !cmp.Equal(column.Types, []string{"Polygon"}) ||
		!cmp.Equal(column.BBox, []float64{-179.33988247452157, -45.684344979343145, 10.660959714868829, 55.63995448776049}) {
		t.Errorf("geo metadata: %s", kv["geo"])
	}
	if want := `{"version":"1.1.0","collections":{"landsat-8-c2-l2":{"type":"Collection","id":"landsat-8-c2-l2","description":"d"}}}`; kv["stac-geoparquet"] != want {
		t.Errorf("stac-geoparquet metadata: %s", kv["stac-geoparquet"])
	}
}

// TestManyCollections writes items of many collections into one file: what is rare elsewhere is usual here.
func TestManyCollections(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(shared(t, "items"), "*.ndjson"))
	if err != nil || len(paths) == 0 {
		t.Fatal(err, paths)
	}
	f, err := geoparquet.New(t.TempDir(), geoparquet.Options{Conflict: parquet.AsJSON})
	if err != nil {
		t.Fatal(err)
	}
	var items []*item.Value
	refused := 0
	for _, path := range paths {
		for i, line := range lines(t, path) {
			if i == 10 {
				break
			}
			it := parse(t, line)
			if err := f.Add(it); err != nil {
				refused++
				if want := `the property "collection" is named like a member`; !strings.Contains(err.Error(), want) {
					t.Errorf("%s:%d: %v", path, i+1, err)
				}
				continue
			}
			items = append(items, it)
		}
	}
	if refused != 4 {
		t.Errorf("%d items refused, want the 4 with a property named collection", refused)
	}
	path := filepath.Join(t.TempDir(), "items.parquet")
	if _, err := f.Close(context.Background(), path, nil); err != nil {
		t.Fatal(err)
	}
	same(t, items, read(t, path))
	got := one(t, path, `SELECT count(*) AS n, count(DISTINCT collection) AS collections FROM FILE`)
	if got["n"] != float64(len(items)) || got["collections"].(float64) < 10 {
		t.Errorf("%d items written, DuckDB finds %v", len(items), got)
	}
	// Every value of every column can be read, not only those of the columns that were asked for.
	if all := geoparquettest.Query(t, fmt.Sprintf(`SELECT * REPLACE (ST_AsText(geometry) AS geometry) FROM '%s'`, path)); len(all) != len(items) {
		t.Errorf("%d rows, want %d", len(all), len(items))
	}
}

func feature(id, geometry, more, props, assets string) string {
	return `{"type":"Feature","stac_version":"1.1.0","id":"` + id + `","geometry":` + geometry + more +
		`,"properties":{"datetime":"2026-01-02T03:04:05.678901+02:00"` + props + `},"links":[],"assets":{` + assets + `}}`
}

// TestOddItems are items as they come, and how DuckDB finds them.
func TestOddItems(t *testing.T) {
	texts := []string{
		feature("flat", `{"type":"Point","coordinates":[1.1,-2.2]}`, `,"bbox":[1.1,-2.2,1.1,-2.2]`, `,"n":1,"all":null,"e":{}`, ``),
		feature("high", `{"type":"Polygon","coordinates":[[[0,0,5],[1,0,5],[1,1,6.5],[0,0,5]]]}`, `,"bbox":[0,0,5,1,1,6.5]`, `,"n":2.5,"l":[[1,2],[],[3]]`, `"a":{"href":"x"}`),
		feature("nowhere", `null`, ``, `,"n":-3,"who":[{"name":"ü\n"},{"name":"b","roles":[]}]`, `"b":{}`),
		feature("across", `{"type":"MultiPolygon","coordinates":[[[[170,0],[180,0],[180,1],[170,0]]],[[[-180,0],[-170,0],[-180,1],[-180,0]]]]}`,
			`,"bbox":[170,0,-170,1],"stac_extensions":["https://x/y"],"collection":"c","note":{"z":1}`,
			`,"proj:geometry":{"type":"Point","coordinates":[500000.25,1e7]},"end_datetime":"2026-01-02T03:04:05Z"`, ``),
	}
	var items []*item.Value
	for _, text := range texts {
		items = append(items, parse(t, []byte(text)))
	}
	path, stats := write(t, geoparquet.Options{}, items)
	same(t, items, read(t, path))
	if want := []float64{-180, -2.2, 5, 180, 1, 6.5}; !cmp.Equal(stats.BBox, want) {
		t.Errorf("bbox %v, want %v", stats.BBox, want)
	}
	got := one(t, path, `SELECT count(*) AS n, count(geometry) AS places, sum(n) AS total, any_value(typeof(n)) AS kind, count("all") AS nulls,
		any_value(typeof("all")) AS nullkind, any_value(ST_AsText(geometry)) FILTER (id = 'high') AS high,
		any_value(typeof("proj:geometry")) AS proj, any_value(bbox.zmax) FILTER (id = 'high') AS top,
		epoch_us(min(datetime)) AS at FROM FILE`)
	want := map[string]any{"n": 4.0, "places": 3.0, "total": 0.5, "kind": "DOUBLE", "nulls": 0.0, "nullkind": "VARCHAR",
		"high": "POLYGON Z ((0 0 5, 1 0 5, 1 1 6.5, 0 0 5))", "top": 6.5, "at": 1767315845678901.0, "proj": "BLOB"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if kv := metadata(t, path); !strings.Contains(kv["geo"], `"geometry_types":["MultiPolygon","Point","Polygon Z"]`) {
		t.Errorf("geo metadata: %s", kv["geo"])
	}
}

// TestNoAssets: an item without any asset in the whole file, and a file without items.
func TestNoAssets(t *testing.T) {
	items := []*item.Value{parse(t, []byte(feature("a", "null", "", "", "")))}
	path, stats := write(t, geoparquet.Options{}, items)
	same(t, items, read(t, path))
	if stats.BBox != nil {
		t.Errorf("bbox %v of no place", stats.BBox)
	}
	if got := one(t, path, `SELECT typeof(assets) AS assets, typeof(links) AS links FROM FILE`); got["assets"] != `STRUCT("data" STRUCT(href VARCHAR))` ||
		got["links"] != "STRUCT(href VARCHAR, rel VARCHAR, \"type\" VARCHAR, title VARCHAR)[]" {
		t.Errorf("%v", got)
	}
	path, _ = write(t, geoparquet.Options{}, nil)
	if items := read(t, path); len(items) != 0 {
		t.Errorf("%d items", len(items))
	}
	if got := one(t, path, `SELECT count(*) AS n FROM FILE`); got["n"] != 0.0 {
		t.Errorf("%v", got)
	}
}
