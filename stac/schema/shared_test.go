package schema_test

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/stac/schema"
)

// shared is a folder of the public test data; without it the test is left out.
func shared(t testing.TB, path ...string) string {
	t.Helper()
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

func offline(t testing.TB) *schema.Store {
	s := schema.New(schema.Options{Dir: shared(t, "schemas"), Mode: schema.Offline})
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	return s
}

// lines are the documents of an NDJSON file.
func lines(t testing.TB, path string) []*schema.Document {
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var docs []*schema.Document
	s := bufio.NewScanner(f)
	s.Buffer(nil, 16<<20)
	for s.Scan() {
		doc, err := schema.Parse(s.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, doc)
	}
	if s.Err() != nil || len(docs) == 0 {
		t.Fatal(path, s.Err())
	}
	return docs
}

// check validates against the core schema and the extensions that can be had.
func check(t testing.TB, s *schema.Store, doc map[string]any, laid *schema.Document) (problems []schema.Problem, missing []string) {
	uris := []string{}
	version, _ := doc["stac_version"].(string)
	kind, _ := doc["type"].(string)
	if uri, ok := schema.CoreURI(schema.Kind(kind), version); ok {
		uris = append(uris, uri)
	}
	list, _ := doc["stac_extensions"].([]any)
	for _, uri := range list {
		uris = append(uris, uri.(string))
	}
	for _, uri := range uris {
		compiled, err := s.Load(t.Context(), uri)
		if err != nil {
			missing = append(missing, uri)
			continue
		}
		problems = append(problems, compiled.Check(laid)...)
	}
	return problems, missing
}

// expected is expected/validation.json: ids of invalid items by file.
func expected(t testing.TB) map[string][]string {
	text, err := os.ReadFile(shared(t, "expected", "validation.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all struct {
		Files map[string]struct {
			Items   int
			Invalid []struct{ ID string } `json:"invalid_ids"`
			Extra   []any                 `json:"extra_invalid_if_date_time_format_is_asserted"`
		}
	}
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	for file, f := range all.Files {
		ids := []string{}
		for _, i := range f.Invalid {
			ids = append(ids, i.ID)
		}
		slices.Sort(ids)
		out[file] = ids
	}
	return out
}

func TestRealItems(t *testing.T) {
	s, want := offline(t), expected(t)
	items, invalid := 0, 0
	for file, ids := range want {
		var got []string
		for _, laid := range lines(t, shared(t, file)) {
			items++
			doc := laid.Value().(map[string]any)
			problems, _ := check(t, s, doc, laid)
			laid.Release()
			if len(problems) > 0 {
				got = append(got, doc["id"].(string))
			}
			for _, p := range problems {
				if p.Message == "" || len(p.Message) > schema.MaxMessage || p.Keyword == "" || strings.Contains(p.Message, "jsonschema") {
					t.Errorf("%s: %+v", doc["id"], p)
				}
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, ids) {
			t.Errorf("%s: invalid %v, want %v", file, got, ids)
		}
		invalid += len(got)
	}
	if items != 1268 || invalid != 59 {
		t.Errorf("%d items, %d invalid", items, invalid)
	}
}

// landsat are the items of the speed floor.
const landsat = "planetarycomputer.microsoft.com__landsat-8-c2-l2.ndjson"

func BenchmarkValidate(b *testing.B) {
	s := offline(b)
	f, err := os.ReadFile(shared(b, "items", landsat))
	if err != nil {
		b.Fatal(err)
	}
	texts := strings.Split(strings.TrimSpace(string(f)), "\n")
	first, err := schema.Decode([]byte(texts[0]))
	if err != nil {
		b.Fatal(err)
	}
	n := 0
	for b.Loop() {
		laid, err := schema.Parse([]byte(texts[n%len(texts)]))
		if err != nil {
			b.Fatal(err)
		}
		check(b, s, first.(map[string]any), laid)
		laid.Release()
		n++
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "items/s")
}
