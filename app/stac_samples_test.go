package app_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stac/schema"
	"github.com/stepwell/stepwell/stac/stactest"
)

// samples are the workflows of stac-manager in a rig, under the paths that they use.
func samples(t *testing.T) *streamRig {
	dir := recorded(t, "stac-manager-samples")
	r := newStacRig(t)
	r.o.Schemas = schema.Options{Mode: schema.Offline, Dir: recorded(t, "schemas")}
	if err := os.Symlink(dir, filepath.Join(r.dir, "samples")); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *streamRig) sample(name string) string {
	r.t.Helper()
	return r.read("samples/" + name)
}

func (r *streamRig) written(dir string) (n int) {
	r.t.Helper()
	for _, name := range r.names(dir) {
		if strings.Contains(name, "/items/") {
			n++
		}
	}
	return n
}

// TestSampleQuickstart runs the first workflow as it is.
func TestSampleQuickstart(t *testing.T) {
	r := samples(t)
	r.run(r.sample("sentinel-2-l2a-api/workflows/00-quickstart.yaml")).want(stepwell.ExecutionCompleted, 0)
	if n := r.written("outputs"); n != 20 {
		t.Errorf("%d items: %v", n, r.names("outputs"))
	}
	if c := parsed(t, []byte(r.read("outputs/sentinel-2-l2a/collection.json"))); textOf(c.Get("id")) != "sentinel-2-l2a" || textOf(c.Get("type")) != "Collection" {
		t.Errorf("collection.json: %.300s", c.Bytes())
	}
}

// TestSampleQuickstartMissing has a sample whose source file does not exist: it fails at once, and says which.
func TestSampleQuickstartMissing(t *testing.T) {
	r := samples(t)
	o := r.run(r.sample("HLSS30_2.0-api/workflows/00-quickstart.yaml"))
	if o.status != stepwell.ExecutionFailed || o.failure == nil || !strings.Contains(o.failure.Message, "samples/sentinel-2-l2a-api/data/items.json") || o.failure.Step != "ingest" {
		t.Errorf("%v: %+v", o.status, o.failure)
	}
	if names := r.names("outputs"); len(names) > 0 {
		t.Errorf("written: %v", names)
	}
}

// TestSampleBasic runs the workflow that reads an API, with a source of our own.
func TestSampleBasic(t *testing.T) {
	r := samples(t)
	var items []json.RawMessage
	if err := json.Unmarshal([]byte(r.sample("sentinel-2-l2a-api/sample-data/items.json")), &items); err != nil {
		t.Fatal(err)
	}
	for i, template := range slices.Repeat(items, 4) { // moved to where and when the workflow looks
		v := parsed(t, template).Clone()
		v.Set("id", item.OfText(fmt.Sprintf("moved-%d", i)))
		v.Set("bbox", parsed(t, []byte(`[-122.4,37.6,-122.3,37.7]`)))
		v.Get("properties").Set("datetime", item.OfText("2024-01-09T00:00:00Z"))
		items = append(items, v.Bytes())
	}
	s := stactest.Start(t, stactest.Options{Items: items})
	doc := strings.Replace(r.sample("sentinel-2-l2a-api/workflows/01-basic-pipeline.yaml"), "https://planetarycomputer.microsoft.com/api/stac/v1", s.URL, 1)
	o := r.run(doc)
	o.want(stepwell.ExecutionCompleted, 0)
	if n := r.written("outputs/tutorial-01"); n != 50 || o.count("ingest", "items") != 50 || s.Count("search") != 1 {
		t.Errorf("%d written, %s, %d searches", n, o.steps["ingest"].Output, s.Count("search"))
	}
}

func TestSampleUpdate(t *testing.T) {
	r := samples(t)
	r.run(r.sample("sentinel-2-l2a-api/workflows/02-update-pipeline.yaml")).want(stepwell.ExecutionCompleted, 0)
	n := 0
	for _, name := range r.names("outputs/tutorial-02") {
		if !strings.Contains(name, "/items/") {
			continue
		}
		n++
		it := parsed(t, []byte(r.read("outputs/tutorial-02/"+name)))
		for p, want := range map[string]string{"properties.processed": "true", "properties.processing_date": `"2024-01-26T00:00:00Z"`} {
			if got := at(t, it, p); got != want {
				t.Errorf("%s: %s is %s", name, p, got)
			}
		}
		if at(t, it, "properties.updated") == "null" {
			t.Errorf("%s is not stamped", name)
		}
	}
	if n != 20 {
		t.Errorf("%d items", n)
	}
}

