package ingest

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/stac/stactest"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/streamtest"
)

const collectionDoc = `{"type":"Collection","stac_version":"1.0.0","id":%q,"description":"d","license":"other","extent":{"spatial":{"bbox":[[-180,-90,180,90]]},"temporal":{"interval":[[null,null]]}},"links":[%s]}`

func point(id, collection string) string {
	return fmt.Sprintf(`{"type":"Feature","stac_version":"1.0.0","id":%q,"collection":%q,"geometry":null,"properties":{"datetime":"2020-01-01T00:00:00Z"},"links":[],"assets":{}}`, id, collection)
}

func links(rel string, hrefs ...string) string {
	var out []string
	for _, h := range hrefs {
		out = append(out, fmt.Sprintf(`{"rel":%q,"href":%q}`, rel, h))
	}
	return strings.Join(out, ",")
}

// catalog writes a catalog of two collections, with a link back and one into nowhere.
func catalog(t testing.TB, dir string) {
	t.Helper()
	write(t, dir, "cat/catalog.json", `{"type":"Catalog","id":"root","description":"d","stac_version":"1.0.0","links":[`+
		links("child", "./a/collection.json", "./sub/catalog.json", "./gone/collection.json")+`]}`)
	write(t, dir, "cat/a/collection.json", fmt.Sprintf(collectionDoc, "a", links("item", "./a1/a1.json", "a2.json")+","+links("child", "../catalog.json")))
	write(t, dir, "cat/a/a1/a1.json", point("a1", "a"))
	write(t, dir, "cat/a/a2.json", point("a2", "a"))
	write(t, dir, "cat/sub/catalog.json", `{"id":"sub","description":"d","links":[`+links("child", "b/collection.json")+`]}`) // no type, as before 1.0
	write(t, dir, "cat/sub/b/collection.json", fmt.Sprintf(collectionDoc, "b", links("item", "b1.json")))
	write(t, dir, "cat/sub/b/b1.json", point("b1", "b"))
}

