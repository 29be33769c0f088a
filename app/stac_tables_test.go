package app_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
)

const allDoc = `
name: all
steps:
  - {id: ingest, module: stac.ingest, config: {mode: file, source: "@ITEMS@"}}
  - {id: validate, module: stac.validate, depends_on: [ingest], config: {@SCHEMAS@mode: offline}}
  - {id: output, module: stac.output, depends_on: [validate], config: {format: ndjson, base_dir: out}}
`

// TestP5 validates all recorded items: what is invalid is what two other validators found.
func TestP5(t *testing.T) {
	var want struct {
		Files map[string]struct {
			Invalid []struct{ ID string } `json:"invalid_ids"`
		}
	}
	r := newStacRig(t)
	if err := json.Unmarshal([]byte(readAll(t, recorded(t, "expected/validation.json"))), &want); err != nil {
		t.Fatal(err)
	}
	o := r.run(allDoc, "ITEMS", recorded(t, "items")+"/*.ndjson", "SCHEMAS", "schema_dir: "+recorded(t, "schemas")+", ")
	o.want(stepwell.ExecutionCompletedWithFailures, 59)
	if o.count("ingest", "items") != 1268 || o.count("validate", "invalid") != 59 || o.count("validate", "unchecked") != 1 {
		t.Errorf("%s %s", o.steps["ingest"].Output, o.steps["validate"].Output)
	}
	missing := o.output("validate", "missing_schemas").(map[string]any)
	for _, uri := range []string{"https://schemas.stacspec.org/v1.0.0-beta.2/item-spec/json-schema/item.json", "eo", "view", "proj"} {
		if missing[uri] != 1.0 {
			t.Errorf("%s is not reported missing: %v", uri, missing)
		}
	}
	got := map[string][]string{}
	for _, f := range o.failures {
		name := "items/" + filepath.Base(f.Context.File)
		got[name] = append(got[name], f.Item)
		if f.Context.Line == 0 || f.Context.Schema == "" || f.Context.Keyword == "" {
			t.Errorf("%+v", f)
		}
	}
	for name, file := range want.Files {
		var list []string
		for _, i := range file.Invalid {
			list = append(list, i.ID)
		}
		if slices.Sort(list); !slices.Equal(list, slices.Sorted(slices.Values(got[name]))) {
			t.Errorf("%s: invalid %v, want %v", name, got[name], list)
		}
	}
	total := 0
	for _, name := range r.names("out") {
		if strings.HasSuffix(name, ".ndjson") {
			total += len(r.lines("out/" + name))
		}
	}
	if total != 1268-59 {
		t.Errorf("%d items are written", total)
	}
}

// TestP5Small has items of many versions in files of their own.
func TestP5Small(t *testing.T) {
	r := newStacRig(t)
	for name, items := range map[string][]json.RawMessage{"a.ndjson": sound(10), "b.ndjson": faulty(16)[3:4]} {
		var text strings.Builder
		for _, it := range items {
			fmt.Fprintf(&text, "%s\n", it)
		}
		r.file(name, text.String())
	}
	r.file("c.ndjson", strings.NewReplacer(`"1.0.0"`, `"1.0.0-beta.2"`, "item-", "old-", `"stac_extensions":["https://schemas.example.org/none/v1.0.0/schema.json"]`, `"stac_extensions":["eo"]`).Replace(string(sound(1)[0])))
	o := r.run(allDoc, "ITEMS", "*.ndjson", "SCHEMAS", "")
	o.want(stepwell.ExecutionCompletedWithFailures, 1)
	if o.count("ingest", "items") != 12 || o.count("validate", "unchecked") != 1 || o.output("validate", "missing_schemas").(map[string]any)["eo"] != 1.0 {
		t.Errorf("%s %s", o.steps["ingest"].Output, o.steps["validate"].Output)
	}
	if len(o.failures) == 1 && (filepath.Base(o.failures[0].Context.File) != "b.ndjson" || o.failures[0].Context.Line != 1) {
		t.Errorf("%+v", o.failures)
	}
}

