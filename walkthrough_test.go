package stepwell_test

import (
	"cmp"
	"io/fs"
	"os"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/stepwell/stepwell/tooltest"
)

// changedFS is the module with some files replaced or added.
type changedFS struct {
	fs.FS
	files fstest.MapFS
}

// Open implements fs.FS.
func (c changedFS) Open(name string) (fs.File, error) {
	if f, err := c.files.Open(name); err == nil && c.files[name] != nil {
		return f, nil
	}
	return c.FS.Open(name)
}

// ReadDir implements fs.ReadDirFS.
func (c changedFS) ReadDir(name string) ([]fs.DirEntry, error) {
	added, _ := c.files.ReadDir(name)      // none: nothing is added there
	entries, err := fs.ReadDir(c.FS, name) // none: the folder is new
	entries = append(entries, added...)
	slices.SortStableFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	entries = slices.CompactFunc(entries, func(a, b fs.DirEntry) bool { return a.Name() == b.Name() })
	if len(entries) > 0 {
		err = nil
	}
	return entries, err
}

// TestWalkthroughArchitecture holds the changes that CONTRIBUTING.md shows against ARCHITECTURE.md, which need not
// change for them.
func TestWalkthroughArchitecture(t *testing.T) {
	_, files := tooltest.Walkthroughs(t)
	fsys := changedFS{os.DirFS("."), fstest.MapFS{}}
	for name, text := range files {
		fsys.files[name] = &fstest.MapFile{Data: []byte(text)}
	}
	for _, finding := range checkArchitecture(fsys) {
		t.Error(finding)
	}
}