// TestSampleExtension is the workflow in which output and validate both depend on transform: the validation sees every
// item, and what is written does not wait for it.
func TestSampleExtension(t *testing.T) {
	r := samples(t)
	doc := r.sample("sentinel-2-l2a-api/workflows/03-extension-pipeline.yaml")
	o := r.run(doc)
	o.want(stepwell.ExecutionCompleted, 0)
	if n := r.written("outputs/tutorial-03"); n != 20 || o.count("validate", "valid") != 20 || o.count("output", "items_in") != 20 {
		t.Errorf("%d items, validate %s", n, o.steps["validate"].Output)
	}
	for _, name := range r.names("outputs/tutorial-03") {
		if strings.Contains(name, "/items/") {
			it := parsed(t, []byte(r.read("outputs/tutorial-03/"+name)))
			if at(t, it, "properties.cloud_cover_extra") == "null" || at(t, it, "assets.B04.alternate.s3.href") != `"s3://example-bucket/sentinel-2-l2a/B04/"` {
				t.Fatalf("%s: %.500s", name, it.Bytes())
			}
		}
	}
	// a branch that ends in a validation really validates: an item that is no good is a failure, and is written all the same
	raw := r.sample("sentinel-2-l2a-api/sample-data/items.json")
	r.file("bad.json", strings.Replace(raw, `"bbox"`, `"no-bbox"`, 1))
	doc = strings.NewReplacer("samples/sentinel-2-l2a-api/sample-data/items.json", "bad.json", "strict: true", "strict: false", "outputs/tutorial-03", "outputs/bad").Replace(doc)
	o = r.run(doc)
	o.want(stepwell.ExecutionCompletedWithFailures, 1)
	if n := r.written("outputs/bad"); n != 20 || o.count("validate", "invalid") != 1 {
		t.Errorf("%d items, validate %s", n, o.steps["validate"].Output)
	}
}

const matrixDoc = `
name: years
settings:
  input_secrets: {dotenv_path: my.env}
strategy:
  matrix:
    - {collection_id: a, year: 2020}
    - {collection_id: b, year: 2021}
    - {collection_id: c, year: 2022}
steps:
  - {id: ingest, module: stac.ingest, config: {source: "${ROOT:-in}/${collection_id}.ndjson"}}
  - {id: note, module: stac.update, depends_on: [ingest], config: {auto_update_timestamp: false, updates: {properties.year: "${year}", properties.who: "${WHO}"}}}
  - {id: output, module: stac.output, depends_on: [note], config: {format: ndjson, output_path: "out/${collection_id}.ndjson"}}
`

// TestMatrix runs three entries of which one has no file: it fails alone. Variables come from the entry, the environment,
// the dotenv file and the default, in this order.
func TestMatrix(t *testing.T) {
	r := newStacRig(t)
	if err := os.Mkdir(filepath.Join(r.dir, "in"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"a", "c"} {
		var text strings.Builder
		for _, it := range stactest.Generate(id, 5) {
			fmt.Fprintf(&text, "%s\n", it)
		}
		r.file("in/"+id+".ndjson", text.String())
	}
	d, problems := definition.Parse([]byte(matrixDoc), definition.ParseOptions{
		Env:    func(name string) (string, bool) { return "the environment", name == "WHO" },
		Dotenv: func(string) (map[string]string, error) { return map[string]string{"WHO": "the file"}, nil }})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	var o *outcome
	r.with(func(a *app.App) {
		p, err := a.Conductor.Register(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		id, err := a.Conductor.Start(t.Context(), conductor.Request{Pipeline: p, Dir: r.dir})
		if err != nil {
			t.Fatal(err)
		}
		o = r.outcome(r.end(a, id))
	})
	if o.status != stepwell.ExecutionFailed || o.failure == nil || !strings.Contains(o.failure.Message, "in/b.ndjson") {
		t.Errorf("%v: %+v", o.status, o.failure)
	}
	for id, year := range map[string]string{"a": "2020", "c": "2022"} {
		lines := r.lines("out/" + id + ".ndjson")
		if len(lines) != 5 {
			t.Fatalf("%s: %d items", id, len(lines))
		}
		it := parsed(t, lines[0])
		if at(t, it, "properties.year") != year || at(t, it, "properties.who") != `"the environment"` {
			t.Errorf("%s: %s", id, it.Bytes())
		}
	}
	if keys := slices.Sorted(maps.Keys(o.steps)); len(r.names("out")) < 2 || len(keys) == 0 {
		t.Errorf("%v %v", r.names("out"), keys)
	}
}
