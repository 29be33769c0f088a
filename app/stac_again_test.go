package app_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/stac/stactest"
)

const nightlyDoc = `
name: nightly
steps:
  - {id: ingest, module: stac.ingest, config: {catalog_url: "@URL@", collection_id: made, limit: 10, rate_limit: 0}}
  - {id: validate, module: stac.validate, depends_on: [ingest], config: {mode: offline, missing_schema: builtin}}
  - {id: output, module: stac.output, depends_on: [validate], config: {@OUTPUT@}}
`

// TestNightly runs one workflow night after night while its source grows: what is done is not done again, what has changed
// is, what failed is tried again, and an output that has been taken away is made anew.
func TestNightly(t *testing.T) {
	for name, output := range map[string]string{
		"json": "format: json, base_dir: out", "catalog": "format: catalog, base_dir: out", "ndjson": "format: ndjson, output_path: out/all.ndjson",
		"parquet": "format: parquet, base_dir: out", "one parquet": "format: parquet, output_path: out/all.parquet",
	} {
		t.Run(name, func(t *testing.T) {
			r := newStacRig(t)
			api := &served{}
			api.start(t)
			night := func(items []json.RawMessage) *outcome {
				t.Helper()
				s, err := stactest.New(stactest.Options{Items: items})
				if err != nil {
					t.Fatal(err)
				}
				api.now.Store(s)
				return r.run(nightlyDoc, "URL", api.url, "OUTPUT", output)
			}
			items := faulty(24)
			o := night(items[:16])
			o.want(stepwell.ExecutionCompletedWithFailures, 2)
			if n := o.count("output", "items_written"); n != 14 {
				t.Errorf("first night: %d written", n)
			}
			o = night(items[:16])
			o.want(stepwell.ExecutionCompletedWithFailures, 2)
			if n := o.count("output", "items_in"); n != 0 {
				t.Errorf("nothing new: %d items reach the output", n)
			}
			changed := parsed(t, items[0]).Clone()
			changed.Get("properties").Set("n", parsed(t, []byte("1000")))
			items[0] = changed.Bytes()
			items[3] = sound(4)[3] // repaired
			o = night(items)
			o.want(stepwell.ExecutionCompletedWithFailures, 2)
			if n := o.count("output", "items_in"); n != 9 { // 7 of the new ones, the changed one, the repaired one
				t.Errorf("third night: %d items reach the output", n)
			}
			if n := r.everything(); n != 22 {
				t.Errorf("%d items in %v", n, r.names("out"))
			}
			if err := os.RemoveAll(filepath.Join(r.dir, "out")); err != nil {
				t.Fatal(err)
			}
			night(items).want(stepwell.ExecutionCompletedWithFailures, 2)
			if n := r.everything(); n != 22 {
				t.Errorf("made anew: %d items in %v", n, r.names("out"))
			}
		})
	}
}

// everything counts the items below out, read back by a pipeline where that takes more than looking.
func (r *streamRig) everything() (n int) {
	r.t.Helper()
	for _, name := range r.names("out") {
		switch {
		case strings.HasSuffix(name, ".ndjson"):
			n += len(r.lines("out/" + name))
		case strings.HasSuffix(name, ".parquet"):
			r.run(readDoc, "FILE", "out/"+name).want(stepwell.ExecutionCompleted, 0)
			n += len(r.lines("back.ndjson"))
			if err := os.Remove(filepath.Join(r.dir, "back.ndjson")); err != nil {
				r.t.Fatal(err)
			}
		case strings.HasSuffix(name, ".json") && bytes.Contains([]byte(r.read("out/"+name)), []byte(`"Feature"`)):
			n++
		}
	}
	return n
}