// TestFiles reads every form that a source in file mode can have.
func TestFiles(t *testing.T) {
	r := streamtest.New(t)
	dir := r.Env.Dir
	a, b, c := point("a", "x"), point("b", "x"), point("c", "x")
	write(t, dir, "array.json", "["+a+","+b+","+c+"]")
	write(t, dir, "features.json", `{"links":[],"type":"FeatureCollection","features":[`+a+","+b+`]}`)
	write(t, dir, "single.json", a)
	write(t, dir, "lines.ndjson", a+"\n"+b+"\n\n"+c+"\n")
	write(t, dir, "lines.json", a+"\n"+b+"\n")
	write(t, dir, "keyed.json", `{"k1":{"type":"Feature"},"k2":{"type":"Feature"}}`)
	write(t, dir, "many/2.json", b)
	write(t, dir, "many/1.json", a)
	write(t, dir, "many/notes.txt", "no item")
	write(t, dir, "with/collection.json", fmt.Sprintf(collectionDoc, "x", ""))
	write(t, dir, "with/items/b.json", b)
	write(t, dir, "with/items/a.json", a)
	write(t, dir, "nested/collection.json", fmt.Sprintf(collectionDoc, "x", ""))
	write(t, dir, "nested/items/a/a.json", a)
	write(t, dir, "inline/collection.json", strings.TrimSuffix(fmt.Sprintf(collectionDoc, "x", ""), "}")+`,"features":[`+a+","+c+`]}`)
	catalog(t, dir)
	f, err := os.Create(filepath.Join(dir, "packed.ndjson.gz"))
	if err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(f)
	fmt.Fprintln(z, a+"\n"+b)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	f.Close()
	for name, tt := range map[string]struct {
		config map[string]any
		want   string
	}{
		"array":               {map[string]any{"source": "array.json"}, "a b c"},
		"array, format json":  {map[string]any{"source": "array.json", "format": "json", "mode": "file", "collection_id": "x"}, "a b c"},
		"FeatureCollection":   {map[string]any{"source_file": "features.json"}, "a b"},
		"single":              {map[string]any{"source": "single.json"}, "a"},
		"lines":               {map[string]any{"source": "lines.ndjson"}, "a b c"},
		"lines called json":   {map[string]any{"source": "lines.json", "format": "json"}, "a b"},
		"gzip":                {map[string]any{"source": "packed.ndjson.gz"}, "a b"},
		"keyed":               {map[string]any{"source": "keyed.json"}, "k1 k2"},
		"glob":                {map[string]any{"source": "l*.*json"}, "a b a b c"},
		"directory":           {map[string]any{"source": "many"}, "a b"},
		"items_directory":     {map[string]any{"source": "many", "source_type": "items_directory"}, "a b"},
		"collection and dir":  {map[string]any{"source": "with"}, "a b"},
		"collection.json":     {map[string]any{"source": "with/collection.json", "source_type": "collection"}, "a b"},
		"items of their own":  {map[string]any{"source": "nested"}, "a"},
		"inline":              {map[string]any{"source": "inline/collection.json"}, "a c"},
		"catalog":             {map[string]any{"source": "cat"}, "a1 a2 b1"},
		"catalog.json":        {map[string]any{"source": "cat/catalog.json", "source_type": "catalog"}, "a1 a2 b1"},
		"one of a catalog":    {map[string]any{"source": "cat", "collection_id": "b"}, "b1"},
		"max_items":           {map[string]any{"source": "array.json", "max_items": 2}, "a b"},
		"ids":                 {map[string]any{"source": "array.json", "ids": []any{"c", "a"}}, "a c"},
		"limit bounds not":    {map[string]any{"source": "array.json", "limit": 1}, "a b c"},
		"datetime":            {map[string]any{"source": "array.json", "datetime": "2020"}, "a b c"},
		"another datetime":    {map[string]any{"source": "array.json", "datetime": "2021"}, ""},
		"bbox, no geometry":   {map[string]any{"source": "array.json", "bbox": []any{-180, -90, 180, 90}}, ""},
		"source_file wins":    {map[string]any{"source_file": "single.json", "catalog_url": "https://example.com"}, "a"},
		"max_items, catalog":  {map[string]any{"source": "cat", "max_items": 1}, "a1"},
		"ids of a collection": {map[string]any{"source": "with", "ids": []any{"b"}}, "b"},
	} {
		t.Run(name, func(t *testing.T) {
			got, _, _, err := read(t, r, module(t, "stac.ingest"), tt.config)
			if ids := strings.Join(idsOf(t, got), " "); err != nil || ids != tt.want {
				t.Errorf("%q, want %q, %v", ids, tt.want, err)
			}
		})
	}
}

// TestFilled gives items a collection that have none.
func TestFilled(t *testing.T) {
	r := streamtest.New(t)
	write(t, r.Env.Dir, "x.ndjson", `{"id":"a"}`+"\n"+`{"id":"b","collection":"own"}`+"\n")
	got, _, _, err := read(t, r, module(t, "stac.ingest"), map[string]any{"source": "x.ndjson", "collection_id": "given"})
	if err != nil || strings.Join(got, " ") != `{"id":"a","collection":"given"} {"id":"b","collection":"own"}` {
		t.Error(got, err)
	}
}

