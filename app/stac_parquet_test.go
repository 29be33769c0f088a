package app_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/stac/geoparquet/geoparquettest"
)

// landsatTable holds P4 against what DuckDB finds in a file.
func (r *streamRig) landsatTable(name string) {
	r.t.Helper()
	file := "'" + filepath.Join(r.dir, name) + "'"
	got := geoparquettest.Query(r.t, `SELECT count(*) AS n, count(DISTINCT id) AS ids, any_value(typeof(geometry)) LIKE 'GEOMETRY%' AS geometry,
		any_value(typeof(datetime)) AS datetime, any_value(typeof(bbox)) AS bbox, min(bbox.xmin) AS xmin, min(bbox.ymin) AS ymin, max(bbox.xmax) AS xmax,
		max(bbox.ymax) AS ymax, count(*) FILTER ("eo:cloud_cover" < 10) AS clear, round(avg("eo:cloud_cover"), 4) AS cover FROM `+file)
	want := []map[string]any{{"n": 716.0, "ids": 716.0, "geometry": true, "datetime": "TIMESTAMP WITH TIME ZONE",
		"bbox": "STRUCT(xmin DOUBLE, ymin DOUBLE, xmax DOUBLE, ymax DOUBLE)", "xmin": -179.33988247452157, "ymin": -45.684344979343145,
		"xmax": 10.660959714868829, "ymax": 55.63995448776049, "clear": 112.0, "cover": 52.2716}}
	if diff := cmp.Diff(want, got); diff != "" {
		r.t.Errorf("-want +got:\n%s", diff)
	}
	kv := map[string]string{}
	for _, row := range geoparquettest.Query(r.t, `SELECT decode(key) AS k, decode(value) AS v FROM parquet_kv_metadata(`+file+`)`) {
		kv[row["k"].(string)] = row["v"].(string)
	}
	var geo struct {
		Version string
		Columns map[string]struct {
			Types []string `json:"geometry_types"`
		}
	}
	var own struct {
		Version     string
		Collections map[string]json.RawMessage
	}
	for key, to := range map[string]any{"geo": &geo, "stac-geoparquet": &own} {
		if err := json.Unmarshal([]byte(kv[key]), to); err != nil {
			r.t.Fatalf("metadata %s: %v in %.300s", key, err, kv[key])
		}
	}
	if geo.Version != "1.1.0" || !cmp.Equal(geo.Columns["geometry"].Types, []string{"Polygon"}) || own.Version != "1.1.0" || own.Collections[landsat] == nil {
		r.t.Errorf("metadata %+v %+v", geo, own)
	}
}

const readDoc = `
name: read-back
steps:
  - {id: ingest, module: stac.ingest, config: {source: "@FILE@"}}
  - {id: output, module: stac.output, depends_on: [ingest], config: {format: ndjson, output_path: back.ndjson}}
`

// readBack reads a Parquet file by a pipeline of its own: the items are those written, after dropping nulls.
func (r *streamRig) readBack(name string, want []json.RawMessage) {
	r.t.Helper()
	r.run(readDoc, "FILE", name).want(stepwell.ExecutionCompleted, 0)
	got := map[string]any{}
	for _, line := range r.lines("back.ndjson") {
		v := withoutNulls(r.t, line)
		got[v["id"].(string)] = v
	}
	if len(got) != len(want) {
		r.t.Errorf("%d items are read back, want %d", len(got), len(want))
	}
	for _, text := range want {
		v := withoutNulls(r.t, text)
		if diff := cmp.Diff(v, got[v["id"].(string)]); diff != "" {
			r.t.Fatalf("item %v differs (-written +read):\n%s", v["id"], diff)
		}
	}
}

// withoutNulls is an item without members that are null, and with its times as times.
func withoutNulls(t testing.TB, text []byte) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	drop(v)
	props := v["properties"].(map[string]any)
	for _, name := range []string{"datetime", "start_datetime", "end_datetime", "created", "updated"} {
		if s, ok := props[name].(string); ok {
			at, err := time.Parse(time.RFC3339Nano, strings.Replace(s, " ", "T", 1))
			if err != nil {
				t.Fatal(err)
			}
			props[name] = at.UTC()
		}
	}
	return v
}

func drop(v any) {
	switch v := v.(type) {
	case map[string]any:
		for name, m := range v {
			if m == nil {
				delete(v, name)
			}
			drop(m)
		}
	case []any:
		for _, e := range v {
			drop(e)
		}
	}
}
