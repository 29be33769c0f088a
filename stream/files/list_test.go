package files

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stepwell/stepwell"
)

func TestList(t *testing.T) {
	dir := t.TempDir()
	long := strings.Repeat("n", 240) + ".json"
	for _, f := range []string{"b.json", "a.json", "c.csv", ".hidden.json", "d/a.json", "d/e/f/a.json", "d/.git/a.json", "ü/ö [1].json", "x[1].json", "x1.json", long} {
		put(t, dir, f, "[]")
	}
	if err := os.Symlink(dir, filepath.Join(dir, "d", "circle")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(dir, "c.csv"), filepath.Join(dir, "d", "link.csv")); err != nil {
		t.Fatal(err)
	}
	for pattern, want := range map[string]string{
		"a.json":         "a.json",
		".":              "a.json b.json c.csv " + long + " x1.json x[1].json",
		"d":              "d/a.json d/link.csv",
		"?.json":         "a.json b.json",
		"[ac].*":         "a.json c.csv",
		".*.json":        ".hidden.json",
		"**/a.json":      "a.json d/a.json d/e/f/a.json",
		"d/**":           "d/a.json d/e/f/a.json d/link.csv",
		"**/e/**/a.json": "d/e/f/a.json",
		"**/**/a.json":   "a.json d/a.json d/e/f/a.json",
		"*/a.json":       "d/a.json",
		"x[1].json":      "x[1].json", // a name before it is a pattern
		"ü/*.json":       "ü/ö [1].json",
		"nn*":            long,
	} {
		got, err := New(Options{}).List(context.Background(), dir, pattern)
		for i := range got {
			got[i], _ = filepath.Rel(dir, got[i])
		}
		if diff := cmp.Diff(want, strings.Join(got, " ")); diff != "" || err != nil {
			t.Errorf("%s: %v %s", pattern, err, diff)
		}
	}
}

func TestListErrors(t *testing.T) {
	for pattern, want := range map[string]stepwell.Code{
		"none.json": stepwell.CodeNotFound, "*.json": stepwell.CodeNotFound, "none/**/a": stepwell.CodeNotFound, "~/a.json": stepwell.CodeNotFound,
		"[": stepwell.CodeNotFound, "a[/b": stepwell.CodeInvalid, "gs://b/k": stepwell.CodeInvalid, "file:///a": stepwell.CodeInvalid, "ftp://a/b": stepwell.CodeInvalid,
	} {
		got, err := New(Options{}).List(context.Background(), t.TempDir(), pattern)
		if err == nil {
			t.Errorf("%s: %q", pattern, got)
			continue
		}
		if pattern == "[" {
			want = stepwell.CodeInvalid
		}
		if stepwell.CodeOf(err) != want || stepwell.HintOf(err) == "" && hasMeta(pattern) {
			t.Errorf("%s: %v (%s)", pattern, err, stepwell.HintOf(err))
		}
	}
}

func TestMatchPath(t *testing.T) {
	for _, tt := range []struct {
		pattern, name string
		want          bool
	}{
		{"a/*", "a/b", true}, {"a/*", "a/b/c", false}, {"a/**", "a/b/c", true}, {"a/**", "a", false},
		{"**/c", "a/b/c", true}, {"**/c", "c", true}, {"a/**/c", "a/c", true}, {"a/**/b/**/c", "a/b/x/b/y/c", true},
		{"a/**/b/**/c", "a/x/c", false}, {"**", ".a", false}, {"**/a", ".b/a", false}, {"x*", "x.json", true},
		{strings.Repeat("**/", 30) + "z", strings.Repeat("a/", 60) + "y", false},
	} {
		if got := matchPath(strings.Split(tt.pattern, "/"), strings.Split(tt.name, "/")); got != tt.want {
			t.Errorf("%s %s: %v", tt.pattern, tt.name, got)
		}
	}
}
