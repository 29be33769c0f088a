package scaffold

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dlclark/regexp2"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stac/transform"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/files"
	"github.com/stepwell/stepwell/stream/streamtest"
)

// shared is the folder of recorded data; the test is skipped when it is not there.
func shared(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("STEPWELL_SHARED_DATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "data")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "tables")); err != nil {
		t.Skip("left out: tables of recorded scenes, which are not here")
	}
	return dir
}

// pipe reads a table with stac.transform, and gives each item to stac.scaffold. It returns the items and the
// failures of both as "file:line field".
func pipe(t *testing.T, table, scaffold object) (items []*item.Value, failures []string) {
	t.Helper()
	rig := streamtest.New(t)
	texts, _, err := rig.Read(transform.Modules(files.New(files.Options{}))[0], table)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range rig.Failures() {
		failures = append(failures, fmt.Sprintf("%s:%d %v", filepath.Base(f.Context.File), f.Context.Line, f.Err))
	}
	m := opened(t, rig, scaffold)
	for _, text := range texts {
		out, err := m.Modify(t.Context(), streamtest.Item(t, text))
		if err != nil {
			failures = append(failures, err.Error())
			continue
		}
		items = append(items, out.Value)
	}
	return items, failures
}

func naipConfig(dir string) (table, scaffold object) {
	return object{"source_file": filepath.Join(dir, "tables", "naip_scenes.csv"), "mappings": []any{
			object{"source_field": "scene_id", "target_field": "id", "type": "string", "required": true},
			object{"source_field": "acquired", "target_field": "properties.datetime", "type": "datetime", "format": "%Y-%m-%dT%H:%M:%SZ"},
			object{"source_field": "footprint_wkt", "target_field": "geometry", "type": "geometry"},
			object{"source_field": "[min_lon, min_lat, max_lon, max_lat]", "target_field": "bbox"},
			object{"source_field": "epsg", "target_field": "properties.proj:epsg", "type": "int"},
			object{"source_field": "gsd_m", "target_field": "properties.gsd", "type": "float"},
			object{"source_field": "year", "target_field": "properties.naip:year", "type": "string"},
			object{"source_field": "image_href", "target_field": "assets.image.href", "type": "string"},
			object{"source_field": "thumbnail_href", "target_field": "assets.thumbnail.href", "type": "string"},
		}}, object{"collection_id": "naip", "base_url": "https://example.org/stac", "stac_version": "1.0.0",
			"defaults": object{"license": "CC0-1.0", "providers": []any{object{"name": "USDA", "roles": []any{"producer", "licensor"}}}}}
}

// P11: the table of the NAIP scenes gives the items it was made from.
func TestNAIPScenes(t *testing.T) {
	dir := shared(t)
	table, config := naipConfig(dir)
	items, failures := pipe(t, table, config)
	if len(items) != 437 || len(failures) != 0 {
		t.Fatalf("%d items, failures %v", len(items), failures)
	}
	want := recorded(t, filepath.Join(dir, "items", "planetarycomputer.microsoft.com__naip.ndjson"))
	for _, got := range items {
		id := textOf(got.Get("id"))
		for _, path := range []string{"id", "properties.datetime", "bbox", "geometry", "properties.proj:epsg", "properties.gsd", "properties.naip:year", "assets.image.href", "assets.thumbnail.href"} {
			p, err := item.ParsePath(path)
			if err != nil {
				t.Fatal(err)
			}
			if a, b := plainly(t, got.Find(p)), plainly(t, want[id].Find(p)); a != b || a == "<nil>" {
				t.Errorf("%s: %s is %s, not %s", id, path, a, b)
			}
		}
	}
	validate(t, dir, items)
	config["stac_version"] = "1.1.0"
	items, failures = pipe(t, table, config)
	if len(items) != 437 || len(failures) != 0 {
		t.Fatalf("1.1.0: %d items, failures %v", len(items), failures)
	}
	validate(t, dir, items)
}

// plainly is a value with numbers compared as numbers.
func plainly(t *testing.T, v *item.Value) string {
	t.Helper()
	if f, ok := v.Float(); ok {
		return fmt.Sprint(f)
	}
	x, err := v.Any()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(x)
}

func recorded(t *testing.T, path string) map[string]*item.Value {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	out := map[string]*item.Value{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		v, err := item.Parse([]byte(lines.Text()))
		if err != nil {
			t.Fatal(err)
		}
		out[textOf(v.Get("id"))] = v
	}
	return out
}

