package app_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/stac/stactest"
)

// chaos is the script of stac-and-media §6, P1.
func chaos(after string) []stactest.Fault {
	return []stactest.Fault{
		{Kind: "search", Page: 2, Status: 429, After: after},
		{Kind: "search", Page: 4, Status: 503, Times: 2},
		{Kind: "search", Page: 5, Reset: true},
		{Kind: "search", Page: 6, Cut: true},
	}
}

const fetchDoc = `
name: fetch
steps:
  - id: ingest
    module: stac.ingest
    config: {mode: api, source: "@URL@", collection_id: @COLLECTION@, limit: @LIMIT@, rate_limit: 0, retry: {base: 5ms, max: 20ms}}
  - id: output
    module: stac.output
    depends_on: [ingest]
    config: {format: ndjson, output_path: out/all.ndjson}
`

// TestP1 fetches 750 recorded items of a server that fails on half of its pages: none is lost, none is there twice.
func TestP1(t *testing.T) {
	s := stactest.Start(t, stactest.Options{Items: landsatItems(t), Overlap: 1, Faults: chaos("2")})
	r := newStacRig(t)
	began := time.Now()
	o := r.run(fetchDoc, "URL", s.URL, "COLLECTION", landsat, "LIMIT", "100")
	took := time.Since(began)
	o.want(stepwell.ExecutionCompleted, 0)
	got := r.lines("out/all.ndjson")
	if list := ids(t, got); len(list) != 750 || digest(list) != "d41af95daa8a4978" {
		t.Errorf("%d ids, digest %s", len(list), digest(list))
	}
	if n := s.Count("search"); n != 13 || took < 2*time.Second || o.count("ingest", "duplicates") != 7 || o.count("ingest", "retries") != 5 {
		t.Errorf("%d searches in %s: %s", n, took, o.steps["ingest"].Output)
	}
	for _, text := range got {
		if want := s.Item(landsat, textOf(parsed(t, text).Get("id"))); !same(t, text, want) {
			t.Fatalf("an item has changed: %.300s", text)
		}
	}
}

// TestP1Small is P1 on generated items.
func TestP1Small(t *testing.T) {
	s := stactest.Start(t, stactest.Options{Items: stactest.Generate("made", 75), Overlap: 1, Faults: chaos("0")})
	r := newStacRig(t)
	o := r.run(fetchDoc, "URL", s.URL, "COLLECTION", "made", "LIMIT", "10")
	o.want(stepwell.ExecutionCompleted, 0)
	if n := s.Count("search"); len(ids(t, r.lines("out/all.ndjson"))) != 75 || n != 13 || o.count("ingest", "duplicates") != 7 {
		t.Errorf("%d searches: %s", n, o.steps["ingest"].Output)
	}
}

const tableDoc = `
name: table
steps:
  - id: ingest
    module: stac.ingest
    config: {catalog_url: "@URL@", collection_id: @COLLECTION@, limit: @LIMIT@, rate_limit: 0, retry: {base: 5ms, max: 20ms}}
  - id: validate
    module: stac.validate
    depends_on: [ingest]
    config: {@SCHEMAS@mode: offline, missing_schema: @MISSING@}
  - id: output
    module: stac.output
    depends_on: [validate]
    config: {format: parquet, output_path: out/items.parquet}
`

const landsatSchema = "https://landsat.usgs.gov/stac/landsat-extension/v1.1.0/schema.json"