const scenesDoc = `
name: scenes
steps:
  - id: rows
    module: stac.transform
    config:
      source_file: @TABLE@
      mappings:
        - {source_field: scene_id, target_field: id, type: string, required: true}
        - {source_field: acquired, target_field: datetime, type: datetime, format: "%Y-%m-%dT%H:%M:%SZ"}
        - {source_field: footprint_wkt, target_field: geometry, type: geometry}
        - {source_field: "[min_lon, min_lat, max_lon, max_lat]", target_field: bbox}
        - {source_field: epsg, target_field: "properties.proj:epsg", type: int}
        - {source_field: gsd_m, target_field: properties.gsd, type: float}
        - {source_field: image_href, target_field: assets.image.href}
  - id: scaffold
    module: stac.scaffold
    depends_on: [rows]
    config: {collection_id: naip, stac_version: 1.0.0, base_url: "https://example.org/stac", defaults: {license: CC0-1.0}}
  - {id: validate, module: stac.validate, depends_on: [scaffold], config: {@SCHEMAS@mode: offline, missing_schema: @MISSING@}}
  - {id: output, module: stac.output, depends_on: [validate], config: {format: ndjson, output_path: out.ndjson}}
`

// TestP11 makes items of the table of the NAIP scenes: those that the table was made from.
func TestP11(t *testing.T) {
	r := newStacRig(t)
	o := r.run(scenesDoc, "TABLE", recorded(t, "tables/naip_scenes.csv"), "SCHEMAS", "schema_dir: "+recorded(t, "schemas")+", ", "MISSING", "fail")
	o.want(stepwell.ExecutionCompleted, 0)
	got := byID(t, r.lines("out.ndjson"))
	if len(got) != 437 || o.count("validate", "valid") != 437 {
		t.Errorf("%d items, %s", len(got), o.steps["validate"].Output)
	}
	want := byID(t, recordedItems(t, "planetarycomputer.microsoft.com__naip"))
	for id, it := range got {
		for _, path := range []string{"id", "properties.datetime", "bbox", "geometry", "properties.proj:epsg", "properties.gsd", "assets.image.href"} {
			if a, b := at(t, it, path), at(t, want[id], path); a != b || a == "null" {
				t.Fatalf("%s: %s is %s, not %s", id, path, a, b)
			}
		}
	}
}

// TestP11Small is P11 with a table of two scenes, in which one has no place and one a time that is none.
func TestP11Small(t *testing.T) {
	r := newStacRig(t)
	r.file("scenes.csv", "scene_id,acquired,gsd_m,epsg,min_lon,min_lat,max_lon,max_lat,footprint_wkt,image_href\n"+
		"a,2023-11-17T16:00:00Z,0.6,26911,0,0,1,1,\"POLYGON ((0 0, 1 0, 1 1, 0 0))\",https://example.org/a.tif\n"+
		"b,2023-11-18T16:00:00Z,0.6,26911,,,,,,https://example.org/b.tif\n"+
		"c,yesterday,0.6,26911,0,0,1,1,\"POLYGON ((0 0, 1 0, 1 1, 0 0))\",https://example.org/c.tif\n")
	o := r.run(scenesDoc, "TABLE", "scenes.csv", "SCHEMAS", "", "MISSING", "builtin")
	o.want(stepwell.ExecutionCompletedWithFailures, 2)
	for i, want := range []struct {
		step string
		line int
	}{{"rows", 3}, {"rows", 4}} {
		if !slices.ContainsFunc(o.failures, func(f failed) bool { return f.Step == want.step && f.Context.Line == want.line }) {
			t.Errorf("failure %d: %+v", i, o.failures)
		}
	}
	got := byID(t, r.lines("out.ndjson"))
	if len(got) != 1 || at(t, got["a"], "properties.datetime") != `"2023-11-17T16:00:00Z"` || at(t, got["a"], "bbox") != "[0,0,1,1]" {
		t.Errorf("%s", r.read("out.ndjson"))
	}
}

const linesDoc = `
name: lines
steps:
  - id: rows
    module: stac.transform
    config:
      source_file: @TABLE@
      mappings:
        - {source_field: scene.id, target_field: id, required: true}
        - {source_field: scene.acquired_at, target_field: datetime}
        - {source_field: bbox, target_field: bbox, required: true}
        - {source_field: cloud_pct, target_field: "properties.eo:cloud_cover", type: float}
        - {source_field: "from_items(files[].[key, {href: url, type: mime}])", target_field: assets}
  - {id: scaffold, module: stac.scaffold, depends_on: [rows], config: {collection_id: @COLLECTION@, stac_version: 1.0.0}}
  - {id: validate, module: stac.validate, depends_on: [scaffold], config: {@SCHEMAS@mode: offline, missing_schema: @MISSING@}}
  - {id: output, module: stac.output, depends_on: [validate], config: {format: ndjson, output_path: out.ndjson}}
`

