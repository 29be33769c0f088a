package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/stepwell/stepwell/stac/geoparquet/geoparquettest"
	"github.com/stepwell/stepwell/stac/schema/schematest"
)

// judge gathers what the runs leave; ajv and DuckDB look at all of it at once.
type judge struct {
	schemas string

	mu        sync.Mutex
	documents []judged
	parquet   []parquetFiles
}

type judged struct {
	where string
	body  map[string]any
}

type parquetFiles struct {
	where string
	cell  combination
	dir   string
	want  expected
}

// tree is what lies in the output of one stage: documents by their path, without manifests.
type tree map[string]map[string]any

func (a tree) same(b tree) bool { return a.difference(b) == "" }

func (a tree) difference(b tree) string { return cmp.Diff(a, b) }

// look reads the output of a stage, crawls its links and remembers the documents for the other judges.
func (j *judge) look(r *matrixRig, stage string, want expected) tree {
	r.t.Helper()
	where := r.cell.String() + " " + stage
	out := filepath.Join(r.dir, "out")
	t := tree{}
	found := map[string]int{}
	format, _, _ := strings.Cut(r.cell.target, " ")
	read := filepath.WalkDir
	if format == "api" {
		read = func(string, fs.WalkDirFunc) error { return r.served(t) }
	}
	err := read(out, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == ".stepwell" {
			return fs.SkipDir // what the next run needs to know
		}
		if err != nil || d.IsDir() {
			return err
		}
		name, _ := filepath.Rel(out, path) // below out
		raw, err := os.ReadFile(path)
		switch {
		case err != nil:
			return err
		case strings.Contains(string(raw), "hidden-key"):
			r.t.Errorf("%s: %s holds the key of the source", where, name)
		case strings.HasPrefix(filepath.Base(name), "."):
			r.t.Errorf("%s: %s was left behind", where, name)
		case strings.HasSuffix(name, "manifest.json"):
		case strings.HasSuffix(name, ".parquet"):
		case format == "ndjson" && !strings.HasSuffix(name, ".json"):
			return readLines(t, name, raw)
		default:
			var body map[string]any
			if err := json.Unmarshal(raw, &body); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			t[name] = body
		}
		return nil
	})
	if err != nil {
		r.t.Fatalf("%s: %v", where, err)
	}
	for _, name := range slices.Sorted(maps.Keys(t)) {
		body := t[name]
		if at := ours("", body); at != "" {
			r.t.Errorf("%s: %s has the internal member %s", where, name, at)
		}
		switch body["type"] {
		case "Feature":
			props, _ := body["properties"].(map[string]any)
			assets, _ := body["assets"].(map[string]any)
			key := fmt.Sprintf("%v/%v", body["collection"], body["id"])
			if _, twice := found[key]; twice {
				r.t.Errorf("%s: %s is there twice", where, key)
			}
			rev, _ := props["rev"].(float64)
			found[key] = int(rev)
			if bad := r.cell.wrong(props, assets); bad != "" {
				r.t.Errorf("%s: %s: %s", where, key, bad)
			}
		case "Collection":
			if r.cell.flow != "table" && (body["license"] != "CC0-1.0" || body["description"] != "Weekly flights." || body["providers"] == nil) {
				r.t.Errorf("%s: %s is not the source's collection: %v", where, name, body)
			}
		}
	}
	j.mu.Lock()
	for _, name := range slices.Sorted(maps.Keys(t)) {
		j.documents = append(j.documents, judged{where + " " + name, t[name]})
	}
	j.mu.Unlock()
	if format == "parquet" {
		j.keepParquet(r, where, out, want)
	} else if diff := cmp.Diff(map[string]int(want), found); diff != "" {
		r.t.Errorf("%s: items (-want +got):\n%s", where, diff)
	}
	crawl(r.t, where, format, t)
	return t
}

// served reads what the server holds that format api writes to.
func (r *matrixRig) served(t tree) error {
	for _, c := range matrixCollections {
		for _, id := range r.held.IDs(c) {
			text := r.held.Item(c, id)
			if strings.Contains(string(text), "hidden-key") {
				return fmt.Errorf("item %s holds the key of the source", id)
			}
			var body map[string]any
			if err := json.Unmarshal(text, &body); err != nil {
				return fmt.Errorf("item %s: %w", id, err)
			}
			if props, ok := body["properties"].(map[string]any); ok && r.cell.target == "api replace" {
				delete(props, "updated") // each run reads and stamps all items anew
			}
			t[c+"/"+id] = body
		}
	}
	return nil
}

func readLines(t tree, name string, raw []byte) error {
	var r io.Reader = strings.NewReader(string(raw))
	if strings.HasSuffix(name, ".zst") {
		d, err := zstd.NewReader(r)
		if err != nil {
			return err
		}
		defer d.Close()
		r = d
	}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		var body map[string]any
		if err := json.Unmarshal(lines.Bytes(), &body); err != nil {
			return fmt.Errorf("%s:%d: %w", name, n, err)
		}
		t[fmt.Sprintf("%s:%v/%v:%d", name, body["collection"], body["id"], n)] = body
	}
	return lines.Err()
}

// ours finds a member that only Stepwell itself uses.
func ours(at string, v any) string {
	switch v := v.(type) {
	case map[string]any:
		for name, inner := range v {
			if strings.HasPrefix(name, "_") || strings.HasPrefix(name, "stepwell:") || name == "catalog_url" {
				return at + "/" + name
			}
			if found := ours(at+"/"+name, inner); found != "" {
				return found
			}
		}
	case []any:
		for _, inner := range v {
			if found := ours(at, inner); found != "" {
				return found
			}
		}
	}
	return ""
}

