package stepwell_test

import (
	"encoding/json"
	"os"
	"testing"
)

// TestLockNamesNoRegistry keeps addresses of registries out of npm's lock files, which would lead everybody to the mirror
// that one machine used. Without an address npm asks the registry that is set up.
func TestLockNamesNoRegistry(t *testing.T) {
	files := tracked(t, "*package-lock.json")
	if len(files) == 0 {
		t.Fatal("no lock file is tracked")
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var lock struct {
			Packages map[string]struct {
				Resolved  string `json:"resolved"`
				Integrity string `json:"integrity"`
			} `json:"packages"`
		}
		if err := json.Unmarshal(text, &lock); err != nil || len(lock.Packages) < 2 {
			t.Fatalf("%s: %d packages: %v", file, len(lock.Packages), err)
		}
		for name, p := range lock.Packages {
			if name == "" { // the project itself
				continue
			}
			if p.Integrity == "" {
				t.Errorf("%s: %s has no checksum", file, name)
			}
			if p.Resolved != "" {
				t.Errorf("%s: %s is resolved to %s: take the field out (omit-lockfile-registry-resolved in .npmrc)", file, name, p.Resolved)
			}
		}
	}
}