// TestP2P4 is P1, P2 and P4 as one pipeline: fetched through all faults, validated, written as GeoParquet, and read
// by DuckDB and by a pipeline of our own.
func TestP2P4(t *testing.T) {
	items := landsatItems(t)
	s := stactest.Start(t, stactest.Options{Items: items, Overlap: 1, Faults: chaos("1")})
	r := newStacRig(t)
	o := r.run(tableDoc, "URL", s.URL, "COLLECTION", landsat, "LIMIT", "100", "SCHEMAS", "schema_dir: "+recorded(t, "schemas")+", ", "MISSING", "warn")
	o.want(stepwell.ExecutionCompletedWithFailures, 34)
	if o.count("validate", "valid") != 716 || o.count("validate", "warnings") != 750 || !maps.Equal(o.output("validate", "missing_schemas").(map[string]any), map[string]any{landsatSchema: 750.0}) {
		t.Errorf("validate: %s", o.steps["validate"].Output)
	}
	bad := map[string]bool{}
	for _, f := range o.failures {
		bad[f.Item] = true
		if f.Step != "validate" || f.Collection != landsat || f.Type != "ValidationError" || !strings.Contains(f.Message, "'bbox'") || f.Context.Keyword != "required" || f.Context.Pointer != "" {
			t.Fatalf("%+v", f)
		}
	}
	if len(bad) != 34 || o.byStep["validate"] != 34 {
		t.Errorf("%d items failed, %v", len(bad), o.byStep)
	}
	r.landsatTable("out/items.parquet")
	want := slices.DeleteFunc(items, func(text json.RawMessage) bool { return bad[textOf(parsed(t, text).Get("id"))] })
	r.readBack("out/items.parquet", want)
}

// sound are generated items as valid as recorded ones; they name an extension that nobody has a schema of.
func sound(n int) []json.RawMessage {
	items := stactest.Generate("made", n)
	for i, text := range items {
		items[i] = bytes.Replace(text, []byte(`"links":[]`), []byte(`"stac_extensions":["https://schemas.example.org/none/v1.0.0/schema.json"],"links":[{"rel":"collection","href":"https://api.example/collections/made"}]`), 1)
	}
	return items
}

// faulty are items of which every eighth has no bbox.
func faulty(n int) []json.RawMessage {
	items := sound(n)
	for i, text := range items {
		if i%8 == 3 {
			at := bytes.Index(text, []byte(`"bbox"`))
			end := at + bytes.IndexByte(text[at:], ']') + 2
			text = slices.Delete(text, at, end)
		}
		items[i] = text
	}
	return items
}

// TestP2P4Small is the same on generated items, by the built-in rules of the core.
func TestP2P4Small(t *testing.T) {
	items := faulty(80)
	s := stactest.Start(t, stactest.Options{Items: items, Overlap: 1, Faults: chaos("0")})
	r := newStacRig(t)
	o := r.run(tableDoc, "URL", s.URL, "COLLECTION", "made", "LIMIT", "10", "SCHEMAS", "", "MISSING", "builtin")
	o.want(stepwell.ExecutionCompletedWithFailures, 10)
	if o.count("validate", "valid") != 70 || o.count("validate", "builtin_rules") != 80 || o.count("validate", "warnings") != 80 {
		t.Errorf("validate: %s", o.steps["validate"].Output)
	}
	for _, f := range o.failures {
		if f.Step != "validate" || !strings.Contains(f.Message, "bbox") || f.Item == "" {
			t.Fatalf("%+v", f)
		}
	}
	r.readBack("out/items.parquet", slices.DeleteFunc(items, func(text json.RawMessage) bool { return !bytes.Contains(text, []byte("bbox")) }))
}

// TestP3 has a schema that must be there and is not: every item fails, and nothing is written.
func TestP3(t *testing.T) {
	s := stactest.Start(t, stactest.Options{Items: landsatItems(t)})
	r := newStacRig(t)
	o := r.run(tableDoc, "URL", s.URL, "COLLECTION", landsat, "LIMIT", "250", "SCHEMAS", "schema_dir: "+recorded(t, "schemas")+", ", "MISSING", "fail")
	o.want(stepwell.ExecutionCompletedWithFailures, 750)
	if names := slices.DeleteFunc(r.names("out"), func(name string) bool { return strings.HasSuffix(name, "manifest.json") }); len(names) > 0 || o.count("output", "items_written") != 0 {
		t.Errorf("written: %v", names)
	}
	if f := o.failures[0]; !strings.Contains(f.Message, landsatSchema) {
		t.Errorf("%+v", f)
	}
}

