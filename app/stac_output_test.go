package app_test

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stac/stactest"
)

const loadDoc = `
name: load
steps:
  - {id: ingest, module: stac.ingest, config: {source: items.ndjson}}
  - {id: output, module: stac.output, depends_on: [ingest], config: {format: api, url: "@URL@", on_conflict: @CONFLICT@, batch_size: 8}}
`

// TestP14 writes to a server that has five of the items, of which it does not say which, refuses one batch as too large and
// queues one.
func TestP14(t *testing.T) { testP14(t, landsatItems(t)[:60], landsat) }

// TestP14Small is P14 on generated items.
func TestP14Small(t *testing.T) { testP14(t, sound(60), "made") }

func testP14(t *testing.T, items []json.RawMessage, collection string) {
	var there []json.RawMessage
	for _, text := range items[10:15] {
		v := parsed(t, text).Clone()
		v.Get("properties").Set("old", item.OfText("yes"))
		there = append(there, v.Bytes())
	}
	conflicts := ids(t, there)
	for _, mode := range []string{"upsert", "insert"} {
		t.Run(mode, func(t *testing.T) {
			s := stactest.Start(t, stactest.Options{Items: there, Partial: true, Faults: []stactest.Fault{
				{Kind: "create", Nth: 2, Status: http.StatusRequestEntityTooLarge}, {Kind: "create", Nth: 5, Status: http.StatusAccepted, Store: true}}})
			r := newStacRig(t)
			var text strings.Builder
			for _, it := range items {
				fmt.Fprintf(&text, "%s\n", it)
			}
			r.file("items.ndjson", text.String())
			o := r.run(loadDoc, "URL", s.URL, "CONFLICT", mode)
			stored := s.IDs(collection)
			slices.Sort(stored)
			if !slices.Equal(stored, ids(t, items)) {
				t.Errorf("%d items are stored, want %d", len(stored), len(items))
			}
			old := 0
			for _, id := range conflicts {
				if strings.Contains(string(s.Item(collection, id)), `"old"`) {
					old++
				}
			}
			if mode == "upsert" {
				o.want(stepwell.ExecutionCompleted, 0)
				if old != 0 || o.count("output", "items_queued") == 0 {
					t.Errorf("%d were not replaced: %s", old, o.steps["output"].Output)
				}
				return
			}
			o.want(stepwell.ExecutionCompletedWithFailures, 5)
			var named []string
			for _, f := range o.failures {
				named = append(named, f.Item)
				if f.Step != "output" || f.Collection != collection {
					t.Errorf("%+v", f)
				}
			}
			var listed []string
			for _, id := range o.output("output", "conflicts").([]any) {
				listed = append(listed, id.(string))
			}
			slices.Sort(named)
			slices.Sort(listed)
			if !slices.Equal(named, conflicts) || !slices.Equal(listed, conflicts) || old != 5 {
				t.Errorf("failures name %v, conflicts are %v, want %v; %d as they were", named, listed, conflicts, old)
			}
		})
	}
}

const publishDoc = `
name: publish
steps:
  - {id: ingest, module: stac.ingest, config: {mode: file, source: "@ITEMS@"}}
  - {id: output, module: stac.output, depends_on: [ingest], config: {format: catalog, base_dir: out, max_links: @LINKS@}}
`

// TestP15 writes recorded items of many collections as a static catalog, and follows every link.
func TestP15(t *testing.T) {
	r := newStacRig(t)
	o := r.run(publishDoc, "ITEMS", recorded(t, "items")+"/planetarycomputer*.ndjson", "LINKS", "50")
	var items []json.RawMessage
	paths, err := filepath.Glob(recorded(t, "items") + "/planetarycomputer*.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range paths {
		list, err := stactest.Lines(p)
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, list...)
	}
	r.published(o, items)
}

func TestP15Small(t *testing.T) {
	r := newStacRig(t)
	items := append(sound(20), stactest.Generate("other", 7)...)
	var text strings.Builder
	for _, it := range items {
		fmt.Fprintf(&text, "%s\n", it)
	}
	r.file("items.ndjson", text.String())
	r.published(r.run(publishDoc, "ITEMS", "items.ndjson", "LINKS", "3"), items)
}

