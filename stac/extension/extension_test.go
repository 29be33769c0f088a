package extension

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/stac/schema"
	"github.com/stepwell/stepwell/stac/validate"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/streamtest"
)

const (
	gaugeURI = "https://example.com/gauge/v1.0.0/schema.json"
	feature  = `{"type":"Feature","stac_version":"1.0.0","id":"i","collection":"c","geometry":null,"properties":{"datetime":"2020-01-01T00:00:00Z","n":1.50,"empty":null},"links":[],"assets":{"B1":{"href":"b1.tif"},"B2":{"href":"b2.tif","alternate":{"x":{"href":"y"}}}}}`
)

func open2(t testing.TB, config map[string]any) (stream.Modifier, *streamtest.Rig) {
	t.Helper()
	rig := streamtest.New(t)
	c, err := rig.Open(Modules(schema.New(schema.Options{}))[0], config)
	if err != nil {
		t.Fatal(err)
	}
	return c.(stream.Modifier), rig
}

// once runs one object through, twice: the second time must change nothing.
func once(t testing.TB, config map[string]any, text string) (*stream.Item, error) {
	t.Helper()
	m, _ := open2(t, config)
	it, err := m.Modify(t.Context(), streamtest.Item(t, text))
	if err != nil {
		return nil, err
	}
	first := string(it.Bytes())
	it, err = m.Modify(t.Context(), streamtest.Item(t, first))
	if err != nil {
		t.Fatal("the second time: ", err)
	}
	outputs, _ := m.(stream.Finisher).Finish(nil)
	if got := outputs.(map[string]any); string(it.Bytes()) != first || got["unchanged"].(int64) < 1 {
		t.Errorf("twice:\n%s\n%s\n%v", first, it.Bytes(), got)
	}
	return it, nil
}

func at(it *stream.Item, path string) string {
	p, err := item.ParsePath(path)
	if err != nil {
		return err.Error()
	}
	v := it.Find(p)
	if v == nil {
		return "absent"
	}
	return string(v.Bytes())
}

func TestDefaults(t *testing.T) {
	it, err := once(t, map[string]any{"schema_uri": gaugeURI + "#", "defaults": map[string]any{
		"properties.gauge:level":     "{properties.n}",
		"properties.gauge:name":      "{collection_id}/{item_id} {properties.n}",
		"assets.*.alternate.s3.href": "s3://b/{collection_id}/{asset_key}",
		"assets.B1.gauge:sensor":     "one",
		"assets.B9.gauge:sensor":     "nine",
		"gauge:plain":                3,
		"properties":                 map[string]any{"datetime": "no", "empty": "filled", "deep": map[string]any{"er": []any{"{item_id}", 1}}},
		"assets":                     map[string]any{"*": map[string]any{"roles": []any{"data"}}},
		`properties."a.b"`:           true,
		"item_assets.B1.title":       "not for items",
		"summaries.x":                []any{1},
		"properties.gauge:literal":   "{{z}}",
	}}, feature)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"stac_extensions":             `["` + gaugeURI + `"]`,
		"properties.gauge:level":      "1.50",
		"properties.gauge:name":       `"c/i 1.50"`,
		"assets.B1.alternate.s3.href": `"s3://b/c/B1"`,
		"assets.B2.alternate":         `{"x":{"href":"y"},"s3":{"href":"s3://b/c/B2"}}`,
		"assets.B1.gauge:sensor":      `"one"`,
		"assets.B9":                   "absent",
		"properties.gauge:plain":      "3",
		"properties.datetime":         `"2020-01-01T00:00:00Z"`,
		"properties.empty":            `"filled"`,
		"properties.deep.er":          `["i",1]`,
		"assets.B2.roles":             `["data"]`,
		`properties."a.b"`:            "true",
		"item_assets":                 "absent",
		"summaries":                   "absent",
		"properties.gauge:literal":    `"{z}"`,
	} {
		if got := at(it, path); got != want {
			t.Errorf("%s = %s, want %s", path, got, want)
		}
	}
}

