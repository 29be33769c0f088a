package validate

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/stac/schema"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/streamtest"
)

const gaugeURI = "https://example.com/gauge/v1.0.0/schema.json"

// feature is a valid item; its extension is that of testdata.
const feature = `{"type":"Feature","stac_version":"1.0.0","id":"a","collection":"c","geometry":{"type":"Polygon","coordinates":[[[0,0],[1,0],[1,1],[0,1],[0,0]]]},
"bbox":[0,0,1,1],"properties":{"datetime":"2020-01-01T00:00:00Z"},"links":[{"rel":"collection","href":"../c.json"},{"rel":"self","href":"https://example.com/a.json"}],"assets":{}}`

// with is the feature with pairs of old and new text exchanged.
func with(t testing.TB, pairs ...string) *stream.Item {
	t.Helper()
	text := feature
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			t.Fatal("nothing to exchange: ", pairs[i])
		}
		text = strings.Replace(text, pairs[i], pairs[i+1], 1)
	}
	return streamtest.Item(t, text)
}

func gauged(t testing.TB, level string) *stream.Item {
	return with(t, `"id"`, `"stac_extensions":["`+gaugeURI+`#","`+gaugeURI+`"],"id"`, `"datetime"`, `"gauge:level":`+level+`,"datetime"`)
}

func TestOwnSchema(t *testing.T) {
	dir, _ := filepath.Abs("testdata/schemas")
	config := map[string]any{"schema_dir": dir, "mode": "offline"}
	bad := gauged(t, "-1")
	bad.Place = stream.Place{File: "levels.ndjson", Line: 7}
	r := run(t, config, []*stream.Item{gauged(t, "1.5"), bad, gauged(t, `1,"gauge:x":2`), with(t), with(t, `"geometry"`, `"geom"`), with(t, `"bbox":[0,0,1,1],`, "")})
	r.expect(t, 2, 4, 0)
	want := stream.Context{File: "levels.ndjson", Line: 7, Schema: gaugeURI, Pointer: "/properties/gauge:level", Keyword: "minimum"}
	if r.failures[0].Context != want || r.failures[1].Context.Pointer != "/properties" || r.failures[3].Context.Schema != "built-in rules" {
		t.Errorf("%+v\n%+v", r.failures[0].Context, r.failures[1].Context)
	}
	if r.outputs["builtin_rules"] != int64(5) || len(r.lines) != 1 || !strings.Contains(r.lines[0], "built-in rules") {
		t.Error(r.outputs, r.lines)
	}
}