// crawl follows the links of a tree: each leads to what it says, and a catalog reaches every object in it.
func crawl(t *testing.T, where, format string, all tree) {
	t.Helper()
	if format == "ndjson" || format == "parquet" || format == "api" {
		return
	}
	reached, dangling := map[string]bool{}, 0
	kinds := map[string]string{"item": "Feature", "collection": "Collection", "parent": "", "root": "", "child": ""}
	whole := false // there are collections, so that an item leads to one of them
	for _, body := range all {
		whole = whole || body["type"] == "Collection"
	}
	var visit func(name string)
	visit = func(name string) {
		if reached[name] {
			return
		}
		reached[name] = true
		links, _ := all[name]["links"].([]any)
		for _, l := range links {
			link, _ := l.(map[string]any)
			rel, _ := link["rel"].(string)
			href, _ := link["href"].(string)
			kind, structural := kinds[rel]
			if !structural {
				continue
			}
			u, err := url.Parse(href)
			if err == nil && u.IsAbs() && !whole && rel == "collection" {
				continue // that of the source
			}
			if err != nil || u.IsAbs() || filepath.IsAbs(u.Path) {
				if dangling++; dangling <= 3 {
					t.Errorf("%s: %s: the link %s is %q", where, name, rel, href)
				}
				continue
			}
			to := filepath.Join(filepath.Dir(name), filepath.FromSlash(u.Path))
			switch target, ok := all[to]; {
			case !ok:
				if dangling++; dangling <= 3 {
					t.Errorf("%s: %s: the link %s leads nowhere: %q", where, name, rel, href)
				}
			case kind != "" && target["type"] != kind:
				t.Errorf("%s: %s: the link %s leads to a %v", where, name, rel, target["type"])
			default:
				visit(to)
			}
		}
	}
	for name := range all {
		if format != "catalog" || name == "catalog.json" {
			visit(name)
		}
	}
	for name := range all {
		if !reached[name] {
			t.Errorf("%s: no link leads to %s", where, name)
		}
	}
}

// keepParquet copies the files, which the next stage may replace.
func (j *judge) keepParquet(r *matrixRig, where, out string, want expected) {
	r.t.Helper()
	dir, err := os.MkdirTemp(filepath.Dir(filepath.Dir(r.t.TempDir())), "parquet-")
	if err != nil {
		r.t.Fatal(err)
	}
	n := 0
	err = filepath.WalkDir(out, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".parquet") {
			return err
		}
		raw, err := os.ReadFile(path)
		n++
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.parquet", n)), raw, 0o600)
		}
		return err
	})
	if err != nil || n == 0 {
		r.t.Fatalf("%s: %d Parquet files: %v", where, n, err)
	}
	j.mu.Lock()
	j.parquet = append(j.parquet, parquetFiles{where, r.cell, dir, want})
	j.mu.Unlock()
}

// verdict asks ajv about all documents and DuckDB about all Parquet files.
func (j *judge) verdict(t *testing.T) {
	t.Run("ajv", func(t *testing.T) {
		var bodies []any
		for _, d := range j.documents {
			bodies = append(bodies, d.body)
		}
		for i, problems := range schematest.Documents(t, j.schemas, bodies) {
			for _, p := range problems {
				t.Errorf("%s: %s", j.documents[i].where, p)
			}
		}
	})
	t.Run("duckdb", func(t *testing.T) {
		defer func() {
			for _, p := range j.parquet {
				os.RemoveAll(p.dir)
			}
		}()
		if len(j.parquet) == 0 {
			t.Skip("no Parquet file was written")
		}
		var queries []string
		for i, p := range j.parquet {
			queries = append(queries, fmt.Sprintf(`select %d as n, collection, id, rev, datetime is not null as dated, typeof(geometry) like 'GEOMETRY%%' as geo, to_json(x)::varchar as whole
				from read_parquet('%s/*.parquet', union_by_name=true) x`, i, p.dir))
		}
		found := make([]map[string]int, len(j.parquet))
		for _, row := range geoparquettest.Query(t, strings.Join(queries, " union all ")) {
			p := j.parquet[int(row["n"].(float64))]
			if found[int(row["n"].(float64))] == nil {
				found[int(row["n"].(float64))] = map[string]int{}
			}
			key := fmt.Sprintf("%v/%v", row["collection"], row["id"])
			if _, twice := found[int(row["n"].(float64))][key]; twice {
				t.Errorf("%s: %s is there twice", p.where, key)
			}
			found[int(row["n"].(float64))][key] = int(row["rev"].(float64))
			var whole map[string]any
			if err := json.Unmarshal([]byte(row["whole"].(string)), &whole); err != nil {
				t.Fatal(err)
			}
			assets, _ := whole["assets"].(map[string]any)
			maps.DeleteFunc(assets, func(_ string, v any) bool { return v == nil })
			if bad := p.cell.wrong(whole, assets); bad != "" || row["dated"] != true || row["geo"] != true {
				t.Errorf("%s: %s: %s %v %v", p.where, key, bad, row["dated"], row["geo"])
			}
		}
		for i, p := range j.parquet {
			if diff := cmp.Diff(map[string]int(p.want), found[i]); diff != "" {
				t.Errorf("%s: items (-want +got):\n%s", p.where, diff)
			}
		}
	})
}