func TestOverwrite(t *testing.T) {
	for over, want := range map[string][3]string{
		"":          {"9", "9", "9"}, // dotted keys
		"always":    {"9", "9", "9"},
		"null_only": {"1.50", "9", "9"},
		"never":     {"1.50", "null", "9"},
	} {
		config := map[string]any{"schema_uri": gaugeURI, "defaults": map[string]any{"properties.n": 9, "properties.empty": 9, "properties.new": 9}}
		if over != "" {
			config["overwrite"] = over
		}
		it, err := once(t, config, feature)
		if err != nil {
			t.Fatal(err)
		}
		if got := [3]string{at(it, "properties.n"), at(it, "properties.empty"), at(it, "properties.new")}; got != want {
			t.Errorf("%s: %v, want %v", over, got, want)
		}
	}
}

func TestKnownExtensions(t *testing.T) {
	for name, c := range map[string]struct{ uri, path string }{
		"eo":               {"https://stac-extensions.github.io/eo/v2.0.0/schema.json", "properties.eo:x"},
		"eo/1.1.0":         {"https://stac-extensions.github.io/eo/v1.1.0/schema.json", "properties.eo:x"},
		"proj":             {"https://stac-extensions.github.io/projection/v2.0.0/schema.json", "properties.proj:x"},
		"file":             {"https://stac-extensions.github.io/file/v2.1.0/schema.json", "assets.B1.file:x"},
		"scientific":       {"https://stac-extensions.github.io/scientific/v1.0.0/schema.json", "properties.sci:x"},
		"alternate-assets": {"https://stac-extensions.github.io/alternate-assets/v1.2.0/schema.json", "assets.B1.alternate.x"},
		"dgeo":             {"https://raw.githubusercontent.com/DecentralizedGeo/dgeo-asset/refs/heads/pgstac-variant/json-schema/schema.json", "properties.dgeo:x"},
	} {
		it, err := once(t, map[string]any{"extension": name, "config": map[string]any{"x": map[string]any{"href": "h"}}}, feature)
		if err != nil {
			t.Fatal(name, err)
		}
		if got := at(it, "stac_extensions"); got != `["`+c.uri+`"]` || at(it, c.path) != `{"href":"h"}` {
			t.Error(name, got, at(it, c.path))
		}
	}
}

func TestDeclare(t *testing.T) {
	old, next, other := "https://stac-extensions.github.io/eo/v1.0.0/schema.json", "https://stac-extensions.github.io/eo/v2.0.0/schema.json", "https://example.com/x"
	for _, c := range []struct {
		before  string
		replace bool
		want    string
	}{
		{`null`, false, `["` + next + `"]`},
		{`["` + next + `#"]`, false, `["` + next + `#"]`},
		{`["` + old + `","` + other + `"]`, false, `["` + old + `","` + other + `","` + next + `"]`},
		{`["` + old + `","` + other + `"]`, true, `["` + next + `","` + other + `"]`},
		{`["` + other + `","` + old + `","` + next + `"]`, true, `["` + other + `","` + next + `"]`},
		{`["eo","proj"]`, true, `["` + next + `","proj"]`},
		{`["https://stac-extensions.github.io/eo/v2.0.0-beta.1/schema.json"]`, true, `["` + next + `"]`},
		{`["https://stac-extensions.github.io/eo/v10.0.0/schema.json"]`, true, `["https://stac-extensions.github.io/eo/v10.0.0/schema.json","` + next + `"]`},
	} {
		it, err := once(t, map[string]any{"extension": "eo", "replace_version": c.replace}, strings.Replace(feature, `"id"`, `"stac_extensions":`+c.before+`,"id"`, 1))
		if err != nil {
			t.Fatal(err)
		}
		if got := at(it, "stac_extensions"); got != c.want {
			t.Errorf("%s: %s, want %s", c.before, got, c.want)
		}
	}
}