func TestP3Small(t *testing.T) {
	s := stactest.Start(t, stactest.Options{Items: faulty(16)})
	r := newStacRig(t)
	o := r.run(tableDoc, "URL", s.URL, "COLLECTION", "made", "LIMIT", "10", "SCHEMAS", "", "MISSING", `{"*": fail, "https://schemas.stacspec.org/*": builtin}`)
	o.want(stepwell.ExecutionCompletedWithFailures, 16)
	if names := slices.DeleteFunc(r.names("out"), func(name string) bool { return strings.HasSuffix(name, "manifest.json") }); len(names) > 0 {
		t.Errorf("written: %v", names)
	}
}

// TestP8 follows next links that are wrong.
func TestP8(t *testing.T) {
	made := stactest.Generate("made", 40)
	args := []string{"COLLECTION", "made", "LIMIT", "10"}
	t.Run("loop", func(t *testing.T) {
		s := stactest.Start(t, stactest.Options{Items: made, Faults: []stactest.Fault{{Kind: "search", SameNext: true, Times: -1}}})
		r := newStacRig(t)
		o := r.run(fetchDoc, append(args, "URL", s.URL)...)
		o.want(stepwell.ExecutionCompletedWithFailures, 1)
		if n := s.Count("search"); n != 2 || len(o.failures) == 1 && o.failures[0].Type != "pagination_loop" || len(r.lines("out/all.ndjson")) != 20 {
			t.Errorf("%d searches, %+v", n, o.failures)
		}
	})
	t.Run("another host", func(t *testing.T) {
		const token = "a-token-that-nobody-else-may-see"
		other := stactest.Start(t, stactest.Options{Items: made})
		s := stactest.Start(t, stactest.Options{Items: made, Bearer: token, Faults: []stactest.Fault{{Kind: "search", Page: 1, NextHost: other.URL}}})
		r := newStacRig(t)
		o := r.run(strings.Replace(fetchDoc, "mode: api", "mode: api, credentials: {bearer: "+token+"}", 1), append(args, "URL", s.URL)...)
		o.want(stepwell.ExecutionCompleted, 0)
		if len(r.lines("out/all.ndjson")) != 40 || other.Count("search") == 0 {
			t.Errorf("%d items, %d searches at the other host", len(r.lines("out/all.ndjson")), other.Count("search"))
		}
		for _, q := range other.Requests() {
			if strings.Contains(fmt.Sprint(q.Header, q.URL), token) {
				t.Error("the other host was told the token")
			}
		}
		for _, name := range r.names(".") {
			if strings.Contains(name, "-streams/") && strings.Contains(r.read(name), token) {
				t.Errorf("the token is in %s", name)
			}
		}
	})
	for name, fault := range map[string]stactest.Fault{"long": {Kind: "search", Page: 1, NextPad: 9000}, "empty page": {Kind: "search", Page: 3, Empty: true}} {
		t.Run(name, func(t *testing.T) {
			s := stactest.Start(t, stactest.Options{Items: made, Faults: []stactest.Fault{fault}})
			r := newStacRig(t)
			r.run(fetchDoc, append(args, "URL", s.URL)...).want(stepwell.ExecutionCompleted, 0)
			if n := len(ids(t, r.lines("out/all.ndjson"))); n != 40 {
				t.Errorf("%d items", n)
			}
		})
	}
}

// servers are the kinds of P9.
var servers = map[string]stactest.Options{
	"get only": {NoPost: true}, "merge": {Paging: stactest.ByMerge}, "header": {Paging: stactest.ByHeader},
}

func TestP9(t *testing.T) {
	for name, o := range servers {
		t.Run(name, func(t *testing.T) {
			o.Items = landsatItems(t)
			testP9(t, o, landsat, "100", 750)
		})
	}
}

func TestP9Small(t *testing.T) {
	for name, o := range servers {
		t.Run(name, func(t *testing.T) {
			o.Items = stactest.Generate("made", 75)
			testP9(t, o, "made", "10", 75)
		})
	}
}

func testP9(t *testing.T, o stactest.Options, collection, limit string, want int) {
	s := stactest.Start(t, o)
	r := newStacRig(t)
	r.run(fetchDoc, "URL", s.URL, "COLLECTION", collection, "LIMIT", limit).want(stepwell.ExecutionCompleted, 0)
	if n := len(ids(t, r.lines("out/all.ndjson"))); n != want {
		t.Errorf("%d items", n)
	}
}
