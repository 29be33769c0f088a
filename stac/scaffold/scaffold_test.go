package scaffold

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/files"
	"github.com/stepwell/stepwell/stream/streamtest"
)

type object = map[string]any

func module() stream.Module { return Modules(files.New(files.Options{}))[0] }

func opened(t testing.TB, rig *streamtest.Rig, config object) stream.Modifier {
	t.Helper()
	c, err := rig.Open(module(), config)
	if err != nil {
		t.Fatal(err, stepwell.HintOf(err))
	}
	return c.(stream.Modifier)
}

func modify(t testing.TB, m stream.Modifier, text string) (string, error) {
	t.Helper()
	out, err := m.Modify(t.Context(), streamtest.Item(t, text))
	if err != nil {
		return "", err
	}
	return string(out.Bytes()), nil
}

func build(t testing.TB, config object, text string) (string, error) {
	t.Helper()
	return modify(t, opened(t, streamtest.New(t), config), text)
}

const polygon = `{"type":"Polygon","coordinates":[[[7.0,46],[8,46],[8,47.5],[7.0,47.5],[7.0,46]]]}`

func TestTransformedItem(t *testing.T) {
	const from = `{"id":"a/b \"c\".x","geometry":` + polygon + `,"bbox":null,"datetime":"2022-03-24T10:27:05.50Z","properties":{"eo:cloud_cover":7e-06,"proj:epsg":32632},"assets":{"image":{"href":"https://e.org/a.TIF?x=1"},"thumb":{"href":"t.jpg","title":"T"},"gone":{"title":"no href"},"own":{"href":"x.xml","type":"a/b","roles":["r"]}},"links":null}`
	const want = `{"type":"Feature","stac_version":"1.1.0","stac_extensions":["https://stac-extensions.github.io/eo/v2.0.0/schema.json","https://stac-extensions.github.io/projection/v2.0.0/schema.json"],"id":"a/b \"c\".x","collection":"c d",` +
		`"geometry":` + polygon + `,"bbox":[7.0,46.0,8.0,47.5],"properties":{"eo:cloud_cover":7e-06,"license":"CC0-1.0","datetime":"2022-03-24T10:27:05.50Z","proj:code":"EPSG:32632"},` +
		`"links":[{"rel":"root","href":"https://h.org/s/catalog.json","type":"application/json"},{"rel":"parent","href":"https://h.org/s/c%20d/collection.json","type":"application/json"},{"rel":"collection","href":"https://h.org/s/c%20d/collection.json","type":"application/json"},{"rel":"self","href":"https://h.org/s/c%20d/a%2Fb%20%22c%22.x.json","type":"application/geo+json"}],` +
		`"assets":{"image":{"href":"https://e.org/a.TIF?x=1","type":"image/tiff; application=geotiff","roles":["data"]},"thumb":{"href":"t.jpg","title":"T","type":"image/jpeg","roles":["thumbnail"]},"own":{"href":"x.xml","type":"a/b","roles":["r"]}}}`
	config := object{"collection_id": "c d", "base_url": "https://h.org/s/", "defaults": object{"license": "CC0-1.0"}}
	got, err := build(t, config, from)
	if err != nil || got != want {
		t.Fatalf("got  %s, %v\nwant %s", got, err, want)
	}
	if again, err := build(t, config, got); err != nil || again != got {
		t.Errorf("a second run gives %s, %v", again, err)
	}
}

func TestVersionOneKeepsEPSG(t *testing.T) {
	got, err := build(t, object{"stac_version": "1.0.0"}, `{"id":"a","bbox":[7,46,8,47],"datetime":"2022-03-24","properties":{"proj:code":"EPSG:4326"}}`)
	if err != nil || !strings.Contains(got, `"proj:epsg":4326`) || !strings.Contains(got, "projection/v1.1.0") || !strings.Contains(got, `"stac_version":"1.0.0"`) {
		t.Errorf("%s, %v", got, err)
	}
	got, err = build(t, object{"extensions": []any{"https://stac-extensions.github.io/projection/v1.2.0/schema.json"}}, `{"id":"a","bbox":[7,46,8,47],"datetime":"2022-03-24","properties":{"proj:epsg":4326}}`)
	if err != nil || !strings.Contains(got, `"proj:epsg":4326`) || strings.Contains(got, "projection/v2") {
		t.Errorf("%s, %v", got, err)
	}
}