func TestCollections(t *testing.T) {
	collection := `{"type":"Collection","stac_version":"1.1.0","id":"c","assets":{"all":{"href":"a.zip"}},"item_assets":{"B1":{"title":"x","type":"y"}},"summaries":{"eo:snow_cover":{"minimum":0,"maximum":1}}}`
	it, err := once(t, map[string]any{"extension": "eo", "defaults": map[string]any{
		"properties.eo:cloud_cover":    5,
		"properties.list":              []any{"a", "b"},
		"properties.eo:snow_cover":     5,
		"properties.name":              "{item_id}",
		"properties":                   map[string]any{"gsd": 10},
		"assets.*.eo:x":                "{collection_id} {asset_key}",
		"assets.*.alternate.s3.href":   "s3://{asset_key}",
		"assets.*.alternate.s3.title":  "S3",
		"assets.*.eo:y":                "{item_id}",
		"item_assets.B1.eo:z":          1,
		"license":                      "other",
		"assets.B1.eo:only":            true,
		"item_assets.none.description": "d",
	}}, collection)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"summaries":                    `{"eo:snow_cover":{"minimum":0,"maximum":1},"gsd":[10],"eo:cloud_cover":[5],"list":["a","b"]}`,
		"properties":                   "absent",
		"assets.all.eo:x":              `"c all"`,
		"item_assets.B1.eo:x":          `"c B1"`,
		"assets.all.alternate.s3.href": `"s3://all"`,
		"item_assets.B1.alternate.s3":  `{"title":"S3"}`,
		"item_assets.B1.eo:y":          "absent",
		"item_assets.B1.eo:z":          "1",
		"item_assets.B1.eo:only":       "true",
		"license":                      `"other"`,
		"item_assets.none":             "absent",
		"assets.B1":                    "absent",
	} {
		if got := at(it, path); got != want {
			t.Errorf("%s = %s, want %s", path, got, want)
		}
	}
	it, err = once(t, map[string]any{"extension": "eo", "defaults": map[string]any{"properties.a": 1, "assets.*.b": 1}}, `{"type":"Catalog","id":"x","links":[]}`)
	if err != nil || at(it, "properties") != "absent" || at(it, "assets") != "absent" || at(it, "stac_extensions") == "absent" {
		t.Error(err, string(it.Bytes()))
	}
}

func TestValidate(t *testing.T) {
	dir, _ := filepath.Abs("testdata/schemas")
	config := map[string]any{"schema_uri": gaugeURI, "schema_dir": dir, "offline": true, "validate": true, "defaults": map[string]any{"properties.gauge:level": 2, "properties.gauge:kind": "staff", "assets.*.gauge:sensor": "s"}}
	if _, err := once(t, config, feature); err != nil {
		t.Error(err)
	}
	config["defaults"] = map[string]any{"properties.gauge:level": -2, "properties.gauge:kind": "staff", "assets.*.gauge:sensor": "s"}
	_, err := once(t, config, feature)
	serr, _ := errors.AsType[*stream.Error](err)
	if serr == nil || serr.Type != stream.ExtensionError || serr.Context.Pointer != "/properties/gauge:level" || serr.Context.Keyword != "minimum" {
		t.Error(err)
	}
	// The schema's own required fields, scaffolded.
	it, err := once(t, map[string]any{"schema_uri": gaugeURI, "schema_dir": dir, "required_fields_only": true}, feature)
	if err != nil {
		t.Fatal(err)
	}
	if at(it, "properties.gauge:level") != "null" || at(it, "properties.gauge:kind") != `"staff"` || at(it, "assets.B1.gauge:sensor") != `"unknown"` || at(it, "properties.datetime") != `"2020-01-01T00:00:00Z"` {
		t.Error(string(it.Bytes()))
	}
	// Names that must have a value.
	_, err = once(t, map[string]any{"schema_uri": gaugeURI, "required": []any{"assets.*.alternate.x.href"}}, feature)
	if serr, _ := errors.AsType[*stream.Error](err); serr == nil || !strings.Contains(err.Error(), "missing assets.*.alternate of B1") || serr.Context.Field == "" {
		t.Error(err)
	}
}