var landsatConfig = []any{
	object{"source_field": "scene.id", "target_field": "id", "required": true},
	object{"source_field": "scene.acquired_at", "target_field": "datetime"},
	object{"source_field": "bbox", "target_field": "bbox", "required": true},
	object{"source_field": "scene.platform", "target_field": "properties.platform"},
	object{"source_field": "scene.sun.az", "target_field": "properties.view:sun_azimuth"},
	object{"source_field": "scene.sun.el", "target_field": "properties.view:sun_elevation"},
	object{"source_field": "cloud_pct", "target_field": "properties.eo:cloud_cover", "type": "float"},
	object{"source_field": "split(path_row, '/')[0]", "target_field": "properties.path"},
	object{"source_field": "from_items(files[].[key, {href: url, type: mime}])", "target_field": "assets"},
}

// P12: 34 rows of 750 have no place.
func TestLandsatScenes(t *testing.T) {
	dir := shared(t)
	items, failures := pipe(t, object{"source_file": filepath.Join(dir, "tables", "landsat_scenes.jsonl"), "mappings": landsatConfig}, object{"collection_id": "landsat-8-c2-l2", "stac_version": "1.0.0"})
	if len(items) != 716 || len(failures) != 34 {
		t.Fatalf("%d items, %d failures", len(items), len(failures))
	}
	if want := "landsat_scenes.jsonl:1 bbox: there is no value"; failures[0] != want {
		t.Errorf("first failure %q, want %q", failures[0], want)
	}
	for _, f := range failures {
		if strings.Contains(f, ":0 ") {
			t.Errorf("no line: %s", f)
		}
	}
	first := items[0]
	if n := first.Get("assets").Len(); n == 0 || first.Find(item.Path{{Key: "properties"}, {Key: "path"}}).IsNull() {
		t.Errorf("incomplete: %s", first.Bytes())
	}
	validate(t, dir, items)
}

// The same rows fail in stac.scaffold when the mapping does not ask for a place, with the line as well.
func TestLandsatScenesFailInScaffold(t *testing.T) {
	dir := shared(t)
	mappings := append([]any{}, landsatConfig...)
	mappings[2] = object{"source_field": "bbox", "target_field": "bbox"}
	rig := streamtest.New(t)
	c, err := rig.Open(transform.Modules(files.New(files.Options{}))[0], object{"source_file": filepath.Join(dir, "tables", "landsat_scenes.jsonl"), "mappings": mappings})
	if err != nil {
		t.Fatal(err)
	}
	o := &through{ctx: t.Context(), modifier: opened(t, rig, object{"collection_id": "landsat-8-c2-l2"})}
	if err := c.(stream.Source).Read(t.Context(), nil, o); err != nil {
		t.Fatal(err)
	}
	if o.items != 716 || len(o.lines) != 34 || o.lines[0] != 1 {
		t.Errorf("%d items, failures in lines %v", o.items, o.lines)
	}
}

// through is what a source writes to, with a modifier behind it.
type through struct {
	ctx      context.Context
	modifier stream.Modifier
	items    int
	lines    []int64
}

func (o *through) Item(it *stream.Item) error {
	if _, err := o.modifier.Modify(o.ctx, it); err != nil {
		failed, ok := errors.AsType[*stream.Error](err)
		if !ok || failed.Context.Field != "geometry" {
			return err
		}
		o.lines = append(o.lines, it.Place.Line)
		return nil
	}
	o.items++
	return nil
}
func (o *through) Mark(any) error              { return nil }
func (o *through) Fail(f stream.Failure) error { return f.Err }
func (o *through) Expect(int64)                {}

// P12: footprints of GeoJSON.
func TestSentinelFootprints(t *testing.T) {
	dir := shared(t)
	items, failures := pipe(t, object{"source_file": filepath.Join(dir, "tables", "sentinel2_footprints.geojson"), "field_mapping": object{
		"id": "properties.product", "geometry": "geometry", "datetime": "properties.sensing_time", "properties.eo:cloud_cover": "properties.cloud", "properties.grid:code": "join('-', ['MGRS', properties.tile])"}},
		object{"collection_id": "sentinel-2-l2a"})
	if len(items) != 33 || len(failures) != 0 {
		t.Fatalf("%d items, failures %v", len(items), failures)
	}
	want := recorded(t, filepath.Join(dir, "items", "planetarycomputer.microsoft.com__sentinel-2-l2a.ndjson"))
	for _, got := range items {
		source := want[textOf(got.Get("id"))]
		for _, path := range []item.Path{{{Key: "geometry"}}, {{Key: "properties"}, {Key: "datetime"}}, {{Key: "properties"}, {Key: "eo:cloud_cover"}}} {
			if a, b := plainly(t, got.Find(path)), plainly(t, source.Find(path)); a != b {
				t.Errorf("%s: %s is %s, not %s", got.Get("id").Bytes(), path, a, b)
			}
		}
	}
	validate(t, dir, items)
}

