package validate

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/stac/schema"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/streamtest"
)

// run validates items and returns the ids that passed, the failures and the outputs.
type result struct {
	passed   []string
	failures []*stream.Error
	ids      []string // of the failures
	outputs  map[string]any
	lines    []string
}

func run(t testing.TB, config map[string]any, items []*stream.Item) result {
	t.Helper()
	rig := streamtest.New(t)
	c, err := rig.Open(Modules(schema.New(schema.Options{}))[0], config)
	if err != nil {
		t.Fatal(err)
	}
	var r result
	for _, it := range items {
		out, err := c.(stream.Modifier).Modify(t.Context(), it)
		switch serr, ok := errors.AsType[*stream.Error](err); {
		case err == nil && out == nil: // left out
		case err == nil:
			r.passed = append(r.passed, out.ID())
		case ok:
			r.failures, r.ids = append(r.failures, serr), append(r.ids, it.ID())
		default:
			t.Fatal(err)
		}
	}
	outputs, err := c.(stream.Finisher).Finish(nil)
	if err != nil {
		t.Fatal(err)
	}
	r.outputs, r.lines = outputs.(map[string]any), rig.Lines()
	return r
}

func (r result) expect(t testing.TB, valid, invalid, unchecked int64) {
	t.Helper()
	if r.outputs["valid"] != valid || r.outputs["invalid"] != invalid || r.outputs["unchecked"] != unchecked ||
		int64(len(r.passed)) != valid+unchecked || int64(len(r.failures)) != invalid {
		t.Errorf("passed %d, failures %d, outputs %v; want %d valid, %d invalid, %d unchecked", len(r.passed), len(r.failures), r.outputs, valid, invalid, unchecked)
		for _, f := range r.failures[:min(5, len(r.failures))] {
			t.Log(f, f.Context)
		}
	}
}

