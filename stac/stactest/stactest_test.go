package stactest

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fetch gets a path.
func fetch(t testing.TB, url string) (status int, body string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return resp.StatusCode, "cut: " + string(raw)
	}
	return resp.StatusCode, string(raw)
}

// TestScript has each kind of fault come when the script says, and no other time.
func TestScript(t *testing.T) {
	faults, err := ReadFaults(`[{"kind": "search", "nth": 2, "status": 429, "after": "7"}, {"kind": "search", "nth": 3, "reset": true}, {"kind": "search", "nth": 4, "cut": true}, {"kind": "collection", "collection": "b", "status": 500, "times": -1}]`)
	if err != nil {
		t.Fatal(err)
	}
	s := Start(t, Options{Items: append(Generate("a", 5), Generate("b", 1)...), Faults: faults})
	whole := `"type":"FeatureCollection"`
	for i, want := range []struct {
		status int
		whole  bool
	}{{200, true}, {429, false}, {200, false}, {200, false}, {200, true}} {
		status, body := fetch(t, s.URL+"/search?collections=a")
		sound := strings.Contains(body, whole) && json.Valid([]byte(body))
		if status != want.status || sound != want.whole {
			t.Errorf("request %d: %d, sound %t: %.60s", i+1, status, sound, body)
		}
	}
	for range 3 {
		if status, _ := fetch(t, s.URL+"/collections/b"); status != 500 {
			t.Error(status)
		}
	}
	if status, _ := fetch(t, s.URL+"/collections/a"); status != 200 {
		t.Error(status)
	}
	if s.Count("search") != 5 || s.Count("collection") != 4 || len(s.Requests()) != 9 {
		t.Error(s.Count("search"), s.Count("collection"), len(s.Requests()))
	}
	if _, err := ReadFaults(`[{"typo": 1}]`); err == nil {
		t.Error("a typo is taken")
	}
}

// TestLines reads items from a file.
func TestLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.ndjson")
	var text strings.Builder
	for _, item := range Generate("c", 3) {
		text.Write(append(item, '\n', '\n'))
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	items, err := Lines(path)
	if err != nil || len(items) != 3 {
		t.Fatal(len(items), err)
	}
	s := Start(t, Options{Items: items})
	if _, body := fetch(t, s.URL+"/collections/c/items?limit=2&datetime=2020-01-02T00:00:00Z/.."); !strings.Contains(body, `"numberMatched":2`) || strings.Contains(body, `"next"`) {
		t.Error(body)
	}
}