// The schema of alternate-assets accepts these; the checks of our own do not.
func TestAlternates(t *testing.T) {
	dir := shared(t, "schemas")
	for text, want := range map[string]string{
		`{"s3":{"href":"s3://b"}}`: "",
		`{"s3":{}}`:                "missing href",
		`{}`:                       "not an object of",
		`[]`:                       "not an object of",
		`{"s3":{"href":""}}`:       "missing href",
	} {
		_, err := once(t, map[string]any{"extension": "alternate-assets", "validate_extension": true, "schema_dir": dir, "offline": true},
			strings.Replace(feature, `{"x":{"href":"y"}}`, text, 1))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestMissingSchema(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusNotFound) }))
	defer srv.Close()
	client, err := outbound.New(outbound.Options{AllowPrivate: true})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	m := Modules(schema.New(schema.Options{HTTP: client}))[0]
	for _, c := range []struct {
		config map[string]any
		err    string
		lines  int
	}{
		{map[string]any{}, "", 0}, // not needed
		{map[string]any{"validate": true}, "404", 0},
		{map[string]any{"validate": true, "missing_schema": "warn"}, "", 1},
		{map[string]any{"required_fields_only": true}, "", 1},
		{map[string]any{"required_fields_only": true, "missing_schema": "skip"}, "", 0},
		{map[string]any{"required_fields_only": true, "missing_schema": "fail"}, "404", 0},
	} {
		c.config["schema_uri"] = srv.URL + "/schema.json"
		rig := streamtest.New(t)
		_, err := rig.Open(m, c.config)
		if serr, _ := errors.AsType[*stream.Error](err); (err == nil) != (c.err == "") || err != nil && (!strings.Contains(err.Error(), c.err) || serr == nil || serr.Type != stream.ConfigurationError || stepwell.HintOf(err) == "") || len(rig.Lines()) != c.lines {
			t.Errorf("%v: %v %v", c.config, err, rig.Lines())
		}
	}
}

