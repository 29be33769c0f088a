package output

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stream"
)

func TestJSON(t *testing.T) {
	b := newBench(t, map[string]any{"format": "json", "base_dir": "out", "collection_id": "default"})
	nameless := stacItem("x", "loose", 5)
	nameless.Delete("collection")
	sink := b.mustOpen(nil)
	b.write(sink, append(stacItems("s2", 0, 3), stacItem("l8", "item-00000", 100), nameless)...)
	b.commit(sink, 5)
	_, out := b.close(sink)
	want := []string{"default/collection.json", "default/items/loose.json", "l8/collection.json", "l8/items/item-00000.json", "manifest.json",
		"s2/collection.json", "s2/items/item-00000.json", "s2/items/item-00001.json", "s2/items/item-00002.json"}
	if got := b.files("out"); !slices.Equal(got, want) {
		t.Errorf("files %q", got)
	}
	const links = `[{"rel":"root","href":"../collection.json","type":"application/json"},{"rel":"parent","href":"../collection.json","type":"application/json"},` +
		`{"rel":"collection","href":"../collection.json","type":"application/json"},{"rel":"license","href":"https://api.example/collections/c/license"}]`
	it := b.doc("out/s2/items/item-00001.json")
	if got := string(it.Get("links").Bytes()); got != links {
		t.Errorf("links %s", got)
	}
	if got := string(it.Get("properties").Get("big").Bytes()); got != "1234567890123.10" {
		t.Errorf("a number became %s", got)
	}
	c := b.doc("out/s2/collection.json")
	if got := string(c.Get("extent").Bytes()); got != `{"spatial":{"bbox":[[0,0,3,3]]},"temporal":{"interval":[["2024-01-01T00:00:00Z","2024-01-03T00:00:00Z"]]}}` {
		t.Errorf("extent %s", got)
	}
	if v, _ := c.Get("stac_version").Str(); v != "1.0.0" {
		t.Errorf("stac_version %s", v)
	}
	m := b.doc("out/manifest.json")
	if string(m.Get("total_items").Bytes()) != "5" || m.Get("files").Len() != 5 || out["items_written"] != int64(5) {
		t.Errorf("manifest %s, outputs %v", m.Bytes(), out)
	}
	if got := out["files_written"].([]string); len(got) != 5 || !slices.Contains(got, b.path("out/s2/items/item-00000.json")) {
		t.Errorf("files_written %q", got)
	}
}

// TestJSONNothing writes no document for a collection that no item came of.
func TestJSONNothing(t *testing.T) {
	b := newBench(t, map[string]any{"format": "json", "base_dir": "out", "collection_id": "default"})
	b.run(nil, stacItem("s2", "a", 1))
	if got := b.files("out"); !slices.Equal(got, []string{"manifest.json", "s2/collection.json", "s2/items/a.json"}) {
		t.Errorf("files %q", got)
	}
}

