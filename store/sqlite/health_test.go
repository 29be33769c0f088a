package sqlite_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store/sqlite"
)

func TestCheck(t *testing.T) {
	ctx, path := t.Context(), filepath.Join(t.TempDir(), "a.db")
	if _, err := sqlite.Check(ctx, path); stepwell.CodeOf(err) != stepwell.CodeNotFound {
		t.Fatalf("no file: %v", err)
	}
	s, err := sqlite.Open(ctx, sqlite.Options{Path: path, Exclusive: true})
	if err != nil {
		t.Fatal(err)
	}
	h, err := sqlite.Check(ctx, path)
	if err != nil || len(h.Problems) > 0 || h.Version != h.Wanted || h.Size == 0 || h.Holder != strconv.Itoa(os.Getpid()) {
		t.Fatalf("in use: %+v, %v", h, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if h, err = sqlite.Check(ctx, path); err != nil || h.Holder != "" {
		t.Fatalf("closed: %+v, %v", h, err)
	}

	damage(t, path)
	h, err = sqlite.Check(ctx, path)
	if err == nil && len(h.Problems) == 0 {
		t.Fatalf("damage was not found: %+v", h)
	}
}

// damage writes over everything behind the first page.
func damage(t *testing.T, path string) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	junk := make([]byte, info.Size()-4096)
	for i := range junk {
		junk[i] = 0xa5
	}
	if _, err := f.WriteAt(junk, 4096); err != nil {
		t.Fatal(err)
	}
}
