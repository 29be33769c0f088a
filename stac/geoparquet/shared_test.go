package geoparquet_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/stac/geoparquet"
)

// shared is a path of the recorded data; without the data the test is skipped.
func shared(t testing.TB, elem ...string) string {
	t.Helper()
	root := os.Getenv("STEPWELL_SHARED_DATA")
	if root == "" {
		root = filepath.Join("..", "..", "..", "shared", "data")
	}
	path := filepath.Join(append([]string{root}, elem...)...)
	if _, err := os.Stat(path); err != nil {
		t.Skip("the recorded data are not here: " + filepath.Join(elem...) + " is left out")
	}
	return path
}

// lines are the lines of an NDJSON file.
func lines(t testing.TB, path string) [][]byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out [][]byte
	scan := bufio.NewScanner(bytes.NewReader(text))
	scan.Buffer(nil, 16<<20)
	for scan.Scan() {
		out = append(out, bytes.Clone(scan.Bytes()))
	}
	return out
}

// valid are the Landsat items that are valid: those the validators agree on.
func valid(t testing.TB) []*item.Value {
	const name = "planetarycomputer.microsoft.com__landsat-8-c2-l2.ndjson"
	text, err := os.ReadFile(shared(t, "expected", "validation.json"))
	if err != nil {
		t.Fatal(err)
	}
	var expected struct {
		Files map[string]struct {
			Invalid []struct {
				ID string `json:"id"`
			} `json:"invalid_ids"`
		} `json:"files"`
	}
	if err := json.Unmarshal(text, &expected); err != nil {
		t.Fatal(err)
	}
	bad := map[string]bool{}
	for _, it := range expected.Files["items/"+name].Invalid {
		bad[it.ID] = true
	}
	var out []*item.Value
	for _, line := range lines(t, shared(t, "items", name)) {
		it := parse(t, line)
		if id, _ := it.Get("id").Str(); !bad[id] && it.Get("bbox") != nil {
			out = append(out, it)
		}
	}
	return out
}

func parse(t testing.TB, text []byte) *item.Value {
	t.Helper()
	v, err := item.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// write makes a file of items, none of which may be refused.
func write(t testing.TB, o geoparquet.Options, items []*item.Value) (path string, stats geoparquet.Stats) {
	t.Helper()
	f, err := geoparquet.New(t.TempDir(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, it := range items {
		if err := f.Add(it); err != nil {
			id, _ := it.Get("id").Str()
			t.Fatalf("item %s: %v", id, err)
		}
	}
	path = filepath.Join(t.TempDir(), "items.parquet")
	if stats, err = f.Close(context.Background(), path, nil); err != nil {
		t.Fatal(err)
	}
	return path, stats
}

// read gives the items of a file.
func read(t testing.TB, path string) []*item.Value {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	var out []*item.Value
	err = geoparquet.Each(context.Background(), file, info.Size(), 0, func(text []byte, n int64) error {
		if n != int64(len(out)) {
			t.Errorf("item %d is said to be item %d", len(out), n)
		}
		out = append(out, parse(t, text))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
