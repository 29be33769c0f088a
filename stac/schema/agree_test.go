package schema

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func data(t testing.TB, path ...string) string {
	root := os.Getenv("STEPWELL_SHARED_DATA")
	if root == "" {
		root = filepath.Join("..", "..", "..", "shared", "data")
	}
	full := filepath.Join(append([]string{root}, path...)...)
	if _, err := os.Stat(full); err != nil {
		t.Skip("left out: the public test data is not there: " + full)
	}
	return full
}

// samples are the first items of every real file, and the specification's own examples.
func samples(t testing.TB, most int) map[string]map[string]any {
	out := map[string]map[string]any{}
	add := func(name string, text []byte) {
		doc, err := Decode(text)
		if err != nil {
			t.Fatal(name, err)
		}
		obj, _ := doc.(map[string]any)
		if kind, _ := obj["type"].(string); Core(fmt.Sprint(obj["stac_version"])) != nil && kind != "FeatureCollection" {
			out[name] = obj
		}
	}
	files, _ := filepath.Glob(data(t, "items") + "/*.ndjson")
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		s := bufio.NewScanner(f)
		s.Buffer(nil, 16<<20)
		for n := 0; n < most && s.Scan(); n++ {
			add(fmt.Sprint(filepath.Base(file), ":", n+1), s.Bytes())
		}
	}
	for _, pattern := range []string{"stac-spec-examples/v1.?.0/*.json", "stac-spec-examples/v1.?.0/*/*.json", "extension-examples/*/*.json"} {
		files, _ := filepath.Glob(filepath.Join(data(t), filepath.FromSlash(pattern)))
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			add(strings.TrimPrefix(file, data(t)), text)
		}
	}
	return out
}

// mutants calls f with the object changed in one place, once for each kind of change and each place down to
// a depth; of long lists and of assets, the first ones.
func mutants(root any, v any, path string, depth int, f func(what func() string)) {
	if depth == 0 {
		return
	}
	bad := []any{nil, true, "", "x y", "2020-01-01T00:00:00+01:00", "2020-01-01 00:00:00Z", json.Number("-1"), json.Number("0.5"), json.Number("200"), map[string]any{}, []any{}, []any{json.Number("1"), "b"}, map[string]any{"type": "Point"}}
	switch v := v.(type) {
	case map[string]any:
		keys := slices.Sorted(maps.Keys(v))
		for n, key := range keys {
			if strings.HasSuffix(path, "assets") && n > 2 {
				break
			}
			old := v[key]
			for _, b := range bad {
				v[key] = b
				f(func() string { return fmt.Sprintf("%s/%s = %v", path, key, b) })
			}
			delete(v, key)
			f(func() string { return path + "/" + key + " deleted" })
			v[key] = old
			mutants(root, old, path+"/"+key, depth-1, f)
		}
		for _, key := range []string{"bands", "eo:nope", "datetime", "end_datetime", "collection", "nodata", "data_type", "statistics", "license", "providers", "gsd", "method", "headers", "description", "keywords"} {
			if _, there := v[key]; there {
				continue
			}
			for _, b := range append(bad, []any{map[string]any{"name": "", "roles": []any{"x"}}}, map[string]any{"minimum": "x", "count": json.Number("1.0")}, map[string]any{"X": "y"}) {
				v[key] = b
				f(func() string { return fmt.Sprintf("%s/%s added: %v", path, key, b) })
			}
			delete(v, key)
		}
	case []any:
		for i := range min(len(v), 2) {
			old := v[i]
			for _, b := range bad {
				v[i] = b
				f(func() string { return fmt.Sprintf("%s/%d = %v", path, i, b) })
			}
			v[i] = old
			mutants(root, old, fmt.Sprint(path, "/", i), depth-1, f)
		}
	}
}

// document lays out a value made by Decode.
func document(t testing.TB, doc any) *Document {
	text, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	d, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestFast: the rules and the library agree, on real objects and on what is made of them.
func TestFast(t *testing.T) {
	s := New(Options{Dir: data(t, "schemas"), Mode: Offline})
	tried, valid := 0, 0
	for name, doc := range samples(t, 1) {
		core, _ := CoreURI(Kind(doc["type"].(string)), doc["stac_version"].(string))
		uris := []any{core}
		if list, ok := doc["stac_extensions"].([]any); ok {
			uris = append(uris, list...)
		}
		for _, uri := range uris {
			compiled, err := s.Load(t.Context(), uri.(string))
			if err != nil {
				continue
			}
			if compiled.fast == nil && strings.Contains(compiled.URI, "collection-spec") {
				continue // it refers to the schema of schemas, which has other keywords
			}
			if compiled.fast == nil {
				t.Error(uri, "has no fast rules")
				continue
			}
			check := func(what string) {
				tried++
				laid := document(t, doc)
				fast, slow := compiled.fast.fits(laid), compiled.compiled.Validate(doc)
				laid.Release()
				if fast {
					valid++
				}
				if fast != (slow == nil) {
					t.Errorf("%s, %s, %s: fast %v, library %v", name, uri, what, fast, slow)
				}
			}
			check("as it is")
			mutants(doc, doc, "", 3, func(what func() string) {
				if tried%151 == 0 { // all of them take minutes
					check(what())
				} else {
					tried++
				}
			})
		}
	}
	if tried < 10_000 || valid < 100 {
		t.Errorf("only %d tried, %d valid", tried, valid)
	}
}

// TestCoreAgrees: the built-in rules and the core schemas agree.
func TestCoreAgrees(t *testing.T) {
	s := New(Options{Dir: data(t, "schemas"), Mode: Offline})
	tried, invalid := 0, 0
	for name, doc := range samples(t, 10_000) {
		uri, _ := CoreURI(Kind(doc["type"].(string)), doc["stac_version"].(string))
		compiled, err := s.Load(t.Context(), uri)
		if err != nil {
			t.Fatal(err)
		}
		rules := Core(doc["stac_version"].(string))
		check := func(what string) {
			tried++
			own, real := rules.Validate(doc), compiled.Validate(doc)
			laid := document(t, doc)
			if fast := rules.fast.fits(laid); fast != (len(own) == 0) {
				t.Errorf("%s, %s: fast %v, library %v", name, what, fast, own)
			}
			laid.Release()
			if len(real) > 0 {
				invalid++
			}
			if (len(own) == 0) != (len(real) == 0) {
				t.Errorf("%s, %s:\n  own  %v\n  real %v", name, what, own, real)
			}
		}
		check("as it is")
		if strings.HasSuffix(name, ":1") || strings.HasSuffix(name, "json") && !strings.Contains(name, "ndjson") {
			mutants(doc, doc, "", 4, func(what func() string) {
				// Not claimed: that what stands in summaries is a JSON Schema.
				if tried%61 == 0 && !strings.HasPrefix(what(), "/summaries/") {
					check(what())
				} else {
					tried++
				}
			})
		}
	}
	if tried < 2000 || invalid < 50 {
		t.Errorf("only %d tried, %d invalid", tried, invalid)
	}
}