func TestRefuses(t *testing.T) {
	for _, config := range []map[string]any{
		{},
		{"extension": "eo", "schema_uri": gaugeURI},
		{"extension": "acme.extensions.Compliance"},
		{"schema_uri": "eo.json"},
		{"extension": "eo", "validate": true, "validate_extension": true},
		{"extension": "eo", "defaults": map[string]any{"properties.x": "{id}"}},
		{"extension": "eo", "defaults": map[string]any{"properties.x": "{asset_key}"}},
		{"extension": "eo", "defaults": map[string]any{"assets": "x"}},
		{"extension": "eo", "defaults": map[string]any{"assets.*": "x"}},
		{"extension": "eo", "defaults": map[string]any{"a..b": 1}},
		{"extension": "eo", "defaults": map[string]any{"id": "x"}},
		{"extension": "eo", "defaults": map[string]any{"*.x": "x"}},
		{"extension": "eo", "required": []any{"a[b]"}},
		{"extension": "eo", "overwrite": "perhaps"},
		{"extension": "eo", "offline": true, "mode": "refresh"},
		{"extension": "eo", "schema_dir": "./gone"},
		{"schema_uri": gaugeURI, "config": map[string]any{"level": 1}},
		{"extension": "eo", "default": map[string]any{}},
	} {
		if _, err := streamtest.New(t).Open(Modules(schema.New(schema.Options{}))[0], config); err == nil {
			t.Errorf("%v was taken", config)
		}
	}
	if problems := Modules(schema.New(schema.Options{}))[0].Check(map[string]any{"extension": "{{ params.e }}"}); problems != nil {
		t.Error(problems)
	}
	for text, config := range map[string]map[string]any{
		`{"type":"FeatureCollection","features":[]}`:                                   {"extension": "eo"},
		`{"type":"Feature","stac_extensions":"eo"}`:                                    {"extension": "eo"},
		`{"type":"Feature","properties":{}}`:                                           {"extension": "eo", "defaults": map[string]any{"properties.x": "{properties.gone}"}},
		`{"type":"Feature","properties":{"x":1}}`:                                      {"extension": "eo", "defaults": map[string]any{"properties.x.y": 1}},
		`{"type":"Feature","id":"i","properties":{},"assets":{"a":{"alternate":[1]}}}`: {"extension": "alternate-assets", "config": map[string]any{"s3": map[string]any{"href": "x"}}},
	} {
		_, err := once(t, config, text)
		if serr, _ := errors.AsType[*stream.Error](err); serr == nil || serr.Type != stream.ExtensionError {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func shared(t testing.TB, path ...string) string {
	t.Helper()
	root := os.Getenv("STEPWELL_SHARED_DATA")
	if root == "" {
		root = filepath.Join("..", "..", "..", "shared", "data")
	}
	full, err := filepath.Abs(filepath.Join(append([]string{root}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(full); err != nil {
		t.Skip("left out: the public test data is not there: " + full)
	}
	return full
}

// Every example of an extension passes its own schema, and nothing is changed in it.
func TestPublishedExamples(t *testing.T) {
	files, _ := filepath.Glob(filepath.Join(shared(t, "extension-examples"), "*", "*.json"))
	n := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		it := streamtest.Item(t, string(text))
		for _, v := range it.Get("stac_extensions").Elements() {
			uri, _ := v.Str()
			if !strings.Contains(uri, "/"+filepath.Base(filepath.Dir(file))+"/") {
				continue
			}
			n++
			m, _ := open2(t, map[string]any{"schema_uri": uri, "validate": true, "schema_dir": shared(t, "schemas"), "offline": true})
			out, err := m.Modify(t.Context(), it)
			if err != nil || string(out.Bytes()) != strings.TrimSpace(string(text)) {
				t.Errorf("%s, %s: %v", file, uri, err)
			}
			break
		}
	}
	if n < 20 {
		t.Errorf("only %d of %d", n, len(files))
	}
}

// P13 of stac-and-media §6: alternate-assets for 20 items.
func TestSentinel(t *testing.T) {
	text, err := os.ReadFile(shared(t, "stac-manager-samples", "sentinel-2-l2a-api", "sample-data", "items.json"))
	if err != nil {
		t.Fatal(err)
	}
	var texts []json.RawMessage
	if err := json.Unmarshal(text, &texts); err != nil || len(texts) != 20 {
		t.Fatal(err, len(texts))
	}
	dir := shared(t, "schemas")
	config := map[string]any{"schema_uri": "https://stac-extensions.github.io/alternate-assets/v1.2.0/schema.json", "required_fields_only": true, "validate_extension": true, "schema_dir": dir, "offline": true,
		"defaults": map[string]any{"assets.*.alternate.s3.href": "s3://example-bucket/{collection_id}/{asset_key}/", "assets.*.alternate.s3.alternate:name": "S3", "assets.*.alternate:name": "HTTPS"}}
	m, _ := open2(t, config)
	v, err := streamtest.New(t).Open(validate.Modules(schema.New(schema.Options{}))[0], map[string]any{"schema_dir": dir, "offline": true, "missing_schema": "fail"})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	once := make([]string, len(texts))
	for i, text := range texts {
		wg.Go(func() {
			it, err := m.Modify(t.Context(), streamtest.Item(t, string(text)))
			if err != nil {
				t.Error(err)
				return
			}
			once[i] = string(it.Bytes())
			if _, err := v.(stream.Modifier).Modify(t.Context(), it); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	outputs, _ := m.(stream.Finisher).Finish(nil)
	if got := outputs.(map[string]any); got["assets_changed"] != int64(460) || got["changed"] != int64(20) || got["validated"] != true {
		t.Error(got)
	}
	again, _ := open2(t, config)
	for _, text := range once {
		it, err := again.Modify(t.Context(), streamtest.Item(t, text))
		if err != nil || string(it.Bytes()) != text {
			t.Error("twice is not once", err)
		}
	}
	outputs, _ = again.(stream.Finisher).Finish(nil)
	if got := outputs.(map[string]any); got["assets_changed"] != int64(0) || got["unchanged"] != int64(20) {
		t.Error(got)
	}
}

func TestSpec(t *testing.T) {
	s := Modules(schema.New(schema.Options{}))[0].Spec
	if _, err := spec.Compile(s.Params, false); err != nil {
		t.Error(err)
	}
	for _, f := range append(s.Params, s.Outputs...) {
		if !strings.HasSuffix(f.Doc, ".") {
			t.Error(f.Name, "has no sentence")
		}
	}
	for _, e := range schema.Extensions() {
		if found, ok := schema.Describing(e.URI); !ok || found != e {
			t.Error(e, found)
		}
	}
}

func BenchmarkModify(b *testing.B) {
	m, _ := open2(b, map[string]any{"extension": "alternate-assets", "defaults": map[string]any{"assets.*.alternate.s3.href": "s3://b/{collection_id}/{asset_key}"}})
	n := 0
	for b.Loop() {
		if _, err := m.Modify(b.Context(), streamtest.Item(b, feature)); err != nil {
			b.Fatal(err)
		}
		n++
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "items/s")
}
