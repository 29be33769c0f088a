package output

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stac/stactest"
	"github.com/stepwell/stepwell/stac/summary"
	"github.com/stepwell/stepwell/stream"
)

// sharedItems are recorded public items.
func sharedItems(t testing.TB, pattern string) (items []*stream.Item) {
	t.Helper()
	data := os.Getenv("STEPWELL_SHARED_DATA")
	if data == "" {
		data = filepath.Join("..", "..", "..", "shared", "data")
	}
	files, err := filepath.Glob(filepath.Join(data, "items", pattern))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Skip("no shared data: recorded public items are left out")
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(text) {
			v, err := item.Parse(line)
			if err != nil {
				t.Fatal(err)
			}
			items = append(items, stream.New(v, stream.Place{File: name}))
		}
	}
	return items
}

func key(it *stream.Item) string { return it.Collection() + "/" + it.ID() }

// unique leaves out items without a collection, and all but the first of each id.
func unique(items []*stream.Item) (out []*stream.Item) {
	seen := map[string]bool{}
	for _, it := range items {
		if !seen[key(it)] && it.Collection() != "" {
			seen[key(it)] = true
			out = append(out, it)
		}
	}
	return out
}

// TestShared is P15 on 1,268 recorded items of many collections: the catalog is crawled, extents are unions,
// and every item is what it was but for links and hrefs.
func TestShared(t *testing.T) {
	items := unique(sharedItems(t, "*.ndjson"))
	b := newBench(t, map[string]any{"format": "catalog", "base_dir": "out", "max_links": 100})
	_, out := b.run(nil, items...)
	if out["items_written"] != int64(len(items)) {
		t.Fatalf("%v of %d: %v", out["items_written"], len(items), b.rig.Failures())
	}
	found := map[string]*item.Value{}
	for _, doc := range b.crawl("out", "catalog.json") {
		found[key(stream.New(doc, stream.Place{}))] = doc
	}
	if len(found) != len(items) {
		t.Errorf("the crawl finds %d of %d", len(found), len(items))
	}
	boxes := map[string][]float64{}
	for _, it := range items {
		doc := found[key(it)]
		for name, was := range it.Members() {
			if name != "links" && (name != "assets" || !hasRelative(it.Bytes())) && !bytes.Equal(doc.Get(name).Bytes(), was.Bytes()) {
				t.Errorf("%s: %s has changed", key(it), name)
			}
		}
		box := summary.BoxOf(it.Value)
		if box == nil {
			continue
		}
		box = flat(box)
		all := boxes[it.Collection()]
		if all == nil {
			all = []float64{math.Inf(1), math.Inf(1), math.Inf(-1), math.Inf(-1)}
		}
		boxes[it.Collection()] = []float64{min(all[0], box[0]), min(all[1], box[1]), max(all[2], box[2]), max(all[3], box[3])}
	}
	for _, collection := range slices.Sorted(maps.Keys(boxes)) {
		list := b.doc("out/" + fileName(collection) + "/collection.json").Get("extent").Get("spatial").Get("bbox").At(0)
		holder := item.NewObject()
		holder.Set("bbox", list.Clone())
		if got := summary.BoxOf(holder); got == nil || !slices.Equal(flat(got), boxes[collection]) {
			t.Errorf("%s: extent %s, want %v", collection, list.Bytes(), boxes[collection])
		}
	}
}

// TestSharedFormats has all items in every other format.
func TestSharedFormats(t *testing.T) {
	items := unique(sharedItems(t, "*.ndjson"))
	for _, format := range []string{"json", "ndjson", "parquet"} {
		b := newBench(t, map[string]any{"format": format, "base_dir": "out", "mixed_types": "json"})
		if format != "parquet" {
			delete(b.config, "mixed_types")
		}
		start := time.Now()
		b.run(nil, items...)
		t.Logf("%s: %d items in %v", format, len(items), time.Since(start))
		got := b.found()
		for _, it := range b.rig.Refused() {
			got[key(it)] = "refused"
			t.Logf("%s: %s is refused: %v", format, key(it), b.rig.Failures()[0].Err)
		}
		if len(got) != len(items) || len(b.rig.Refused()) > 0 && format != "parquet" {
			t.Errorf("%s: %d of %d items", format, len(got), len(items))
		}
	}
}

// TestSharedAPI is P14 on recorded items.
func TestSharedAPI(t *testing.T) {
	items := unique(sharedItems(t, "*landsat-8-c2-l2*.ndjson"))
	for _, mode := range []string{"insert", "upsert"} {
		s := stactest.Start(t, stactest.Options{Items: texts(items[100:105]), Partial: true, Faults: []stactest.Fault{
			{Kind: "create", Nth: 2, Status: 413}, {Kind: "create", Nth: 6, Status: 202, Store: true}}})
		b := apiBench(t, s, map[string]any{"on_conflict": mode, "batch_size": 50})
		_, out := b.run(nil, items...)
		want := 0
		if mode == "insert" {
			want = 5
		}
		conflicts := slices.Sorted(slices.Values(out["conflicts"].([]string)))
		if got := s.IDs(items[0].Collection()); len(got) != len(items) || len(conflicts) != want || out["items_written"] != int64(len(items)-want) {
			t.Errorf("%s: %d of %d there, %v", mode, len(got), len(items), out)
		}
		if want > 0 && !slices.Equal(conflicts, ids(items[100:105])) {
			t.Errorf("conflicts %v", conflicts)
		}
	}
}

// copies are items of a realistic size with new ids.
func copies(b testing.TB, n int) (out []*stream.Item) {
	items := sharedItems(b, "*landsat-8-c2-l2*.ndjson")
	for i := range n {
		it := items[i%len(items)].Clone()
		it.Set("id", item.OfText(fmt.Sprintf("%s-%06d", strings.Clone(it.ID()), i)))
		v, err := item.Parse(it.AppendTo(nil))
		if err != nil {
			b.Fatal(err)
		}
		out = append(out, stream.New(v, it.Place))
	}
	return out
}

// BenchmarkWrite writes batches of 100 items of 15 kB, with a Commit for every 2,000.
func BenchmarkWrite(b *testing.B) {
	for _, format := range []string{"json", "catalog", "ndjson", "ndjson zstd", "parquet"} {
		b.Run(format, func(b *testing.B) {
			config := map[string]any{"format": strings.Fields(format)[0], "base_dir": "out"}
			if strings.Contains(format, " ") {
				config["compression"] = "zstd"
			}
			bench := newBench(b, config)
			items := copies(b, 6000)
			size := 0
			for _, it := range items {
				size += len(it.Bytes())
			}
			b.ResetTimer()
			for range b.N {
				sink := bench.mustOpen(nil)
				for i := 0; i < len(items); i += 100 {
					bench.write(sink, items[i:i+100]...)
					if i%2000 == 1900 {
						bench.commit(sink, int64(i+100))
					}
				}
				bench.close(sink)
			}
			b.ReportMetric(float64(len(items)*b.N)/b.Elapsed().Seconds(), "items/s")
			b.ReportMetric(float64(size)/float64(len(items)), "bytes/item")
		})
	}
}

// flat is a box without heights.
func flat(box []float64) []float64 {
	if len(box) == 6 {
		return []float64{box[0], box[1], box[3], box[4]}
	}
	return box
}
