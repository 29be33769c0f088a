package app_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/stac/schema"
	"github.com/stepwell/stepwell/stac/stactest"
	"github.com/stepwell/stepwell/stream"
)

const joinDoc = `
name: branches
steps:
  - {id: ingest, module: IngestModule, config: {source_file: in.ndjson}}
  - {id: science, module: ExtensionModule, depends_on: [ingest], config: {extension: scientific, defaults: {"properties.sci:doi": "@DOI@"}}}
  - {id: processing, module: ExtensionModule, depends_on: [ingest], config: {extension: processing, defaults: {"properties.processing:level": L2}}}
  - {id: validate, module: ValidateModule, depends_on: [science, processing]}
  - {id: output, module: OutputModule, depends_on: [validate], config: {format: ndjson, output_path: out.ndjson}}
`

// Spec §6.3: extensions on two branches, then validation. Each item has both of them behind the join, so that what one
// branch set wrongly is found, and what is right arrives.
func TestExtensionsOnBranches(t *testing.T) {
	r := newStacRig(t)
	r.o.Schemas = schema.Options{Mode: schema.Offline, Dir: recorded(t, "schemas")}
	files, err := filepath.Glob(filepath.Join(recorded(t, "items"), "*.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	var all []json.RawMessage
	for _, f := range files {
		items, err := stactest.Lines(f)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, items...)
	}
	r.items("in.ndjson", all)
	before := r.run(strings.NewReplacer("depends_on: [science, processing]", "depends_on: [ingest]", "@DOI@", "10.5067/MODIS/x").Replace(joinDoc))
	sound := before.count("validate", "items_out")

	o := r.run(joinDoc, "DOI", "not a DOI")
	if o.status != stepwell.ExecutionFailed && o.status != stepwell.ExecutionCompletedWithFailures || o.byStep["validate"] != before.count("validate", "items_in") {
		t.Errorf("%v, %v: an invalid sci:doi passed", o.status, o.byStep)
	}
	if o.byStep["science"]+o.byStep["processing"] > 0 || slices.ContainsFunc(o.failures, func(f failed) bool { return f.Type == "conflict" }) {
		t.Errorf("failures before the validation: %v %+v", o.byStep, head(o.failures, 2))
	}

	if err := os.RemoveAll(filepath.Join(r.dir, "out.ndjson")); err != nil {
		t.Fatal(err)
	}
	o = r.run(joinDoc, "DOI", "10.5067/MODIS/MOD09.061")
	if n := o.count("validate", "items_out"); n != sound || sound < 1000 {
		t.Errorf("%d items pass validation behind the join, %d did without branches", n, sound)
	}
	lines := r.lines("out.ndjson")
	for _, line := range lines {
		it := parsed(t, line)
		p := it.Get("properties")
		if textOf(p.Get("sci:doi")) == "" || textOf(p.Get("processing:level")) != "L2" ||
			strings.Count(string(it.Get("stac_extensions").Bytes()), "/scientific/") != 1 || strings.Count(string(it.Get("stac_extensions").Bytes()), "/processing/v1.2.0/") != 1 {
			t.Fatalf("%.2000s", line)
		}
	}
	if len(lines) != sound {
		t.Errorf("%d items are written, want %d", len(lines), sound)
	}
}

// The diamond of spec §6.3 with two UpdateModules: no conflict in 20 executions, both changes in every item, and one time
// in all of an execution.
func TestUpdatesOnBranches(t *testing.T) {
	const doc = `
name: branches-@RUN@
steps:
  - {id: ingest, module: IngestModule, config: {source_file: in.ndjson}}
  - {id: one, module: UpdateModule, depends_on: [ingest], config: {updates: {properties.one: true, properties.keywords: [one]}, removes: [properties.gone]}}
  - {id: two, module: UpdateModule, depends_on: [ingest], config: {updates: {properties.two: "@RUN@", properties.keywords: [two]}}}
  - {id: validate, module: ValidateModule, depends_on: [one, two]}
  - {id: output, module: OutputModule, depends_on: [validate], config: {format: ndjson, output_path: "out-@RUN@.ndjson"}}
`
	r := newStacRig(t)
	items := sound(50)
	for i := range items {
		v := parsed(t, items[i]).Clone()
		v.Get("properties").Set("gone", parsed(t, []byte("1")))
		items[i] = v.Bytes()
	}
	r.items("in.ndjson", items)
	for run := range 20 {
		r.run(doc, "RUN", fmt.Sprint(run)).want(stepwell.ExecutionCompleted, 0)
		times := map[string]bool{}
		lines := r.lines(fmt.Sprintf("out-%d.ndjson", run))
		for _, line := range lines {
			p := parsed(t, line).Get("properties")
			times[textOf(p.Get("updated"))] = true
			if string(p.Get("one").Bytes()) != "true" || textOf(p.Get("two")) != fmt.Sprint(run) || p.Get("gone") != nil || string(p.Get("keywords").Bytes()) != `["one","two"]` {
				t.Fatalf("run %d: %s", run, line)
			}
		}
		if len(lines) != len(items) || len(times) != 1 || times[""] {
			t.Errorf("run %d: %d items with the times %v", run, len(lines), times)
		}
	}
}

// A stream that is cut off and goes on in another process, later: every item has the time at which the execution began, also
// behind a join of two branches that both stamped it.
func TestOneTimeAcrossProcesses(t *testing.T) {
	r := newStreamRig(t)
	free, got := make(chan struct{}), make(chan int, 1)
	r.o.Modules = []stream.Module{ticking(free, got)}
	var id string
	r.with(func(a *app.App) {
		id = r.start(a, `
name: stamped
settings: {streams: {checkpoint_interval_seconds: 0.01, batch_size: 2}}
steps:
  - {id: tick, module: test.ticks}
  - {id: one, module: stac.update, depends_on: [tick], config: {updates: {properties.one: 1}}}
  - {id: two, module: stac.update, depends_on: [tick], config: {updates: {properties.two: 2}}}
  - {id: write, module: stream.write, depends_on: [one, two], config: {path: out.ndjson}}
`)
		<-got
		for durable := false; !durable; { // a cursor in the checkpoint: the items before it need not be read again
			if t.Context().Err() != nil {
				t.Fatal("there is no checkpoint")
			}
			err := filepath.WalkDir(r.o.DB+"-streams", func(name string, d fs.DirEntry, err error) error {
				if err != nil || filepath.Ext(name) != ".ckpt" {
					return nil // files come and go
				}
				raw, err := os.ReadFile(name)
				durable = durable || strings.Contains(string(raw), `"cursors":`)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	})
	close(free)
	var began time.Time
	r.with(func(a *app.App) {
		if err := a.Conductor.Recover(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		x, steps := r.end(a, id)
		step := steps["tick"]
		if n := step.Items(); x.Status != stepwell.ExecutionCompleted || n == nil || n.Skipped == 0 {
			t.Fatalf("%v %+v, items %+v: it did not continue where it was", x.Status, x.Failure, n)
		}
		began = x.Started
	})
	lines := r.lines("out.ndjson")
	want := began.UTC().Format("2006-01-02T15:04:05.000Z")
	for _, line := range lines {
		if got := textOf(parsed(t, line).Get("properties").Get("updated")); got[:19] != want[:19] || got != textOf(parsed(t, lines[0]).Get("properties").Get("updated")) {
			t.Errorf("updated %s in %s; the execution began at %s", got, line, want)
		}
	}
	if len(lines) != 20 {
		t.Errorf("%d items", len(lines))
	}
}