// published holds the catalog in out against the items that it is made of.
func (r *streamRig) published(o *outcome, items []json.RawMessage) {
	r.t.Helper()
	o.want(stepwell.ExecutionCompleted, 0)
	want := map[string]*extent{}
	keys := map[string]bool{}
	for _, text := range items {
		v := parsed(r.t, text)
		c := textOf(v.Get("collection"))
		if want[c] == nil {
			want[c] = newExtent()
		}
		want[c].add(r.t, v)
		keys[c+"/"+textOf(v.Get("id"))] = true
	}
	got, collections := r.crawl("out/catalog.json")
	if len(got) != len(keys) {
		r.t.Errorf("%d items are found, want %d", len(got), len(keys))
	}
	for key := range got {
		if !keys[key] {
			r.t.Errorf("%s was never there", key)
		}
	}
	if len(collections) != len(want) {
		r.t.Errorf("%d collections are found, want %d", len(collections), len(want))
	}
	for id, doc := range collections {
		if e := extentOf(r.t, doc); want[id] == nil || !e.equal(want[id]) {
			r.t.Errorf("%s: extent %+v, want %+v", id, e, want[id])
		}
	}
	if left := r.leftovers("out"); len(left) > 0 {
		r.t.Logf("hidden files: %v", left)
	}
}

// crawl follows every link from a document on; none may be absolute.
func (r *streamRig) crawl(start string) (items, collections map[string]*item.Value) {
	r.t.Helper()
	items, collections = map[string]*item.Value{}, map[string]*item.Value{}
	seen := map[string]bool{}
	for queue := []string{start}; len(queue) > 0; {
		at := queue[0]
		queue = queue[1:]
		if seen[at] {
			continue
		}
		seen[at] = true
		doc := parsed(r.t, []byte(r.read(at)))
		switch textOf(doc.Get("type")) {
		case "Feature":
			items[textOf(doc.Get("collection"))+"/"+textOf(doc.Get("id"))] = doc
		case "Collection":
			collections[textOf(doc.Get("id"))] = doc
		}
		for _, l := range doc.Get("links").Elements() {
			rel, href := textOf(l.Get("rel")), textOf(l.Get("href"))
			if !slices.Contains([]string{"item", "child", "parent", "root", "collection"}, rel) {
				continue
			}
			u, err := url.Parse(href)
			if err != nil || u.IsAbs() || strings.HasPrefix(href, "/") {
				r.t.Fatalf("%s: the link %s to %s is not relative (%v)", at, rel, href, err)
			}
			to := path.Join(path.Dir(at), u.Path)
			if _, err := os.Stat(filepath.Join(r.dir, to)); err != nil {
				r.t.Fatalf("%s: the link %s: %v", at, rel, err)
			}
			queue = append(queue, to)
		}
	}
	return items, collections
}

// extent is a collection's box and interval.
type extent struct {
	box      [4]float64
	from, to time.Time
}

func newExtent() *extent {
	return &extent{box: [4]float64{math.Inf(1), math.Inf(1), math.Inf(-1), math.Inf(-1)}}
}

func (e *extent) add(t testing.TB, it *item.Value) {
	t.Helper()
	if box := numbers(it.Get("bbox")); len(box) >= 4 {
		half := len(box) / 2
		e.box = [4]float64{min(e.box[0], box[0]), min(e.box[1], box[1]), max(e.box[2], box[half]), max(e.box[3], box[half+1])}
	}
	for _, name := range []string{"datetime", "start_datetime", "end_datetime"} {
		if s := textOf(it.Get("properties").Get(name)); s != "" {
			e.time(t, s)
		}
	}
}

func (e *extent) time(t testing.TB, s string) {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, strings.Replace(s, " ", "T", 1))
	if err != nil {
		t.Fatal(err)
	}
	if e.from.IsZero() || at.Before(e.from) {
		e.from = at
	}
	if at.After(e.to) {
		e.to = at
	}
}

func (e *extent) equal(other *extent) bool {
	return e.box == other.box && e.from.Equal(other.from) && e.to.Equal(other.to)
}

func extentOf(t testing.TB, doc *item.Value) *extent {
	t.Helper()
	e := newExtent()
	for i, v := range doc.Get("extent").Get("spatial").Get("bbox").Elements() {
		if box := numbers(v); i == 0 {
			half := len(box) / 2
			e.box = [4]float64{box[0], box[1], box[half], box[half+1]}
		}
	}
	for i, interval := range doc.Get("extent").Get("temporal").Get("interval").Elements() {
		for _, s := range interval.Elements() {
			if i == 0 {
				e.time(t, textOf(s))
			}
		}
	}
	return e
}

func numbers(v *item.Value) (out []float64) {
	if v == nil {
		return nil
	}
	for _, e := range v.Elements() {
		f, _ := e.Float()
		out = append(out, f)
	}
	return out
}