// validate holds items against the schemas of STAC and of the extensions that they name.
func validate(t *testing.T, dir string, items []*item.Value) {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.UseRegexpEngine(ecmaRegexp)
	c.AssertFormat()
	c.UseLoader(mirror(filepath.Join(dir, "schemas")))
	for _, it := range items {
		uris := []string{"https://schemas.stacspec.org/v" + textOf(it.Get("stac_version")) + "/item-spec/json-schema/item.json"}
		for _, uri := range it.Get("stac_extensions").Elements() {
			uris = append(uris, textOf(uri))
		}
		doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(it.Bytes())))
		if err != nil {
			t.Fatal(err)
		}
		for _, uri := range uris {
			schema, err := c.Compile(uri)
			if err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(doc); err != nil {
				t.Fatalf("%s: %v\n%s", uri, err, it.Bytes())
			}
		}
	}
}

// mirror loads schemas from a folder instead of the web.
type mirror string

func (m mirror) Load(url string) (any, error) {
	_, rest, _ := strings.Cut(strings.TrimSuffix(url, "#"), "://")
	var found string
	for _, name := range []string{rest, rest + ".json"} {
		path := filepath.Join(string(m), filepath.FromSlash(name))
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			found = path
		}
	}
	if found == "" {
		return nil, &fs.PathError{Op: "load", Path: url, Err: fs.ErrNotExist}
	}
	file, err := os.Open(found)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return jsonschema.UnmarshalJSON(file)
}

type ecma struct{ *regexp2.Regexp }

func (e ecma) MatchString(s string) bool {
	ok, err := e.Regexp.MatchString(s)
	return ok && err == nil
}

func ecmaRegexp(text string) (jsonschema.Regexp, error) {
	re, err := regexp2.Compile(text, regexp2.ECMAScript)
	if err != nil {
		return nil, err
	}
	re.MatchTimeout = time.Second
	return ecma{re}, nil
}

// What the other modes make is valid too.
func TestDocumentsAreValid(t *testing.T) {
	dir := shared(t)
	for _, version := range []string{"1.0.0", "1.1.0"} {
		for _, base := range []string{"", "https://example.org/stac"} {
			for _, config := range []object{
				{"mode": "collection", "collection_id": "c", "output_path": "c/collection.json"},
				{"mode": "catalog", "output_path": "catalog.json"},
				{"mode": "template", "template": object{"type": "collection", "output_path": "t"}},
				{"mode": "template", "template": object{"type": "catalog", "output_path": "t"}},
				{"mode": "template", "template": object{"type": "item", "output_path": "t"}},
			} {
				config["stac_version"] = version
				if base != "" {
					config["base_url"] = base
				}
				rig := streamtest.New(t)
				m := opened(t, rig, config)
				if _, err := modify(t, m, `{"id":"a","collection":"c","bbox":[1,2,3,4],"properties":{"datetime":"2020-01-01T00:00:00Z"}}`); err != nil {
					t.Fatal(err)
				}
				files, _ := finish(t, m)["files"].([]any)
				if len(files) == 0 {
					t.Errorf("%v wrote nothing", config)
				}
				for _, name := range files {
					doc, err := item.Parse([]byte(contents(t, rig, name.(string))))
					if err != nil {
						t.Fatal(err)
					}
					validateDocument(t, dir, doc)
				}
			}
		}
	}
}

// validateDocument holds an item, a collection or a catalogue against the schema of its kind.
func validateDocument(t *testing.T, dir string, doc *item.Value) {
	t.Helper()
	kind := strings.ToLower(textOf(doc.Get("type")))
	if kind == "feature" {
		validate(t, dir, []*item.Value{doc})
		return
	}
	c := jsonschema.NewCompiler()
	c.UseRegexpEngine(ecmaRegexp)
	c.AssertFormat()
	c.UseLoader(mirror(filepath.Join(dir, "schemas")))
	schema, err := c.Compile("https://schemas.stacspec.org/v" + textOf(doc.Get("stac_version")) + "/" + kind + "-spec/json-schema/" + kind + ".json")
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(string(doc.Bytes())))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(v); err != nil {
		t.Errorf("%v\n%s", err, doc.Bytes())
	}
}
