package main

import "testing"

// TestPackageOf: symbols are counted for the package that defines them, not for those in their type arguments.
func TestPackageOf(t *testing.T) {
	for symbol, want := range map[string]string{
		"github.com/a/b/c.(*T).Method":            "github.com/a/b/c",
		"slices.SortFunc[go.shape.[]int,x.y/z.T]": "slices",
		"gopkg.in/yaml%2ev3.Unmarshal":            "gopkg.in/yaml.v3",
		"main.main":                               "main",
		"type:*github.com/a/b.T":                  "",
		"runtime_text":                            "",
	} {
		if got := packageOf(symbol); got != want {
			t.Errorf("%s is of %q, not %q", symbol, got, want)
		}
	}
}

// TestNotes: the notes of a version are its section of the changelog; a version without one is an error.
func TestNotes(t *testing.T) {
	const changelog = "# Changelog\n\n## [Unreleased]\n\n## [1.2.0] - 2026-01-01\n\nNew.\n\n## [1.1.0] - 2025-01-01\n\nOld.\n"
	if got, err := notes(changelog, "v1.2.0"); err != nil || got != "New.\n" {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := notes(changelog, "v1.3.0"); err == nil {
		t.Errorf("a version without a section has the notes %q", got)
	}
}
