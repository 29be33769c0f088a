package files

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
)

func TestFind(t *testing.T) {
	dir := t.TempDir()
	name := func(file, text string) string {
		path := filepath.Join(dir, file)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	lines := name("a.ndjson", `{"id":"a","collection":"c","n":1}`+"\n{nonsense\n"+`{"id":"a","collection":"d","n":2}`+"\n"+`{"id":7}`+"\n"+`{"id":"big","x":"`+strings.Repeat("x", 300)+"\"}\n")
	list := name("a.json", `[{"id":"x"},{"id":"y","assets":{"b":{}}}]`)
	for _, c := range []struct {
		path  string
		q     Sought
		found string // or why not
		line  int64
	}{
		{lines, Sought{ID: "a"}, `{"id":"a","collection":"c","n":1}`, 1},
		{lines, Sought{ID: "a", Collection: "d"}, `{"id":"a","collection":"d","n":2}`, 3},
		{lines, Sought{ID: "a", Collection: "d", Line: 3}, `{"id":"a","collection":"d","n":2}`, 3},
		{lines, Sought{ID: "a", Collection: "d", Line: 1}, "line 1 of ", 0},
		{lines, Sought{ID: "7", Collection: "c"}, `{"id":7}`, 4},
		{lines, Sought{ID: "big"}, "it is one of 1 that are longer than 200 bytes", 0},
		{list, Sought{ID: "y"}, `{"id":"y","assets":{"b":{}}}`, 1},
		{list, Sought{ID: "z"}, "none of the 2 items in ", 0},
		{filepath.Join(dir, "absent.json"), Sought{ID: "z"}, "absent.json", 0},
		{"https://example.org/a.ndjson", Sought{ID: "z"}, "is behind a URL", 0},
	} {
		c.q.MaxBytes = 200
		got, line, err := New(Options{}).Find(t.Context(), c.path, c.q)
		if line == 0 && c.line == 0 && got == nil && err != nil && strings.Contains(err.Error(), c.found) {
			continue
		}
		if err != nil || string(got) != c.found || line != c.line {
			t.Errorf("%s %+v: %s in line %d, %v", c.path, c.q, got, line, err)
		}
	}
	denied := New(Options{Admit: func(string) error { return &stepwell.Error{Code: stepwell.CodeDenied} }})
	if _, _, err := denied.Find(t.Context(), lines, Sought{ID: "a"}); stepwell.CodeOf(err) != stepwell.CodeDenied {
		t.Error(err)
	}
}

// TestFindInS3 finds an item in an object, by the client with which objects are written.
func TestFindInS3(t *testing.T) {
	p, server := bucket(t)
	plain := New(Options{S3: S3Options{Endpoint: server.URL, Anonymous: true}}) // the stand-in keeps the signatures of parts
	upload := func(key, text string) string {
		to := "s3://data/" + key
		if err := plain.Publish(t.Context(), put(t, t.TempDir(), "up", text), to); err != nil {
			t.Fatal(err)
		}
		return to
	}
	lines := upload("a.ndjson", `{"id":"a","n":1}`+"\n"+`{"id":"b","n":2}`+"\n")
	got, line, err := p.Find(t.Context(), lines, Sought{ID: "b", MaxBytes: 100})
	if err != nil || string(got) != `{"id":"b","n":2}` || line != 2 {
		t.Errorf("%s in line %d, %v", got, line, err)
	}
	big := upload("big.parquet", strings.Repeat("x", mostFetched+1))
	for path, code := range map[string]stepwell.Code{lines: stepwell.CodeNotFound, big: stepwell.CodeLimit, "s3://data/none.ndjson": stepwell.CodeNotFound, "s3://data/none.parquet": stepwell.CodeNotFound, "s3:///x": stepwell.CodeInvalid} {
		if got, _, err := p.Find(t.Context(), path, Sought{ID: "z", MaxBytes: 100}); got != nil || stepwell.CodeOf(err) != code || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %s, %v", path, got, err)
		}
	}
	server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, _, err := p.Find(ctx, lines, Sought{ID: "a", MaxBytes: 100}); err == nil {
		t.Error("found in a service that is down")
	}
}