func TestRowsAndTemplates(t *testing.T) {
	const row = `{"scene":"S/1","taken":"24.03.2022 10:27","w":7,"s":46,"e":8,"n":47,"href":"https://e.org/1.tif","thumb":null,"cloud":12.50,"id":null}`
	template := object{"bbox": []any{"{properties.w}", "{properties.s}", "{properties.e}", "{properties.n}"}, "datetime": "{properties.taken}",
		"properties": object{"eo:cloud_cover": "{properties.cloud}", "title": "Scene {item_id} of {collection_id}", "none": "{properties.thumb}"},
		"assets":     object{"image": object{"href": "{properties.href}", "title": "{asset_key}"}, "thumbnail": object{"href": "{properties.thumb}"}, "pre": object{"href": "https://e.org/{item_id}.png"}}}
	const want = `{"type":"Feature","stac_version":"1.1.0","stac_extensions":["https://stac-extensions.github.io/eo/v2.0.0/schema.json"],"id":"S_1_12.50","collection":"c","geometry":{"type":"Polygon","coordinates":[[[7,46],[8,46],[8,47],[7,47],[7,46]]]},"bbox":[7,46,8,47],` +
		`"properties":{"eo:cloud_cover":12.50,"title":"Scene S_1_12.50 of c","datetime":"2022-03-24T09:27:00Z"},"links":[{"rel":"root","href":"../catalog.json","type":"application/json"},{"rel":"parent","href":"./collection.json","type":"application/json"},{"rel":"collection","href":"./collection.json","type":"application/json"}],` +
		`"assets":{"image":{"href":"https://e.org/1.tif","title":"image","type":"image/tiff; application=geotiff","roles":["data"]},"pre":{"href":"https://e.org/S_1_12.50.png","type":"image/png"}}}`
	config := object{"collection_id": "c", "id_pattern": "{properties.scene}_{properties.cloud}", "item_template": template, "datetime_format": "%d.%m.%Y %H:%M", "timezone": "Europe/Berlin"}
	if got, err := build(t, config, row); err != nil || got != want {
		t.Errorf("got  %s, %v\nwant %s", got, err, want)
	}
	delete(config, "item_template")
	got, err := build(t, object{"id_pattern": "{properties.scene}", "sanitize_id": false}, `{"scene":"S/1","datetime":1648117625,"geometry":"POINT(1 2)","cloud":1.0,"empty":null}`)
	if err != nil || !strings.Contains(got, `"id":"S/1"`) || !strings.Contains(got, `"properties":{"scene":"S/1","cloud":1.0,"datetime":"2022-03-24T10:27:05Z"}`) || strings.Contains(got, "collection") {
		t.Errorf("%s, %v", got, err)
	}
	rig := streamtest.New(t)
	if err := os.WriteFile(filepath.Join(rig.Env.Dir, "t.yaml"), []byte("properties:\n  made: 2020-01-01\n  n: 1.50\nassets:\n  x: {href: \"{item_id}.tif\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err = modify(t, opened(t, rig, object{"template_file": "t.yaml"}), `{"id":"a","bbox":"1,2,3,4","datetime":"2020-01-01","properties":{"n":null},"x:y":1}`)
	if err != nil || !strings.Contains(got, `"properties":{"made":"2020-01-01","n":1.50,"datetime"`) || !strings.Contains(got, `"href":"a.tif"`) || !strings.HasSuffix(got, `,"x:y":1}`) {
		t.Errorf("%s, %v", got, err)
	}
}

func TestPlaceAndTime(t *testing.T) {
	for _, c := range []struct {
		name   string
		config object
		in     string
		want   []string // parts of the item; one that begins with ! is the error
	}{
		{"a range", nil, `{"id":"a","bbox":[1,2,3,4],"start_datetime":"2020-01-01","end_datetime":"2020-02-01","properties":{}}`,
			[]string{`"properties":{"datetime":null,"start_datetime":"2020-01-01T00:00:00Z","end_datetime":"2020-02-01T00:00:00Z"}`}},
		{"a range the wrong way", nil, `{"id":"a","bbox":[1,2,3,4],"start_datetime":"2021-01-01","end_datetime":"2020-02-01"}`, []string{"!end_datetime 2020-02-01T00:00:00Z is before"}},
		{"half a range", nil, `{"id":"a","bbox":[1,2,3,4],"datetime":"2020-01-01","start_datetime":"2021-01-01"}`, []string{"!datetime start_datetime and end_datetime go together"}},
		{"no time", nil, `{"id":"a","bbox":[1,2,3,4],"datetime":null}`, []string{"!datetime there is no datetime"}},
		{"the default time", object{"datetime": "2020-01-01"}, `{"id":"a","bbox":[1,2,3,4]}`, []string{`"datetime":"2020-01-01T00:00:00Z"`}},
		{"the default range", object{"start_datetime": "2020-01-01", "end_datetime": "2021-01-01"}, `{"id":"a","bbox":[1,2,3,4]}`, []string{`"datetime":null`, `"end_datetime":"2021-01-01T00:00:00Z"`}},
		{"a bad time", object{"datetime": "2020-01-01"}, `{"id":"a","bbox":[1,2,3,4],"datetime":"soon"}`, []string{`!datetime "soon" is not a time`}},
		{"no place", nil, `{"id":"a","datetime":"2020-01-01","bbox":null}`, []string{"!geometry there is neither geometry nor bbox"}},
		{"the default place", object{"geometry": "POINT (1 2)"}, `{"id":"a","datetime":"2020-01-01"}`, []string{`"coordinates":[1,2]`, `"bbox":[1.0,2.0,1.0,2.0]`}},
		{"the default box", object{"bbox": []any{1, 2, 3, 4}}, `{"id":"a","datetime":"2020-01-01"}`, []string{`[[[1,2],[3,2],[3,4],[1,4],[1,2]]]`}},
		{"nowhere", object{"geometry": nil}, `{"id":"a","datetime":"2020-01-01","bbox":null}`, []string{`"geometry":null,"properties"`}},
		{"across the antimeridian", nil, `{"id":"a","datetime":"2020-01-01","bbox":[170,-10,-170,10]}`, []string{`"MultiPolygon"`, `"bbox":[170,-10,-170,10]`}},
		{"a bad geometry", nil, `{"id":"a","datetime":"2020-01-01","geometry":"POINT (1)"}`, []string{"!geometry"}},
		{"a bad bbox", nil, `{"id":"a","datetime":"2020-01-01","bbox":[1,2]}`, []string{"!bbox"}},
		{"no id", nil, `{"datetime":"2020-01-01","bbox":[1,2,3,4]}`, []string{"!id there is no id"}},
		{"a number as id", nil, `{"id":1e21,"datetime":"2020-01-01","bbox":[1,2,3,4]}`, []string{`"id":"1e21"`}},
		{"bad assets", nil, `{"id":"a","datetime":"2020-01-01","bbox":[1,2,3,4],"assets":{"x":"http://x"},"properties":{}}`, []string{"!assets the asset x is a text"}},
	} {
		config := object{}
		if c.config != nil {
			config["defaults"] = c.config
		}
		it := streamtest.Item(t, c.in)
		out, err := opened(t, streamtest.New(t), config).Modify(t.Context(), it)
		if strings.HasPrefix(c.want[0], "!") {
			failed, ok := errors.AsType[*stream.Error](err)
			if !ok || !strings.HasPrefix(failed.Context.Field+" "+err.Error(), c.want[0][1:]) {
				t.Errorf("%s: %#v, want %q", c.name, err, c.want[0])
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		for _, part := range c.want {
			if !strings.Contains(string(out.Bytes()), part) {
				t.Errorf("%s: %s has no %s", c.name, out.Bytes(), part)
			}
		}
	}
}

func TestLinks(t *testing.T) {
	const in = `{"id":"..","collection":"c","datetime":"2020-01-01","bbox":[1,2,3,4],"links":[{"rel":"self","href":"https://old/self"},{"rel":"license","href":"l"}],"properties":{}}`
	got, err := build(t, object{}, in)
	if err != nil || !strings.Contains(got, `"links":[{"rel":"root","href":"../catalog.json","type":"application/json"},{"rel":"parent","href":"./collection.json","type":"application/json"},{"rel":"collection","href":"./collection.json","type":"application/json"},{"rel":"self","href":"https://old/self"},{"rel":"license","href":"l"}]`) {
		t.Errorf("relative: %s, %v", got, err)
	}
	got, err = build(t, object{"base_url": "https://h.org", "link_layout": "api"}, in)
	if err != nil || !strings.Contains(got, `"links":[{"rel":"root","href":"https://h.org","type":"application/json"},{"rel":"parent","href":"https://h.org/collections/c","type":"application/json"},{"rel":"collection","href":"https://h.org/collections/c","type":"application/json"},{"rel":"self","href":"https://h.org/collections/c/items/%2E%2E","type":"application/geo+json"},{"rel":"license","href":"l"}]`) {
		t.Errorf("api: %s, %v", got, err)
	}
}

func TestConfigErrors(t *testing.T) {
	for _, c := range []struct {
		config object
		want   string
	}{
		{object{"mode": "all"}, "must be one of items"},
		{object{"mode": "template"}, "go together"},
		{object{"template": object{"type": "item", "output_path": "x"}}, "go together"},
		{object{"mode": "collection", "id_pattern": "{item_id}"}, "has no meaning in mode collection"},
		{object{"output_path": "x"}, "has no meaning in mode items"},
		{object{"item_template": object{}, "template_file": "x"}, "say the same"},
		{object{"item_template": object{"id": "{nope}"}}, "unknown name {nope}"},
		{object{"id_pattern": "{"}, "without a }"},
		{object{"template_file": "none.yaml"}, "none.yaml"},
		{object{"datetime_format": "%Q"}, "is not known"},
		{object{"timezone": "Mars"}, "Mars"},
		{object{"base_url": "ftp://x"}, "base_url does not have the form"},
		{object{"defaults": object{"geometry": "POINT(1)"}}, "defaults.geometry"},
		{object{"defaults": object{"geometry": "POINT(1 2)", "bbox": []any{1, 2, 3, 4}}}, "both given"},
		{object{"defaults": object{"datetime": "soon"}}, "defaults.datetime"},
		{object{"defaults": object{"start_datetime": "2020-01-01"}}, "go together"},
		{object{"defaults": object{"licence": "x"}}, "did you mean license?"},
	} {
		_, err := streamtest.New(t).Open(module(), c.config)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.config, err, c.want)
		}
	}
	if problems := module().Check(object{"mode": "{{ params.mode }}", "timezone": "{{ params.zone }}", "defaults": object{"datetime": "{{ params.t }}"}}); len(problems) != 0 {
		t.Errorf("templates: %v", problems)
	}
}

func finish(t *testing.T, c any) object {
	t.Helper()
	out, err := c.(stream.Finisher).Finish(nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	var v object
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func contents(t *testing.T, rig *streamtest.Rig, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(rig.Env.Dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestCollectionOfTheStream(t *testing.T) {
	rig := streamtest.New(t)
	config := object{"mode": "collection", "output_path": "out/{collection_id}/collection.json", "defaults": object{"title": "T", "providers": []any{object{"name": "p"}}}}
	m := opened(t, rig, config)
	for _, text := range []string{
		`{"id":"1","collection":"a/b","bbox":[1,2,3,4],"properties":{"datetime":"2020-01-02T00:00:00Z"}}`,
		`{"id":"2","collection":"a/b","bbox":[-1.5,2,0,3,5,9],"properties":{"datetime":null,"start_datetime":"2020-01-01T01:00:00+01:00","end_datetime":"2021-01-01T00:00:00Z"}}`,
		`{"id":"3","collection":"c","bbox":[170,0,-170,1], "properties":{}}`,
	} {
		if got, err := modify(t, m, text); err != nil || got != text {
			t.Errorf("%s became %s, %v", text, got, err)
		}
	}
	if _, err := modify(t, m, `{"id":"4"}`); err == nil {
		t.Error("an item of no collection passed")
	}
	// The process is killed; what has passed does not come again.
	m = opened(t, rig, config)
	if _, err := modify(t, m, `{"id":"5","collection":"a/b","bbox":[0,0,0,0],"properties":{"datetime":"2019-01-01T00:00:00Z"}}`); err != nil {
		t.Fatal(err)
	}
	out := finish(t, m)
	if len(out["collections"].([]any)) != 2 || len(out["files"].([]any)) != 2 {
		t.Errorf("outputs: %v", out)
	}
	got := contents(t, rig, "out/a%2Fb/collection.json")
	const want = `{"description":"Items of a/b.","extent":{"spatial":{"bbox":[[-1.5,0,3,5]]},"temporal":{"interval":[["2019-01-01T00:00:00Z","2021-01-01T00:00:00Z"]]}},"id":"a/b","license":"other","links":[{"href":"../catalog.json","rel":"root","type":"application/json"},{"href":"../catalog.json","rel":"parent","type":"application/json"}],"providers":[{"name":"p"}],"stac_extensions":[],"stac_version":"1.1.0","title":"T","type":"Collection"}`
	if compact(t, got) != want {
		t.Errorf("got  %s\nwant %s", compact(t, got), want)
	}
	if got := contents(t, rig, "out/c/collection.json"); !strings.Contains(compact(t, got), `"bbox":[[-180,0,180,1]]},"temporal":{"interval":[[null,null]]}`) {
		t.Errorf("across: %s", got)
	}
}

func compact(t *testing.T, text string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestCollectionWithoutItems(t *testing.T) {
	rig := streamtest.New(t)
	rig.Env.Collection = object{"id": "found"}
	out := finish(t, opened(t, rig, object{"mode": "collection", "stac_version": "1.0.0", "base_url": "https://h.org", "link_layout": "api"}))
	c := out["collections"].([]any)[0].(object)
	if c["id"] != "found" || c["license"] != "proprietary" || len(c["links"].([]any)) != 4 {
		t.Errorf("%v", c)
	}
	two := opened(t, streamtest.New(t), object{"mode": "collection", "output_path": "one.json"})
	for _, id := range []string{"a", "b"} {
		if _, err := modify(t, two, `{"id":"1","collection":"`+id+`"}`); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := two.(stream.Finisher).Finish(nil); err == nil || !strings.Contains(err.Error(), "of 2 collections") {
		t.Errorf("two collections in one file: %v", err)
	}
}

func TestCatalog(t *testing.T) {
	rig := streamtest.New(t)
	m := opened(t, rig, object{"mode": "catalog", "catalog_id": "root", "output_path": "out/catalog.json", "defaults": object{"description": "D"}})
	for _, id := range []string{"b", "a", "b"} {
		if _, err := modify(t, m, `{"id":"1","collection":"`+id+`"}`); err != nil {
			t.Fatal(err)
		}
	}
	finish(t, m)
	const want = `{"description":"D","id":"root","links":[{"href":"./catalog.json","rel":"root","type":"application/json"},{"href":"./a/collection.json","rel":"child","title":"a","type":"application/json"},{"href":"./b/collection.json","rel":"child","title":"b","type":"application/json"}],"stac_extensions":[],"stac_version":"1.1.0","type":"Catalog"}`
	if got := compact(t, contents(t, rig, "out/catalog.json")); got != want {
		t.Errorf("got %s", got)
	}
}

func TestBoilerplate(t *testing.T) {
	for _, c := range []struct{ kind, path, main, parent string }{
		{"collection", "new/", "new/collection.json", `"rel":"collection"`},
		{"catalog", "new/root.json", "new/root.json", `"href":"./root.json"`},
		{"item", "item.json", "item.json", `"rel":"collection"`},
	} {
		rig := streamtest.New(t)
		config := object{"mode": "template", "template": object{"type": c.kind, "output_path": c.path}}
		if _, _, err := rig.Read(module(), config); err != nil {
			t.Fatal(err)
		}
		sample := c.main
		if main := compact(t, contents(t, rig, c.main)); c.kind != "item" {
			sample = "new/sample-item.json"
			if !strings.Contains(main, `{"href":"./sample-item.json","rel":"item","type":"application/geo+json"}`) {
				t.Errorf("%s: %s", c.kind, main)
			}
		}
		if got := compact(t, contents(t, rig, sample)); !strings.Contains(got, c.parent) || !strings.Contains(got, `"datetime":"2020-01-01T00:00:00Z"`) {
			t.Errorf("%s: %s", c.kind, got)
		}
		if _, _, err := rig.Read(module(), config); err != nil {
			t.Errorf("%s: a second run: %v", c.kind, err)
		}
		if err := os.WriteFile(filepath.Join(rig.Env.Dir, c.main), []byte(`{"mine":1}`), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := rig.Read(module(), config); stepwell.CodeOf(err) != stepwell.CodeConflict {
			t.Errorf("%s: somebody's work: %v", c.kind, err)
		}
		if got := contents(t, rig, c.main); got != `{"mine":1}` {
			t.Errorf("%s: somebody's work was overwritten", c.kind)
		}
	}
}

func TestItemsNeedAStream(t *testing.T) {
	for _, config := range []object{{}, {"mode": "collection"}} {
		if _, _, err := streamtest.New(t).Read(module(), config); err == nil || !strings.Contains(err.Error(), "no items come") {
			t.Errorf("%v: %v", config, err)
		}
	}
}

func FuzzBuild(f *testing.F) {
	f.Add(`{"id":"a","geometry":"POINT(1 2)","datetime":"2020","properties":{"proj:epsg":1},"assets":{"a":{"href":"x"}},"links":[1]}`)
	f.Add(`{"id":1,"bbox":[1,2,3,4],"datetime":1,"links":{},"stac_extensions":{"a":1}}`)
	f.Fuzz(func(t *testing.T, text string) {
		it := stream.Lazy([]byte(text), stream.Place{})
		if it.Parse() != nil {
			return
		}
		m := opened(t, streamtest.New(t), object{"collection_id": "c", "defaults": object{"geometry": nil, "datetime": "2020-01-01"}})
		out, err := m.Modify(t.Context(), it)
		if err != nil {
			return
		}
		first := string(out.Bytes())
		if again, err := modify(t, m, first); err != nil || again != first {
			t.Errorf("%s\nbecame %s\nthen %s, %v", text, first, again, err)
		}
	})
}