func TestJSONKeepsCollection(t *testing.T) {
	b := newBench(t, map[string]any{"format": "json", "base_dir": "out"})
	const mine = `{"type":"Collection","stac_version":"1.0.0","id":"s2","title":"Mine","description":"Mine too","license":"CC0-1.0","summaries":{"platform":["p0","p1"]},"extent":{"spatial":{"bbox":[[1,1,2.50,2],[5,5,6,6]]},"temporal":{"interval":[["2024-01-02T00:00:00.000Z",null]]}},"links":[{"rel":"items","href":"x"}]}`
	if err := os.MkdirAll(b.path("out/s2"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(b.path("out/s2/collection.json"), []byte(mine), 0o644); err != nil {
		t.Fatal(err)
	}
	b.run(nil, stacItem("s2", "a", 1))
	if got := string(b.doc("out/s2/collection.json").Bytes()); got != mine {
		t.Errorf("changed without need: %s", got)
	}
	b.run(nil, stacItem("s2", "b", 0))
	want := strings.NewReplacer("[1,1,2.50,2]", "[0,0,2.5,2]", "2024-01-02T00:00:00.000Z", "2024-01-01T00:00:00Z").Replace(mine)
	if got := string(b.doc("out/s2/collection.json").Bytes()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestJSONLayouts(t *testing.T) {
	for organize, want := range map[string][]string{
		"item_id":    {"a/a.json", "b/b.json", "collections/c.json", "manifest.json"},
		"flat":       {"a.json", "b.json", "collections/c.json", "manifest.json"},
		"collection": {"c/collection.json", "c/items/a.json", "c/items/b.json", "manifest.json"},
		"":           {"a/a.json", "b/b.json", "collections/c.json", "manifest.json"},
	} {
		config := map[string]any{"format": "json", "output_path": "out", "base_url": "https://h.example/x/"}
		if organize != "" {
			config["organize_by"] = organize
		}
		b := newBench(t, config)
		b.run(nil, stacItem("c", "a", 1), stacItem("c", "b", 2))
		if got := b.files("out"); !slices.Equal(got, want) {
			t.Errorf("%q: %q", organize, got)
		}
		it := b.doc("out/" + want[slices.IndexFunc(want, func(n string) bool { return strings.HasSuffix(n, "a.json") })])
		found := false
		for _, l := range it.Get("links").Elements() {
			rel, _ := l.Get("rel").Str()
			href, _ := l.Get("href").Str()
			found = found || rel == "self" && strings.HasPrefix(href, "https://h.example/x/") && strings.HasSuffix(href, "a.json")
		}
		if !found {
			t.Errorf("%q: no self link in %s", organize, it.Get("links").Bytes())
		}
	}
}

func TestDuplicates(t *testing.T) {
	for _, format := range []string{"json", "catalog", "ndjson", "parquet"} {
		b := newBench(t, map[string]any{"format": format, "base_dir": "out"})
		state, out := b.run(nil, stacItem("c", "a", 1), stacItem("c", "a", 1), stacItem("c", "a", 2), stacItem("d", "a", 1))
		if out["items_written"] != int64(2) || out["items_repeated"] != int64(1) || out["items_refused"] != int64(1) {
			t.Errorf("%s: %v", format, out)
		}
		if f := b.rig.Failures(); len(f) != 1 || f[0].Item != "a" || !strings.Contains(f[0].Err.Error(), "another item a of collection c") {
			t.Errorf("%s: failures %v", format, f)
		}
		// in a later run, the last word counts
		_, out = b.run(state, stacItem("c", "a", 1), stacItem("c", "a", 7), stacItem("c", "b", 8))
		m := out["manifest"].(manifest)
		if out["items_written"] != int64(2) || m.TotalItems != 3 {
			t.Errorf("%s: later %v", format, out)
		}
	}
}

// awkward are ids that have broken file systems.
var awkward = []string{"a/b", "..", "../../up", ".", ".dot", "dot.", "CON", "con", "NUL.txt", "Case", "case", "CASE", "снимок", "e\u0301", "\u00e9",
	strings.Repeat("long", 75), strings.Repeat("long", 75) + "er", strings.Repeat("Long", 75), "a b", "100%", "%2F", "a%2Fb", "a~b", "collection", "catalog",
	"items", "x\ny", "q?x=1#f", "c:d", "大", "-", "\"quoted\"", "manifest", "part-00002", "*"}

func TestAwkwardIDs(t *testing.T) {
	for _, format := range []string{"json", "catalog"} {
		b := newBench(t, map[string]any{"format": format, "base_dir": "out"})
		var items []*stream.Item
		for i, id := range awkward {
			items = append(items, stacItem("c/.. d", id, i))
		}
		_, out := b.run(nil, items...)
		if out["items_written"] != int64(len(awkward)) {
			t.Fatalf("%s: %v %v", format, out, b.rig.Failures())
		}
		found, folded := map[string]bool{}, map[string]bool{}
		for _, name := range b.files("out") {
			if folded[fold(name)] {
				t.Errorf("%s: two files are called %s", format, name)
			}
			folded[fold(name)] = true
			if doc := b.doc("out/" + name); doc.Get("geometry") != nil {
				id, _ := doc.Get("id").Str()
				found[id] = true
			}
		}
		if len(found) != len(awkward) {
			t.Errorf("%s: %d of %d ids are there", format, len(found), len(awkward))
		}
		if entries, err := os.ReadDir(b.rig.Env.Dir); err != nil || len(entries) != 1 {
			t.Errorf("%s: something is outside of out: %v %v", format, entries, err)
		}
		if format == "catalog" {
			if got := b.crawl("out", "catalog.json"); len(got) != len(awkward) {
				t.Errorf("the crawl finds %d of %d items", len(got), len(awkward))
			}
		}
	}
}

// TestCatalog is P15 on data of our own: every link resolves, none is absolute, extents are unions.
func TestCatalog(t *testing.T) {
	b := newBench(t, map[string]any{"format": "catalog", "base_dir": "out", "max_links": 10, "title": "All", "catalog_id": "root"})
	state, out := b.run(nil, append(stacItems("s2", 0, 35), stacItems("l8", 0, 10)...)...)
	items := b.crawl("out", "catalog.json")
	if len(items) != 45 || out["items_written"] != int64(45) {
		t.Fatalf("%d items, %v", len(items), out)
	}
	if got := b.doc("out/s2/collection.json").Get("extent").Get("spatial").Bytes(); string(got) != `{"bbox":[[0,0,35,35]]}` {
		t.Errorf("extent %s", got)
	}
	for _, name := range b.files("out") {
		if n := strings.Count(string(b.doc("out/"+name).Bytes()), `"rel":"item"`); n > 10 {
			t.Errorf("%s has %d item links", name, n)
		}
		if strings.Contains(string(b.doc("out/"+name).Get("links").Bytes()), b.rig.Env.Dir) {
			t.Errorf("%s has an absolute path", name)
		}
	}
	// a later run goes on, replaces an item and keeps what others have put there
	if err := os.MkdirAll(b.path("out/other"), 0o755); err != nil {
		t.Fatal(err)
	}
	root := b.doc("out/catalog.json")
	foreign, err := item.Parse([]byte(`{"rel":"child","href":"./other/collection.json"}`))
	if err != nil {
		t.Fatal(err)
	}
	root.Get("links").Append(foreign)
	for name, text := range map[string]string{"out/catalog.json": string(root.Bytes()), "out/other/collection.json": `{"type":"Collection","id":"other","links":[{"rel":"root","href":"../catalog.json"}]}`} {
		if err := os.WriteFile(b.path(name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b.run(state, append(stacItems("s2", 35, 40), stacItem("s2", "item-00003", 99))...)
	items = b.crawl("out", "catalog.json")
	if len(items) != 50 {
		t.Errorf("%d items", len(items))
	}
	threes := 0
	for _, name := range b.files("out/s2") {
		if strings.HasSuffix(name, "item-00003.json") {
			threes++
			if n := string(b.doc("out/s2/" + name).Get("properties").Get("n").Bytes()); n != "99" {
				t.Errorf("%s was not replaced: %s", name, n)
			}
		}
	}
	if threes != 1 {
		t.Errorf("item-00003 is there %d times", threes)
	}
	if !strings.Contains(string(b.doc("out/catalog.json").Bytes()), "other/collection.json") {
		t.Error("the other child is gone")
	}
}

func TestCatalogSplit(t *testing.T) {
	b := newBench(t, map[string]any{"format": "catalog", "base_dir": "out", "split": "{properties.datetime:year}/{properties.datetime:day}/{properties.platform}"})
	bad := stacItem("c", "timeless", 1)
	bad.Get("properties").Delete("datetime")
	b.run(nil, append(stacItems("c", 0, 20), bad)...)
	items := b.crawl("out", "catalog.json")
	if len(items) != 20 || items["c/2024/02/p1/item-00001.json"] == nil {
		t.Errorf("%d items", len(items))
	}
	if f := b.rig.Failures(); len(f) != 1 || !strings.Contains(f[0].Err.Error(), "no properties.datetime") {
		t.Errorf("failures %v", f)
	}
}

func TestCatalogURLs(t *testing.T) {
	for layout, want := range map[string][2]string{
		"relative-published": {`{"rel":"self","href":"https://h.example/cat/catalog.json"`, `"href":"../catalog.json"`},
		"absolute":           {`{"rel":"self","href":"https://h.example/cat/catalog.json"`, `"href":"https://h.example/cat/catalog.json"`},
	} {
		b := newBench(t, map[string]any{"format": "catalog", "base_dir": "out", "base_url": "https://h.example/cat", "layout": layout})
		b.run(nil, stacItem("c", "a", 1))
		root, it := string(b.doc("out/catalog.json").Bytes()), string(b.doc("out/c/a.json").Bytes())
		if !strings.Contains(root, want[0]) || !strings.Contains(it, want[1]) || strings.Contains(it, `"self"`) != (layout == "absolute") {
			t.Errorf("%s:\n%s\n%s", layout, root, it)
		}
	}
}

func TestRelativeAssets(t *testing.T) {
	b := newBench(t, map[string]any{"format": "json", "base_dir": "out"})
	local, web, unknown := stacItem("c", "local", 1), stacItem("c", "web", 2), stacItem("c", "unknown", 3)
	for _, it := range []*stream.Item{local, web, unknown} {
		it.Get("assets").Get("data").Set("href", item.OfText("./img/b 1.tif"))
		it.Get("assets").Get("data").Set("alternate", item.NewObject())
		it.Delete("links")
	}
	local.Place.File = "in/items.json"
	web.Place.URL = "https://h.example/stac/item.json"
	b.run(nil, local, web, unknown)
	for id, want := range map[string]string{"local": "../../../in/img/b 1.tif", "web": "https://h.example/stac/img/b%201.tif", "unknown": "./img/b 1.tif"} {
		if got, _ := b.doc("out/c/items/" + id + ".json").Get("assets").Get("data").Get("href").Str(); got != want {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
	}
}

func TestDiscoveredCollection(t *testing.T) {
	b := newBench(t, map[string]any{"format": "catalog", "base_dir": "out"})
	b.rig.Env.Collection = map[string]any{"id": "c", "catalog_url": "https://api.example/?key=secret", "href": "https://api.example/collections/c"}
	known, err := item.Of(map[string]any{"type": "Collection", "id": "c", "stac_version": "1.0.0", "title": "The C", "license": "CC0-1.0",
		"extent":      map[string]any{"spatial": map[string]any{"bbox": []any{[]any{10.0, 10.0, 20.0, 20.0}}}, "temporal": map[string]any{"interval": []any{[]any{nil, nil}}}},
		"links":       []any{map[string]any{"rel": "self", "href": "https://api.example/collections/c"}, map[string]any{"rel": "items", "href": "https://api.example/collections/c/items"}, map[string]any{"rel": "license", "href": "lic"}},
		"description": "All C.", "summaries": map[string]any{"platform": []any{"p9"}, "n": map[string]any{"minimum": 3, "maximum": 5}, "gsd": []any{10}},
		"item_assets": map[string]any{"data": map[string]any{"title": "Data", "type": "image/tiff"}}})
	if err != nil {
		t.Fatal(err)
	}
	sink := b.mustOpen(nil)
	sink.(stream.CollectionSink).TakeCollection(stream.New(known, stream.Place{}))
	b.write(sink, stacItem("c", "a", 1))
	_, out := b.close(sink)
	c := string(b.doc("out/c/collection.json").Bytes())
	for _, want := range []string{`"title":"The C"`, `"CC0-1.0"`, `[[1,1,20,20]]`, `https://api.example/collections/lic`, `"platform":["p9","p1"]`, `"n":{"maximum":5,"minimum":1}`, `"gsd":[10]`, `"title":"Data"`} {
		if !strings.Contains(c, want) {
			t.Errorf("no %s in %s", want, c)
		}
	}
	if strings.Contains(c, "secret") || strings.Contains(c, `"items"`) || out["manifest_path"] != b.path("out/c/manifest.json") {
		t.Errorf("%s\n%v", c, out)
	}
	b.crawl("out", "catalog.json")
}

func TestManifestGroups(t *testing.T) {
	l := &list{}
	for i := range maxListed + 5 {
		l.add(listed{Path: fmt.Sprintf("c%d/items/%d.json", i%3, i), Items: 1, Bytes: 2})
	}
	m := l.end()
	if len(m.Files) != 3 || !m.Grouped || m.TotalFiles != maxListed+5 || m.Files[0].Path != "c0/items/" || m.Files[0].Files != (maxListed+5+2)/3 {
		t.Errorf("%+v", m)
	}
	wide := &list{}
	for i := range maxListed + 5 {
		wide.add(listed{Path: fmt.Sprintf("d%d/%d.json", i, i), Items: 1, Bytes: 2})
	}
	if m := wide.end(); len(m.Files) != 1 || m.Files[0].Items != maxListed+5 {
		t.Errorf("%d entries", len(m.Files))
	}
}