// TestP12 makes items of rows of which 34 have no place, and of footprints.
func TestP12(t *testing.T) {
	schemas := "schema_dir: " + recorded(t, "schemas") + ", "
	r := newStacRig(t)
	o := r.run(linesDoc, "TABLE", recorded(t, "tables/landsat_scenes.jsonl"), "COLLECTION", landsat, "SCHEMAS", schemas, "MISSING", "fail")
	o.want(stepwell.ExecutionCompletedWithFailures, 34)
	lines := map[int]bool{}
	for _, f := range o.failures {
		lines[f.Context.Line] = true
		if filepath.Base(f.Context.File) != "landsat_scenes.jsonl" || f.Context.Line < 1 {
			t.Fatalf("%+v", f)
		}
	}
	if n := len(ids(t, r.lines("out.ndjson"))); n != 716 || len(lines) != 34 || !lines[1] {
		t.Errorf("%d items, failures in lines %v", n, lines)
	}
	r = newStacRig(t)
	const footprints = `
name: footprints
steps:
  - id: rows
    module: TransformModule
    config:
      source_file: @TABLE@
      field_mapping: {id: properties.product, geometry: geometry, datetime: properties.sensing_time, "properties.eo:cloud_cover": properties.cloud}
  - {id: scaffold, module: ScaffoldModule, depends_on: [rows], config: {collection_id: sentinel-2-l2a}}
  - {id: validate, module: ValidateModule, depends_on: [scaffold], config: {@SCHEMAS@mode: offline, missing_schema: fail}}
  - {id: output, module: OutputModule, depends_on: [validate], config: {format: ndjson, output_path: out.ndjson}}
`
	r.run(footprints, "TABLE", recorded(t, "tables/sentinel2_footprints.geojson"), "SCHEMAS", schemas).want(stepwell.ExecutionCompleted, 0)
	want := byID(t, recordedItems(t, "planetarycomputer.microsoft.com__sentinel-2-l2a"))
	got := byID(t, r.lines("out.ndjson"))
	for id, it := range got {
		for _, path := range []string{"geometry", "properties.eo:cloud_cover"} {
			if a, b := at(t, it, path), at(t, want[id], path); a != b {
				t.Fatalf("%s: %s is %s, not %s", id, path, a, b)
			}
		}
	}
	if len(got) != 33 {
		t.Errorf("%d items of footprints", len(got))
	}
}

func TestP12Small(t *testing.T) {
	r := newStacRig(t)
	r.file("rows.jsonl", `{"scene":{"id":"a","acquired_at":"2022-03-24T10:27:05.856308Z"},"cloud_pct":1,"bbox":null,"files":[]}
{"scene":{"id":"b","acquired_at":"2022-03-24T10:27:05.856308Z"},"cloud_pct":1,"bbox":[0,0,1,1],"files":[{"key":"B1","url":"https://example.org/b.tif","mime":"image/tiff"}]}
`)
	o := r.run(linesDoc, "TABLE", "rows.jsonl", "COLLECTION", "made", "SCHEMAS", "", "MISSING", "builtin")
	o.want(stepwell.ExecutionCompletedWithFailures, 1)
	if len(o.failures) == 1 && o.failures[0].Context.Line != 1 {
		t.Errorf("%+v", o.failures)
	}
	got := byID(t, r.lines("out.ndjson"))
	if len(got) != 1 || at(t, got["b"], "assets.B1.href") != `"https://example.org/b.tif"` {
		t.Errorf("%s", r.read("out.ndjson"))
	}
}

func byID[T ~[]byte](t testing.TB, items []T) map[string]*item.Value {
	t.Helper()
	out := map[string]*item.Value{}
	for _, text := range items {
		v := parsed(t, text)
		out[textOf(v.Get("id"))] = v
	}
	return out
}

// at is what an item has at a path, with numbers and keys in one form.
func at(t testing.TB, it *item.Value, path string) string {
	t.Helper()
	p, err := item.ParsePath(path)
	if err != nil {
		t.Fatal(err)
	}
	v := it.Find(p)
	if v == nil {
		return "null"
	}
	return string(canonical(t, v.Bytes()))
}

const extendDoc = `
name: extend
resume_from_checkpoint: false
steps:
  - {id: ingest, module: IngestModule, config: {mode: file, source: "@FROM@", collection_id: sentinel-2-l2a}}
  - id: alternates
    module: ExtensionModule
    depends_on: [ingest]
    config:
      schema_uri: https://stac-extensions.github.io/alternate-assets/v1.2.0/schema.json
      defaults:
        assets.*.alternate.s3.href: "s3://example-bucket/{collection_id}/{asset_key}/"
        assets.*.alternate.s3.alternate:name: S3
        assets.*.alternate:name: HTTPS
  - id: csv
    module: TransformModule
    depends_on: [alternates]
    config: {input_file: "@DATA@/cloud-cover.csv", input_join_key: item_id, strategy: merge, handle_missing: error, field_mapping: {properties.cloud_csv: cloud_cover}}
  - id: json
    module: TransformModule
    depends_on: [csv]
    config: {input_file: "@DATA@/cloud-cover.json", strategy: merge, handle_missing: error, field_mapping: {properties.cloud_json: cloud_cover}}
  - {id: validate, module: ValidateModule, depends_on: [json], config: {@SCHEMAS@mode: offline, missing_schema: @MISSING@}}
  - {id: output, module: OutputModule, depends_on: [validate], config: {format: ndjson, output_path: "@TO@"}}
`