// templatedDoc takes what modules need from parameters.
const templatedDoc = `
name: templated
parameters: [{name: p, type: string, default: x}, {name: l, type: array, default: [a]}]
steps:
  - {id: discovery, module: stac.discovery, config: {catalog_url: "{{ params.p }}"}}
  - {id: ingest, module: stac.ingest, config: {source: "{{ params.p }}", mode: file}}
  - {id: seed, module: stac.seed, config: {items: "{{ params.l }}"}}
  - {id: rows, module: stac.transform, config: {source_file: "{{ params.p }}", field_mapping: {id: "{{ params.p }}"}}}
  - {id: scaffold, module: stac.scaffold, depends_on: [rows], config: {collection_id: "{{ params.p }}"}}
  - {id: extension, module: stac.extension, depends_on: [ingest], config: {schema_uri: "{{ params.p }}", defaults: {properties.x: "{{ params.p }}"}}}
  - {id: validate, module: stac.validate, depends_on: [extension], config: {schema_dir: "{{ params.p }}"}}
  - {id: update, module: stac.update, depends_on: [validate], config: {updates: {properties.x: "{{ params.p }}"}}}
  - {id: patch, module: stac.update, depends_on: [update], config: {patch_file: "{{ params.p }}", auto_update_timestamp: false}}
  - {id: filter, module: stream.filter, depends_on: [patch], config: {when: "{{ item.x }}"}}
  - {id: map, module: stream.map, depends_on: [filter], config: {set: {a: "{{ item.p }}"}}}
  - {id: rename, module: stream.map, depends_on: [map], config: {rename: {a: "{{ params.p }}"}}}
  - {id: dedupe, module: stream.dedupe, depends_on: [rename], config: {by: ["{{ params.p }}"]}}
  - {id: lines, module: stac.output, depends_on: [dedupe], config: {format: ndjson, output_path: "{{ params.p }}"}}
  - {id: api, module: stac.output, depends_on: [dedupe], config: {format: api, url: "{{ params.p }}"}}
  - {id: any, module: stac.output, depends_on: [dedupe], config: {format: "{{ params.p }}", base_dir: x}}
  - {id: read, module: stream.read, config: {path: "{{ params.p }}"}}
  - {id: pages, module: stream.pages, config: {url: "{{ params.p }}", next: {link: "{{ params.p }}"}}}
  - {id: write, module: stream.write, depends_on: [read, pages], config: {path: "{{ params.p }}", columns: ["{{ params.p }}"]}}
`

// TestTemplatedConfig: what a module must have may come from a template; it is not missing before it is rendered.
func TestTemplatedConfig(t *testing.T) {
	r, err := app.Actions(app.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d, problems := definition.Parse([]byte(templatedDoc), definition.ParseOptions{})
	for _, p := range append(problems, definition.Check(d, r, "")...) {
		t.Errorf("%v", p)
	}
	rig := newStacRig(t)
	rig.items("in.ndjson", sound(3))
	o := rig.run(`
name: params
parameters: [{name: in, type: string, default: in.ndjson}, {name: out, type: string, default: out.ndjson}]
steps:
  - {id: read, module: stream.read, config: {path: "{{ params.in }}", format: ndjson}}
  - {id: mark, module: stream.map, depends_on: [read], config: {set: {properties.label: "{{ item.id }} of {{ params.in }}"}}}
  - {id: write, module: stac.output, depends_on: [mark], config: {format: ndjson, output_path: "{{ params.out }}"}}
`)
	o.want(stepwell.ExecutionCompleted, 0)
	if got := at(t, parsed(t, rig.lines("out.ndjson")[2]), "properties.label"); got != `"item-00003 of in.ndjson"` {
		t.Errorf("label %s", got)
	}
}

// TestDocumented checks the workflows that the documentation shows.
func TestDocumented(t *testing.T) {
	r, err := app.Actions(app.Options{})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, page := range []string{"streams.md", "stac.md"} {
		raw, err := os.ReadFile(filepath.Join("..", "docs", page))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for i, part := range strings.Split(string(raw), "\n```yaml\n") {
			text, _, _ := strings.Cut(part, "\n```")
			if i == 0 || !strings.Contains("\n"+text, "\nsteps:") {
				continue
			}
			n++
			if !strings.HasPrefix(text, "name:") {
				text = "name: shown\n" + text
			}
			d, problems := definition.Parse([]byte(text), definition.ParseOptions{Env: func(name string) (string, bool) {
				return "secret", strings.HasSuffix(name, "TOKEN") || strings.HasSuffix(name, "KEY")
			}})
			for _, p := range append(problems, definition.Check(d, r, page)...) {
				t.Errorf("%s, block %d: %v", page, i, p)
			}
		}
	}
	if n < 2 {
		t.Errorf("only %d workflows are shown", n)
	}
}

// TestMixedAcrossRuns has a property that is a number in the first run and a text in an item of the second: that item is
// refused, as it is within one run, and the others go on.
func TestMixedAcrossRuns(t *testing.T) {
	for _, output := range []string{"format: parquet, base_dir: out", "format: parquet, output_path: out/all.parquet"} {
		t.Run(output, func(t *testing.T) {
			r := newStacRig(t)
			items := sound(12)
			r.items("in.ndjson", items[:6])
			r.run(copyDoc, "FROM", "in.ndjson", "OUTPUT", output).want(stepwell.ExecutionCompleted, 0)
			items[6] = bytes.Replace(items[6], []byte(`"n":6`), []byte(`"n":"six"`), 1)
			r.items("in.ndjson", items)
			o := r.run(copyDoc, "FROM", "in.ndjson", "OUTPUT", output)
			o.want(stepwell.ExecutionCompletedWithFailures, 1)
			if n := r.everything(); n != 11 {
				t.Errorf("%d items are there", n)
			}
		})
	}
}
