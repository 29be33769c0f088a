package ingest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/streamtest"
)

// tree writes what stac.output leaves with format json.
func tree(t testing.TB, dir string) {
	t.Helper()
	write(t, dir, "out/manifest.json", `{"total_items":3,"files":["l8/items/c.json","s2/items/a.json","s2/items/b.json"]}`)
	write(t, dir, "out/.stepwell/state.json", `{"written":3}`)
	for collection, ids := range map[string]string{"s2": "b a", "l8": "c"} {
		write(t, dir, "out/"+collection+"/collection.json", fmt.Sprintf(collectionDoc, collection, links("root", "./collection.json")))
		for id := range strings.FieldsSeq(ids) {
			write(t, dir, "out/"+collection+"/items/"+id+".json", point(id, collection))
		}
	}
}

// TestTree reads directories of collections, one collection after the other.
func TestTree(t *testing.T) {
	r := streamtest.New(t)
	dir := r.Env.Dir
	tree(t, dir)
	write(t, dir, "flat/s2/collection.json", fmt.Sprintf(collectionDoc, "s2", ""))
	write(t, dir, "flat/s2/a.json", point("a", "s2"))
	write(t, dir, "flat/none/collection.json", fmt.Sprintf(collectionDoc, "none", ""))
	write(t, dir, "flat/other/x.json", point("x", "other"))
	write(t, dir, "ids/manifest.json", `{}`)
	write(t, dir, "ids/a/a.json", point("a", "s2"))
	write(t, dir, "own/a.json", point("a", "s2"))
	write(t, dir, "own/manifest.json", `{}`)
	write(t, dir, "own/s2/collection.json", fmt.Sprintf(collectionDoc, "s2", ""))
	write(t, dir, "own/s2/items/b.json", point("b", "s2"))
	write(t, dir, "linked/s2/collection.json", fmt.Sprintf(collectionDoc, "s2", links("item", "../../own/a.json")))
	write(t, dir, "written/manifest.json", `{"total_items":0}`)
	for name, tt := range map[string]struct {
		config     map[string]any
		want, text string
	}{
		"all":              {map[string]any{"source_file": "out"}, "c a b", ""},
		"items_directory":  {map[string]any{"source": "out", "source_type": "items_directory"}, "c a b", ""},
		"one":              {map[string]any{"source_file": "out", "collection_id": "s2"}, "a b", ""},
		"several":          {map[string]any{"source_file": "out", "collection_ids": []any{"s2", "l8"}}, "c a b", ""},
		"not there":        {map[string]any{"source_file": "out", "collection_id": "s3"}, "", "collection s3 is not in"},
		"flat":             {map[string]any{"source_file": "flat"}, "a", ""},
		"an empty one":     {map[string]any{"source_file": "flat", "collection_id": "none"}, "", "its collections are empty"},
		"allowed":          {map[string]any{"source_file": "flat", "collection_id": "none", "allow_empty": true}, "", ""},
		"by id":            {map[string]any{"source_file": "ids"}, "a", ""},
		"items of its own": {map[string]any{"source_file": "own"}, "a", ""},
		"linked":           {map[string]any{"source_file": "linked"}, "", "behind links"},
		"only a manifest":  {map[string]any{"source_file": "written"}, "", "holds no files of items"},
	} {
		t.Run(name, func(t *testing.T) {
			got, _, _, err := read(t, r, module(t, "stac.ingest"), tt.config)
			if ids := strings.Join(idsOf(t, got), " "); ids != tt.want || (err == nil) != (tt.text == "") || err != nil && !strings.Contains(err.Error(), tt.text) {
				t.Errorf("%q, want %q; %v, want %q", ids, tt.want, err, tt.text)
			}
		})
	}
	if len(r.Failures()) > 0 {
		t.Error(r.Failures())
	}
	if lines := r.Lines(); len(lines) != 2 || !strings.Contains(lines[0], "first=other") {
		t.Errorf("what was left out is not told: %q", lines)
	}
}