func TestStrict(t *testing.T) {
	rig := streamtest.New(t)
	c, err := rig.Open(Modules(schema.New(schema.Options{}))[0], map[string]any{"strict": true, "offline": true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.(stream.Modifier).Modify(t.Context(), with(t)); err != nil {
		t.Error(err)
	}
	_, err = c.(stream.Modifier).Modify(t.Context(), with(t, `"bbox":[0,0,1,1],`, ""))
	serr, ok := errors.AsType[*stream.Error](err)
	if !ok || serr.Type != stream.ModuleException || !strings.Contains(err.Error(), "item a is invalid") || !strings.Contains(err.Error(), "'bbox'") {
		t.Error(err)
	}
}

func TestKinds(t *testing.T) {
	collection := `{"type":"Collection","stac_version":"1.1.0","id":"c","description":"d","license":"other","extent":{"spatial":{"bbox":[[0,0,1,1]]},"temporal":{"interval":[[null,null]]}},"links":[]}`
	r := run(t, map[string]any{"offline": true}, []*stream.Item{
		streamtest.Item(t, collection),
		streamtest.Item(t, `{"type":"Catalog","stac_version":"1.0.0","id":"c","description":"d","links":[]}`),
		streamtest.Item(t, `{"stac_version":"1.0.0-rc.1","id":"old","description":"d","links":[],"extent":{}}`),  // unknown core: unchecked
		streamtest.Item(t, `{"stac_version":"dev","id":"odd","description":"d","links":[]}`),                     // no version at all
		streamtest.Item(t, strings.Replace(collection, `[[0,0,1,1]]`, `[[0,0,1,1],[0,0,1,1]]`, 1)),               // two boxes
		streamtest.Item(t, `{"type":"FeatureCollection","features":[]}`),                                         // not an item
		streamtest.Item(t, `{"type":"Feature","id":"x","geometry":null,"properties":{},"assets":{},"links":[]}`), // no version
		with(t, `"1.0.0"`, `1`),
		streamtest.Item(t, `{}`),
	})
	r.expect(t, 2, 5, 2)
	missing := r.outputs["missing_schemas"].(map[string]any)
	if missing["STAC dev"] != int64(1) || missing["https://schemas.stacspec.org/v1.0.0-rc.1/collection-spec/json-schema/collection.json"] != int64(1) {
		t.Error(missing)
	}
	if !strings.Contains(r.failures[1].Error(), "FeatureCollection") {
		t.Error(r.failures[1])
	}
}

func TestExtraSchemas(t *testing.T) {
	file, _ := filepath.Abs("testdata/schemas/example.com/gauge/v1.0.0/schema.json")
	r := run(t, map[string]any{"extension_schemas": []any{file}}, []*stream.Item{with(t), gauged(t, "1")})
	r.expect(t, 1, 1, 0)
	if r.outputs["missing_schemas"].(map[string]any)[gaugeURI] != int64(1) { // its own is missing all the same
		t.Error(r.outputs)
	}
	r = run(t, map[string]any{"extension_schemas": map[string]any{"https://example.com/gauge/*": file}}, []*stream.Item{with(t), gauged(t, "1"), gauged(t, `"x"`)})
	r.expect(t, 2, 1, 0)
	for _, config := range []map[string]any{
		{"extension_schemas": []any{"./gone.json"}},
		{"extension_schemas": []any{1}},
		{"extension_schemas": "https://x.y"},
		{"extension_schemas": map[string]any{"*": 1}},
		{"schema_dir": "./gone"},
		{"missing_schema": "perhaps"},
		{"missing_schema": map[string]any{"*": true}},
		{"lint": []any{"spelling"}},
		{"lint": map[string]any{"bbox": "maybe"}},
		{"lint": "bbox"},
		{"offline": true, "mode": "refresh"},
		{"mode": "sometimes"},
		{"strict_mode": true},
	} {
		_, err := streamtest.New(t).Open(Modules(schema.New(schema.Options{}))[0], config)
		if err == nil {
			t.Errorf("%v was taken", config)
			continue
		}
		if serr, ok := errors.AsType[*stream.Error](err); ok && (serr.Type != stream.ConfigurationError || stepwell.HintOf(err) == "") {
			t.Errorf("%v: %v without a hint", config, err)
		}
	}
	if problems := Modules(schema.New(schema.Options{}))[0].Check(map[string]any{"missing_schema": "{{ params.policy }}"}); problems != nil {
		t.Error(problems)
	}
	if problems := Modules(schema.New(schema.Options{}))[0].Check(map[string]any{"missing_schema": "x", "lint": []any{"y"}}); len(problems) != 2 {
		t.Error(problems)
	}
	if problems := Modules(schema.New(schema.Options{}))[0].Try(t.Context(), streamtest.New(t).Env, map[string]any{"schema_dir": filepath.Join(os.TempDir(), "gone")}); len(problems) != 1 {
		t.Error(problems)
	}
}

func TestLint(t *testing.T) {
	config := map[string]any{"offline": true, "missing_schema": "builtin", "lint": []any{"all"}}
	for _, c := range []struct {
		name, check, want string
		it                *stream.Item
	}{
		{"clean", "", "", with(t)},
		{"open ring", "geometry", "not closed", with(t, `[0,1],[0,0]`, `[0,1],[0,0.5]`)},
		{"wound", "geometry", "right-hand", with(t, `[[0,0],[1,0],[1,1],[0,1],[0,0]]`, `[[0,0],[0,1],[1,1],[1,0],[0,0]]`)},
		{"hole wound", "geometry", "/1: is wound", with(t, `[0,1],[0,0]]`, `[0,1],[0,0]],[[0.1,0.1],[0.2,0.1],[0.2,0.2],[0.1,0.1]]`)},
		{"hole outside", "geometry", "/1: is a hole outside", with(t, `[0,1],[0,0]]`, `[0,1],[0,0]],[[2.1,0.1],[2.2,0.2],[2.2,0.1],[2.1,0.1]]`)},
		{"hole", "", "", with(t, `[0,1],[0,0]]`, `[0,1],[0,0]],[[0.1,0.1],[0.2,0.2],[0.2,0.1],[0.1,0.1]]`)},
		{"repeated", "geometry", "/coordinates/0/2: repeats", with(t, `[1,0],[1,1]`, `[1,0],[1,0],[1,1]`)},
		{"spike", "geometry", "spike at [0.5 0.5]", with(t, `[1,1],[0,1]`, `[1,1],[0.5,0.5],[1,1],[0,1]`)},
		{"flat spike", "geometry", "spike at [1 0]", with(t, `[1,0],[1,1]`, `[1,0],[0.8,0],[1,1]`)},
		{"spike at the seam", "geometry", "spike at [0 0]", with(t, `[[0,0],[1,0]`, `[[0,0],[0,0.5],[1,0]`)},
		{"bow tie", "geometry", "crosses itself", with(t, `[[0,0],[1,0],[1,1],[0,1],[0,0]]`, `[[0,0],[1,0],[0.1,0.9],[0.9,0.9],[0,0]]`)},
		{"touches itself", "geometry", "crosses itself", with(t, `[1,1],[0,1]`, `[1,1],[0.5,0],[0,1]`)},
		{"line", "geometry", "/coordinates/1: repeats", with(t, `"Polygon","coordinates":[[[0,0],[1,0],[1,1],[0,1],[0,0]]]`, `"LineString","coordinates":[[0,0],[0,0],[1,1]]`)},
		{"off the earth", "geometry", "not longitude", with(t, `[1,1]`, `[1,100]`, `[0,0,1,1]`, `[0,0,1,100]`)},
		{"not cut", "geometry", "antimeridian", with(t, `[[0,0],[1,0],[1,1],[0,1],[0,0]]`, `[[-179,0],[179,0],[179,1],[-179,1],[-179,0]]`, `[0,0,1,1]`, `[-179,0,179,1]`)},
		{"box", "bbox", "does not cover", with(t, `[0,0,1,1]`, `[0,0,1,0.5]`)},
		{"box upside down", "bbox", "north", with(t, `[0,0,1,1]`, `[0,1,1,0]`)},
		{"box across", "", "", with(t, `[[0,0],[1,0],[1,1],[0,1],[0,0]]`, `[[179,0],[180,0],[180,1],[179,1],[179,0]]`, `[0,0,1,1]`, `[179,0,-179,1]`)},
		{"interval", "datetime", "before", with(t, `"datetime":"2020-01-01T00:00:00Z"`, `"datetime":null,"start_datetime":"2020-01-02T00:00:00Z","end_datetime":"2020-01-01T00:00:00Z"`)},
		{"outside", "datetime", "between", with(t, `"datetime"`, `"start_datetime":"2020-01-02T00:00:00Z","end_datetime":"2020-01-03T00:00:00Z","datetime"`)},
		{"self", "self_link", "absolute", with(t, `https://example.com/a.json`, `./a.json`)},
		{"no self", "self_link", "0 links", with(t, `"self"`, `"canonical"`)},
		{"undeclared", "undeclared", "eo extension", with(t, `"datetime"`, `"eo:cloud_cover":1,"datetime"`)},
		{"unused", "unused_extension", "view:", with(t, `"id"`, `"stac_extensions":["https://stac-extensions.github.io/view/v1.0.0/schema.json"],"id"`)},
		{"no collection", "collection_link", "belongs to no", with(t, `"collection":"c",`, "", `{"rel":"collection","href":"../c.json"},`, "")},
	} {
		r := run(t, config, []*stream.Item{c.it})
		if c.check == "" {
			if len(r.outputs["lint"].(map[string]any)) != 0 || len(r.passed) != 1 {
				t.Error(c.name, r.outputs, r.lines)
			}
			continue
		}
		if n := r.outputs["lint"].(map[string]any)[c.check]; n != int64(1) || !strings.Contains(strings.Join(r.lines, "\n"), c.want) || len(r.passed) != 1 {
			t.Error(c.name, r.outputs, r.lines, r.failures)
		}
	}
	config["lint"] = map[string]any{"duplicate_ids": "fail"}
	other := with(t, `"collection":"c"`, `"collection":"d"`)
	r := run(t, config, []*stream.Item{with(t), other, with(t)})
	r.expect(t, 2, 1, 0)
	if r.failures[0].Context.Schema != "lint" || r.failures[0].Context.Keyword != "duplicate_ids" {
		t.Error(r.failures[0].Context)
	}
}

// TestLintDefault: without lint nothing beyond the schemas is checked.
func TestLintDefault(t *testing.T) {
	bad := with(t, `[0,1],[0,0]]`, `[0,1],[0,0.5]]`, `[0,0,1,1]`, `[5,5,6,6]`)
	r := run(t, map[string]any{"offline": true, "missing_schema": "builtin"}, []*stream.Item{bad})
	if r.expect(t, 1, 0, 0); len(r.outputs["lint"].(map[string]any)) != 0 {
		t.Error(r.outputs)
	}
}

// TestLargeRing: the checks of a ring take no more than their bound, also where all edges lie over one another.
func TestLargeRing(t *testing.T) {
	var comb ring
	for i := range 20_000 {
		comb = append(comb, [2]float64{float64(i % 2), float64(i) / 20_000})
	}
	comb = append(comb, [2]float64{-1, 1}, [2]float64{-1, 0})
	if _, _, found := crossing(comb); found {
		t.Error("a comb crosses itself")
	}
	round := ring{}
	for i := range 100_000 {
		a := 2 * math.Pi * float64(i) / 100_000
		round = append(round, [2]float64{math.Cos(a), math.Sin(a)})
	}
	if a, b, found := crossing(round); found {
		t.Errorf("a circle crosses itself at %v and %v", a, b)
	}
	round[50_000] = [2]float64{2, 0.5}
	if _, _, found := crossing(round); !found {
		t.Error("a crossing in a large ring is not found")
	}
}

// TestOtherObjects: what is not of STAC is invalid, or left out.
func TestOtherObjects(t *testing.T) {
	manifest := func() *stream.Item {
		return streamtest.Item(t, `{"id":"m","format":"json","files":[],"total_items":3}`)
	}
	r := run(t, map[string]any{"offline": true, "missing_schema": "builtin"}, []*stream.Item{with(t), manifest()})
	r.expect(t, 1, 1, 0)
	r = run(t, map[string]any{"offline": true, "missing_schema": "builtin", "other_objects": "skip"}, []*stream.Item{with(t), manifest()})
	if r.expect(t, 1, 0, 0); r.outputs["skipped"] != int64(1) {
		t.Error(r.outputs)
	}
}

// What cannot be computed with is invalid; no input stops the step.
func TestHostile(t *testing.T) {
	deep := strings.Repeat(`[`, 600) + strings.Repeat(`]`, 600)
	many := strings.TrimSuffix(strings.Repeat(`"https://example.com/x",`, 1), ",")
	for i := range 150 {
		many += `,"https://example.com/` + strings.Repeat("x", i) + `"`
	}
	r := run(t, map[string]any{"offline": true}, []*stream.Item{
		with(t, `"datetime"`, `"n":1e999999999,"datetime"`),
		with(t, `"datetime"`, `"n":`+deep+`,"datetime"`),
		with(t, `"id"`, `"stac_extensions":[`+many+`],"id"`),
		with(t, `"id"`, `"stac_extensions":"eo","id"`),
		with(t, `"id"`, `"stac_extensions":[1,null,{}],"id"`),
		with(t, `"links":[`, `"links":[null,1,`),
	})
	r.expect(t, 0, 6, 0)
}