// TestBadFiles has what is no good told, and the rest read.
func TestBadFiles(t *testing.T) {
	r := streamtest.New(t)
	dir := r.Env.Dir
	write(t, dir, "empty.json", "")
	write(t, dir, "none.json", `{"type":"FeatureCollection","features":[]}`)
	write(t, dir, "mixed/1.json", "{broken")
	write(t, dir, "mixed/2.json", point("a", "x"))
	write(t, dir, "broken/1.json", "{broken")
	write(t, dir, "rows.ndjson", point("a", "x")+"\n42\n"+point("b", "x")+"\n")
	write(t, dir, "bare/collection.json", fmt.Sprintf(collectionDoc, "x", ""))
	if err := os.Mkdir(filepath.Join(dir, "void"), 0o755); err != nil {
		t.Fatal(err)
	}
	m := module(t, "stac.ingest")
	for name, tt := range map[string]struct {
		config   map[string]any
		ids      string
		failures int
		kind     string
		text     string
	}{
		"missing":         {config: map[string]any{"source": "nowhere/items.json"}, kind: stream.ConfigurationError, text: filepath.Join(dir, "nowhere/items.json")},
		"missing, hint":   {config: map[string]any{"source": "nowhere/items.json"}, kind: stream.ConfigurationError, text: "nowhere/items.json does not exist"},
		"glob of nothing": {config: map[string]any{"source": "*.nope"}, kind: stream.ConfigurationError, text: "no file matches"},
		"empty":           {config: map[string]any{"source": "empty.json"}, failures: 1, kind: stream.ModuleException, text: "empty"},
		"no features":     {config: map[string]any{"source": "none.json"}, kind: stream.ModuleException, text: "holds no items"},
		"allowed":         {config: map[string]any{"source": "none.json", "allow_empty": true}},
		"mixed":           {config: map[string]any{"source": "mixed"}, ids: "a", failures: 1},
		"all broken":      {config: map[string]any{"source": "broken"}, failures: 1, kind: stream.ModuleException, text: "nothing could be read"},
		"rows":            {config: map[string]any{"source": "rows.ndjson"}, ids: "a b", failures: 1},
		"bare collection": {config: map[string]any{"source": "bare/collection.json"}, kind: stream.ConfigurationError, text: "has no items"},
		"void":            {config: map[string]any{"source": "void"}, kind: stream.ConfigurationError, text: "holds no files of items"},
		"not a file":      {config: map[string]any{"source": "mixed", "source_type": "file"}, kind: stream.ConfigurationError, text: "it is a directory"},
		"not a directory": {config: map[string]any{"source": "rows.ndjson", "source_type": "items_directory"}, kind: stream.ConfigurationError, text: "it is a file"},
		"no collection":   {config: map[string]any{"source": "mixed", "source_type": "collection"}, kind: stream.ConfigurationError, text: "no collection.json"},
		"not a catalog":   {config: map[string]any{"source": "rows.ndjson", "source_type": "catalog"}, kind: stream.ConfigurationError, text: "neither a catalog nor a collection"},
		"no such id":      {config: map[string]any{"source": "mixed", "collection_id": "x"}, ids: "a", failures: 1},
	} {
		t.Run(name, func(t *testing.T) {
			before := len(r.Failures())
			got, _, _, err := read(t, r, m, tt.config)
			if ids := strings.Join(idsOf(t, got), " "); ids != tt.ids || len(r.Failures())-before != tt.failures {
				t.Errorf("%q, want %q; failures %v", ids, tt.ids, r.Failures()[before:])
			}
			if typeOf(err) != tt.kind || err != nil && !strings.Contains(err.Error(), tt.text) {
				t.Errorf("%v, want %s: %s", err, tt.kind, tt.text)
			}
		})
	}
	for _, f := range r.Failures() {
		if f.Context.File == "" {
			t.Errorf("a failure without a file: %+v", f)
		}
	}
}

// TestFileResume goes on at every cursor.
func TestFileResume(t *testing.T) {
	r := streamtest.New(t)
	for i := range 3 {
		var b strings.Builder
		for _, text := range stactest.Generate(fmt.Sprint("c", i), 300) {
			b.Write(append(text, '\n'))
		}
		write(t, r.Env.Dir, fmt.Sprintf("in/%d.ndjson", i), b.String())
	}
	m := module(t, "stac.ingest")
	config := map[string]any{"source": "in/*.ndjson"}
	all, cursors, _, err := read(t, r, m, config)
	if err != nil || len(all) != 900 || len(cursors) < 9 {
		t.Fatal(len(all), len(cursors), err)
	}
	for i, raw := range cursors {
		var c fileCursor
		if err := json.Unmarshal(raw, &c); err != nil {
			t.Fatal(err)
		}
		r.Env.Cursor = raw
		rest, _, _, err := read(t, r, m, config)
		if err != nil || !slices.Equal(rest, all[c.Items:]) {
			t.Errorf("cursor %d: %d items of %d, %v", i, len(rest), 900-c.Items, err)
		}
	}
	r.Env.Cursor = cursors[5]
	if err := os.Remove(filepath.Join(r.Env.Dir, "in/0.ndjson")); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := read(t, r, m, config); err == nil || !strings.Contains(err.Error(), "not those") {
		t.Errorf("a file is gone: %v", err)
	}
}