// TestNoFeatures has what is no Feature in a directory fail, with its path.
func TestNoFeatures(t *testing.T) {
	r := streamtest.New(t)
	dir := r.Env.Dir
	write(t, dir, "in/1.json", `{"total_items":3}`)
	write(t, dir, "in/2.json", point("a", "x"))
	write(t, dir, "in/3.json", fmt.Sprintf(collectionDoc, "c", ""))
	write(t, dir, "in/4.json", `{"id":"last","properties":{"type":"Feature"},"type":"Feature"}`)
	write(t, dir, "in/5.json", `{"type":"FeatureCollection","features":[`+point("b", "x")+`]}`)
	write(t, dir, "in/manifest.json", `{"total_items":3}`)
	write(t, dir, "with/collection.json", fmt.Sprintf(collectionDoc, "x", ""))
	write(t, dir, "with/items/a.json", point("a", "x"))
	write(t, dir, "with/items/b.json", `{"id":"b","properties":{"type":"Feature"}}`)
	for source, want := range map[string]struct{ ids, failed string }{"in": {"a last b", "1.json 3.json"}, "with": {"a", "b.json"}} {
		before := len(r.Failures())
		got, _, _, err := read(t, r, module(t, "stac.ingest"), map[string]any{"source": source})
		if ids := strings.Join(idsOf(t, got), " "); err != nil || ids != want.ids {
			t.Errorf("%s: %q, want %q, %v", source, ids, want.ids, err)
		}
		var failed []string
		for _, f := range r.Failures()[before:] {
			failed = append(failed, filepath.Base(f.Context.File))
		}
		if strings.Join(failed, " ") != want.failed {
			t.Errorf("%s: failures %q, want %q", source, failed, want.failed)
		}
	}
}

// TestEmptyBehindDiscovery warns of a collection without items; named directly, that is an error.
func TestEmptyBehindDiscovery(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"no links":    {"e/collection.json": fmt.Sprintf(collectionDoc, "e", "")},
		"no files":    {"e/collection.json": fmt.Sprintf(collectionDoc, "e", ""), "e/items/readme.txt": "nothing yet"},
		"no features": {"e/collection.json": strings.TrimSuffix(fmt.Sprintf(collectionDoc, "e", ""), "}") + `,"features":[]}`},
	} {
		t.Run(name, func(t *testing.T) {
			r := streamtest.New(t)
			for path, text := range files {
				write(t, r.Env.Dir, path, text)
			}
			at := filepath.Join(r.Env.Dir, "e/collection.json")
			if _, _, _, err := read(t, r, module(t, "stac.ingest"), map[string]any{"source": at}); err == nil || len(r.Lines()) > 0 {
				t.Errorf("named directly: %v, %q", err, r.Lines())
			}
			if _, _, _, err := read(t, r, module(t, "stac.ingest"), map[string]any{"source": at, "allow_empty": true}); err != nil {
				t.Errorf("allowed: %v", err)
			}
			r.Env.Collection = map[string]any{"id": "e", "href": at, "static": true}
			got, _, _, err := read(t, r, module(t, "stac.ingest"), map[string]any{})
			if lines := r.Lines(); err != nil || len(got) > 0 || len(lines) != 1 || !strings.Contains(lines[0], "WARN the collection holds no items") {
				t.Errorf("%q, %v, %q", got, err, lines)
			}
		})
	}
	r := streamtest.New(t)
	write(t, r.Env.Dir, "e/collection.json", fmt.Sprintf(collectionDoc, "e", ""))
	write(t, r.Env.Dir, "e/items/a.json", "{broken")
	r.Env.Collection = map[string]any{"id": "e", "href": filepath.Join(r.Env.Dir, "e/collection.json"), "static": true}
	if _, _, _, err := read(t, r, module(t, "stac.ingest"), map[string]any{}); typeOf(err) != stream.ModuleException {
		t.Errorf("what cannot be read is not empty: %v", err)
	}
}

// TestCatalogURL reads a static catalog, here or on the web, when no mode is given.
func TestCatalogURL(t *testing.T) {
	r := streamtest.New(t)
	catalog(t, r.Env.Dir)
	h := httptest.NewServer(http.FileServer(http.Dir(r.Env.Dir)))
	t.Cleanup(h.Close)
	for _, at := range []string{"cat/catalog.json", "cat", filepath.Join(r.Env.Dir, "cat/catalog.json"), h.URL + "/cat/catalog.json"} {
		got, _, _, err := read(t, r, module(t, "stac.ingest"), quick(map[string]any{"catalog_url": at, "collection_id": "a"}))
		if ids := strings.Join(idsOf(t, got), " "); err != nil || ids != "a1 a2" {
			t.Errorf("%s: %q, %v", at, ids, err)
		}
	}
	_, _, _, err := read(t, r, module(t, "stac.ingest"), map[string]any{"catalog_url": "cat/catalog.json", "mode": "api"})
	if err == nil || !strings.Contains(err.Error(), "not a URL") {
		t.Error(err)
	}
}