// TestP13 declares alternate-assets on the 20 items of the samples and joins them with two tables; done to its own result it
// changes nothing. Then two of them are spoiled.
func TestP13(t *testing.T) {
	data := recorded(t, "stac-manager-samples/sentinel-2-l2a-api")
	schemas := "schema_dir: " + recorded(t, "schemas") + ", "
	testP13(t, filepath.Join(data, "sample-data", "items.json"), filepath.Join(data, "input-data"), schemas, "fail", 20, 460)
}

// TestP13Small is P13 on generated items.
func TestP13Small(t *testing.T) {
	dir := t.TempDir()
	r := &streamRig{t: t, dir: dir}
	var list []json.RawMessage
	csv, table := "item_id,cloud_cover\n", map[string]any{}
	for i, text := range sound(8) {
		text = []byte(strings.Replace(string(text), `"assets":{}`, `"assets":{"a":{"href":"https://example.org/a"},"b":{"href":"https://example.org/b"}}`, 1))
		list = append(list, []byte(strings.ReplaceAll(string(text), `"n":`, `"eo:cloud_cover":3,"n":`)))
		id := textOf(parsed(t, text).Get("id"))
		csv += fmt.Sprintf("%s,%d\n", id, i)
		table[id] = map[string]any{"cloud_cover": i}
	}
	for name, v := range map[string]any{"items.json": list, "cloud-cover.json": table} {
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		r.file(name, string(raw))
	}
	r.file("cloud-cover.csv", csv)
	testP13(t, filepath.Join(dir, "items.json"), dir, "", "builtin", 8, 16)
}

func testP13(t *testing.T, items, data, schemas, missing string, n, assets int) {
	r := newStacRig(t)
	args := []string{"DATA", data, "SCHEMAS", schemas, "MISSING", missing}
	o := r.run(extendDoc, append(args, "FROM", items, "TO", "once.ndjson")...)
	o.want(stepwell.ExecutionCompleted, 0)
	if o.count("alternates", "assets_changed") != assets || o.count("validate", "valid") != n || o.count("csv", "matched") != n || o.count("json", "matched") != n {
		t.Errorf("%s %s %s %s", o.steps["alternates"].Output, o.steps["csv"].Output, o.steps["json"].Output, o.steps["validate"].Output)
	}
	o = r.run(extendDoc, append(args, "FROM", "once.ndjson", "TO", "twice.ndjson")...)
	o.want(stepwell.ExecutionCompleted, 0)
	if r.read("once.ndjson") != r.read("twice.ndjson") || o.count("alternates", "assets_changed") != 0 {
		t.Errorf("a second run changes something: %s", o.steps["alternates"].Output)
	}
	lines := r.lines("once.ndjson")
	if len(lines) != n {
		t.Fatalf("%d items", len(lines))
	}
	clouds := "eo:cloud_cover"
	if schemas == "" {
		clouds = "datetime" // the built-in rules know the core only
	}
	var all strings.Builder
	for i, line := range lines {
		var v map[string]any
		if err := json.Unmarshal(line, &v); err != nil {
			t.Fatal(err)
		}
		switch i {
		case 3:
			v["properties"].(map[string]any)[clouds] = 140
		case 7:
			delete(v, "bbox")
		}
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&all, "%s\n", raw)
	}
	r.file("spoiled.ndjson", all.String())
	o = r.run(extendDoc, append(args, "FROM", "spoiled.ndjson", "TO", "rest.ndjson")...)
	o.want(stepwell.ExecutionCompletedWithFailures, 2)
	what := map[string]bool{}
	for _, f := range o.failures {
		what[fmt.Sprint(f.Step, f.Context.Pointer, strings.Contains(f.Message, "bbox"))] = true
	}
	if !maps.Equal(what, map[string]bool{"validate/properties/" + clouds + "false": true, "validatetrue": true}) || len(r.lines("rest.ndjson")) != n-2 {
		t.Errorf("%+v", o.failures)
	}
}