// TestWebCatalog walks a catalog over HTTP, with a server that fails now and then.
func TestWebCatalog(t *testing.T) {
	dir := t.TempDir()
	catalog(t, dir)
	n := 0
	files := http.FileServer(http.Dir(dir))
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n++; n%3 == 0 {
			http.Error(w, "busy", http.StatusServiceUnavailable)
			return
		}
		files.ServeHTTP(w, r)
	}))
	t.Cleanup(h.Close)
	r := streamtest.New(t)
	got, _, _, err := read(t, r, module(t, "stac.ingest"), quick(map[string]any{"source": h.URL + "/cat/catalog.json", "concurrency": 1}))
	if err != nil || strings.Join(idsOf(t, got), " ") != "a1 a2 b1" || len(r.Failures()) != 1 {
		t.Error(idsOf(t, got), r.Failures(), err)
	}
}

// TestRecordedFiles reads all recorded items, and the static catalogs.
func TestRecordedFiles(t *testing.T) {
	dir := shared(t, "items")
	r := streamtest.New(t)
	got, _, _, err := read(t, r, module(t, "stac.ingest"), map[string]any{"source": filepath.Join(dir, "*.ndjson")})
	if err != nil || len(got) != 1268 || len(r.Failures()) != 0 {
		t.Errorf("%d items, %v, %v", len(got), r.Failures(), err)
	}
	sample := shared(t, "stac-manager-samples/sentinel-2-l2a-api/sample-data")
	for _, name := range []string{"items.json", "items.parquet"} {
		r := streamtest.New(t)
		got, _, _, err = read(t, r, module(t, "stac.ingest"), map[string]any{"mode": "file", "source": filepath.Join(sample, name), "collection_id": "sentinel-2-l2a"})
		if err != nil || len(got) != 20 {
			t.Errorf("%s: %d items, %v, %v", name, len(got), r.Failures(), err)
		}
	}
	got, _, _, err = read(t, streamtest.New(t), module(t, "stac.ingest"), map[string]any{"source": filepath.Join(shared(t, "geoparquet"), "**/example.parquet")})
	if err != nil || len(got) == 0 || !strings.Contains(got[0], `"type":"Feature"`) {
		t.Errorf("GeoParquet without items: %d, %v", len(got), err)
	}
	for name, want := range map[string]int{"test-case-1": 8, "test-case-2": 2, "test-case-5": 1, "planet-example-v1.0.0-beta.2/collection.json": 5} {
		r := streamtest.New(t)
		got, _, _, err := read(t, r, module(t, "stac.ingest"), map[string]any{"source": filepath.Join(shared(t, "static-catalogs"), name)})
		if err != nil || len(got) != want {
			t.Errorf("%s: %d items, want %d; %v, %v", name, len(got), want, r.Failures(), err)
		}
	}
	for name, want := range map[string]int{"test-case-1": 4, "cbers-partial": 4, "test-case-5": 1, "planet-example-v1.0.0-beta.2": 1} {
		_, _, outputs, err := read(t, streamtest.New(t), module(t, "stac.discovery"), map[string]any{"catalog_url": filepath.Join(shared(t, "static-catalogs"), name)})
		if err != nil || outputs["count"] != want {
			t.Errorf("%s: %v collections, want %d, %v", name, outputs["count"], want, err)
		}
	}
}