func shared(t testing.TB, path ...string) string {
	t.Helper()
	root := os.Getenv("STEPWELL_SHARED_DATA")
	if root == "" {
		root = filepath.Join("..", "..", "..", "shared", "data")
	}
	full, err := filepath.Abs(filepath.Join(append([]string{root}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(full); err != nil {
		t.Skip("left out: the public test data is not there: " + full)
	}
	return full
}

func ndjson(t testing.TB, path string) (items []*stream.Item) {
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	s.Buffer(nil, 16<<20)
	for n := int64(1); s.Scan(); n++ {
		it := streamtest.Item(t, s.Text())
		it.Place = stream.Place{File: filepath.Base(path), Line: n}
		items = append(items, it)
	}
	if s.Err() != nil || items == nil {
		t.Fatal(path, s.Err())
	}
	return items
}

const landsatSchema = "https://landsat.usgs.gov/stac/landsat-extension/v1.1.0/schema.json"

func landsat(t testing.TB) []*stream.Item {
	return ndjson(t, shared(t, "items", "planetarycomputer.microsoft.com__landsat-8-c2-l2.ndjson"))
}

// P2 of stac-and-media §6.
func TestLandsat(t *testing.T) {
	r := run(t, map[string]any{"schema_dir": shared(t, "schemas"), "mode": "offline"}, landsat(t))
	r.expect(t, 716, 34, 0)
	want := map[string]any{"valid": int64(716), "invalid": int64(34), "unchecked": int64(0), "items_not_checked": int64(716), "skipped": int64(0), "builtin_rules": int64(0), "warnings": int64(750),
		"missing_schemas": map[string]any{landsatSchema: int64(750)}, "lint": map[string]any{}}
	if diff := cmp.Diff(want, r.outputs); diff != "" {
		t.Error(diff)
	}
	for _, f := range r.failures {
		if !strings.Contains(f.Error(), "'bbox'") || f.Type != stream.ValidationError || f.Context.Keyword != "required" || f.Context.Pointer != "" ||
			f.Context.Schema != "https://schemas.stacspec.org/v1.0.0/item-spec/json-schema/item.json" || f.Context.Line == 0 || f.Context.File == "" {
			t.Fatalf("%v %+v", f, f.Context)
		}
	}
	if len(r.lines) != 1 || !strings.Contains(r.lines[0], landsatSchema) {
		t.Error("log: ", r.lines)
	}
}

// P3.
func TestMissingFails(t *testing.T) {
	dir := shared(t, "schemas")
	r := run(t, map[string]any{"schema_dir": dir, "offline": true, "missing_schema": "fail"}, landsat(t))
	r.expect(t, 0, 750, 0)
	last := r.failures[len(r.failures)-1]
	if !strings.Contains(r.failures[0].Error(), landsatSchema) || r.outputs["warnings"] != int64(0) {
		t.Error(last, r.outputs)
	}
	r = run(t, map[string]any{"schema_dir": dir, "offline": true, "missing_schema": map[string]any{"*": "fail", "https://landsat.usgs.gov/*": "skip"}}, landsat(t))
	r.expect(t, 716, 34, 0)
	if r.outputs["warnings"] != int64(0) {
		t.Error(r.outputs)
	}
}

// P5.
func TestAllFiles(t *testing.T) {
	text, err := os.ReadFile(shared(t, "expected", "validation.json"))
	if err != nil {
		t.Fatal(err)
	}
	var want struct {
		Files map[string]struct {
			Invalid []struct{ ID string } `json:"invalid_ids"`
		}
	}
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	var items, invalid, unchecked int64
	for file, f := range want.Files {
		r := run(t, map[string]any{"schema_dir": shared(t, "schemas"), "offline": true}, ndjson(t, shared(t, file)))
		ids := []string{}
		for _, i := range f.Invalid {
			ids = append(ids, i.ID)
		}
		slices.Sort(ids)
		slices.Sort(r.ids)
		if !slices.Equal(ids, r.ids) {
			t.Errorf("%s: invalid %v, want %v", file, r.ids, ids)
		}
		items += int64(len(r.passed) + len(r.ids))
		invalid += r.outputs["invalid"].(int64)
		unchecked += r.outputs["unchecked"].(int64)
		if strings.Contains(file, "l2a-cogs") {
			missing := r.outputs["missing_schemas"].(map[string]any)
			for _, uri := range []string{"https://schemas.stacspec.org/v1.0.0-beta.2/item-spec/json-schema/item.json", "eo", "view", "proj"} {
				if missing[uri] != int64(1) {
					t.Errorf("%s is not reported missing: %v", uri, missing)
				}
			}
		}
	}
	if items != 1268 || invalid != 59 || unchecked != 1 {
		t.Errorf("%d items, %d invalid, %d unchecked", items, invalid, unchecked)
	}
}

// Without any schema the built-in rules check the core, and say so.
func TestBuiltInRules(t *testing.T) {
	r := run(t, map[string]any{"offline": true, "missing_schema": "builtin"}, landsat(t))
	r.expect(t, 716, 34, 0)
	if r.outputs["builtin_rules"] != int64(750) || r.failures[0].Context.Schema != schema.BuiltIn || !strings.Contains(r.failures[0].Error(), "'bbox'") {
		t.Error(r.outputs, r.failures[0])
	}
	r = run(t, map[string]any{"offline": true, "missing_schema": "fail"}, landsat(t)[:3])
	r.expect(t, 0, 3, 0)
	r = run(t, map[string]any{"offline": true, "missing_schema": "skip"}, landsat(t)[:3])
	r.expect(t, 0, 0, 3)
}

func TestPartialItems(t *testing.T) {
	items := ndjson(t, shared(t, "items-partial", "earth-search.aws.element84.com__sentinel-2-c1-l2a.ndjson"))
	n := int64(len(items))
	r := run(t, map[string]any{"schema_dir": shared(t, "schemas")}, items)
	r.expect(t, 0, n, 0)
	if !strings.Contains(r.failures[0].Error(), "partial") {
		t.Error(r.failures[0])
	}
	run(t, map[string]any{"schema_dir": shared(t, "schemas"), "allow_partial": true}, items).expect(t, 0, 0, n)
}

// P13, the part of validation: an item that says 140 % clouds, one without bbox.
func TestNegative(t *testing.T) {
	text, err := os.ReadFile(shared(t, "stac-manager-samples", "sentinel-2-l2a-api", "sample-data", "items.json"))
	if err != nil {
		t.Fatal(err)
	}
	all := streamtest.Item(t, `{"features":`+string(text)+`}`).Get("features")
	var items []*stream.Item
	for i, v := range all.Elements() {
		it := stream.New(v.Clone(), stream.Place{})
		switch i {
		case 3:
			it.Get("properties").Set("eo:cloud_cover", streamtest.Item(t, `{"a":140}`).Get("a"))
		case 7:
			it.Delete("bbox")
		}
		items = append(items, it)
	}
	r := run(t, map[string]any{"schema_dir": shared(t, "schemas"), "offline": true, "missing_schema": "fail"}, items)
	r.expect(t, 18, 2, 0)
	if r.failures[0].Context.Pointer != "/properties/eo:cloud_cover" || r.failures[0].Context.Keyword != "maximum" || !strings.Contains(r.failures[1].Error(), "bbox") {
		t.Error(r.failures[0], r.failures[0].Context, r.failures[1])
	}
}

func TestFormats(t *testing.T) {
	it := streamtest.Item(t, strings.Replace(feature, `2020-01-01T00:00:00Z`, `2020-01-01 00:00:00Z`, 1))
	config := map[string]any{"schema_dir": shared(t, "schemas"), "offline": true}
	run(t, config, []*stream.Item{it}).expect(t, 0, 1, 0)
	config["formats"] = "ignore"
	run(t, config, []*stream.Item{it}).expect(t, 1, 0, 0)
}

// The specification's examples, items, collections and catalogs, of both versions.
func TestExamples(t *testing.T) {
	n := 0
	for _, pattern := range []string{"stac-spec-examples/v1.0.0/*.json", "stac-spec-examples/v1.1.0/*.json", "extension-examples/*/*.json"} {
		files, _ := filepath.Glob(filepath.Join(shared(t), filepath.FromSlash(pattern)))
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			it := streamtest.Item(t, string(text))
			if kind, _ := it.Get("type").Str(); kind != "Feature" && kind != "Collection" && kind != "Catalog" {
				continue
			}
			n++
			r := run(t, map[string]any{"schema_dir": shared(t, "schemas"), "offline": true}, []*stream.Item{it})
			if len(r.failures) > 0 {
				t.Errorf("%s: %v %+v", file, r.failures[0], r.failures[0].Context)
			}
		}
	}
	if n < 30 {
		t.Error("only", n, "examples")
	}
}

func TestParallel(t *testing.T) {
	rig := streamtest.New(t)
	c, err := rig.Open(Modules(schema.New(schema.Options{}))[0], map[string]any{"schema_dir": shared(t, "schemas"), "offline": true, "lint": []any{"all"}})
	if err != nil {
		t.Fatal(err)
	}
	items := landsat(t)
	var wg sync.WaitGroup
	for part := range slices.Chunk(items, 100) {
		wg.Go(func() {
			for _, it := range part {
				_, _ = c.(stream.Modifier).Modify(t.Context(), it) // counted
			}
		})
	}
	wg.Wait()
	outputs, _ := c.(stream.Finisher).Finish(nil)
	if got := outputs.(map[string]any); got["valid"] != int64(716) || got["invalid"] != int64(34) {
		t.Error(got)
	}
}

// A schema that does not compile, and one that the network does not give, are missing.
func TestUnusableSchemas(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/broken" {
			fmt.Fprint(w, `{"pattern":"(?<"}`)
			return
		}
		w.WriteHeader(http.StatusForbidden)
	}))
	defer srv.Close()
	client, err := outbound.New(outbound.Options{AllowPrivate: true})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	m := Modules(schema.New(schema.Options{HTTP: client, Dir: "testdata/schemas"}))[0]
	for _, policy := range []string{"warn", "fail"} {
		rig := streamtest.New(t)
		c, err := rig.Open(m, map[string]any{"missing_schema": map[string]any{srv.URL + "/*": policy, "*": "skip", "https://schemas.stacspec.org/*": "builtin"}, "extension_schemas": []any{srv.URL + "/broken", srv.URL + "/forbidden"}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.(stream.Modifier).Modify(t.Context(), streamtest.Item(t, strings.Replace(feature, "1.0.0", "1.1.0", 1)))
		outputs, _ := c.(stream.Finisher).Finish(nil)
		missing := outputs.(map[string]any)["missing_schemas"].(map[string]any)
		if (err != nil) != (policy == "fail") || missing[srv.URL+"/broken"] != int64(1) || missing[srv.URL+"/forbidden"] != int64(1) {
			t.Error(policy, err, outputs)
		}
		if log := strings.Join(rig.Lines(), "\n"); policy == "warn" && (!strings.Contains(log, "does not compile") || !strings.Contains(log, "403")) {
			t.Error(log)
		}
	}
}

func TestExamplesOfSpec(t *testing.T) {
	m := Modules(schema.New(schema.Options{}))[0]
	if m.Spec.Stream == nil || !m.Spec.Stream.Parallel || m.Spec.Stream.Role != spec.Modifier {
		t.Error(m.Spec.Stream)
	}
	if _, err := spec.Compile(m.Spec.Params, false); err != nil {
		t.Error(err)
	}
	for _, f := range append(m.Spec.Params, m.Spec.Outputs...) {
		if f.Doc == "" || !strings.HasSuffix(f.Doc, ".") {
			t.Error(f.Name, "has no sentence")
		}
	}
}

func BenchmarkModify(b *testing.B) {
	rig := streamtest.New(b)
	c, err := rig.Open(Modules(schema.New(schema.Options{}))[0], map[string]any{"schema_dir": shared(b, "schemas"), "offline": true})
	if err != nil {
		b.Fatal(err)
	}
	texts := landsat(b)
	n := 0
	for b.Loop() {
		it := stream.Lazy(slices.Clone(texts[n%len(texts)].Bytes()), stream.Place{})
		if err := it.Parse(); err != nil {
			b.Fatal(err)
		}
		_, _ = c.(stream.Modifier).Modify(b.Context(), it)
		n++
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "items/s")
}
