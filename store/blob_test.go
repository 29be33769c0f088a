package store_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// files lists the files below a directory.
func files(t *testing.T, dir string) (out []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			out = append(out, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "blobs")
	f := store.NewFolder(dir)
	for _, value := range [][]byte{nil, []byte("x"), []byte("naïve 日本 \x00"), bytes.Repeat([]byte("0123456789abcdef"), 1<<16)} {
		ref, err := f.Put(t.Context(), value)
		if err != nil {
			t.Fatal(err)
		}
		if !engine.IsRef([]byte(ref)) {
			t.Errorf("the engine does not take %q for a reference", ref)
		}
		if size, ok := store.RefSize(ref); !ok || size != int64(len(value)) {
			t.Errorf("%q stands for %d bytes (%t), want %d", ref, size, ok, len(value))
		}
		got, err := f.Load(t.Context(), ref)
		if err != nil || !bytes.Equal(got, value) {
			t.Errorf("%d bytes came back of %d, %v", len(got), len(value), err)
		}
	}
	const ref = "@sha256:2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881:1" // of "x"
	if got, err := f.Load(t.Context(), ref); err != nil || string(got) != "x" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "2d", ref[8:72])); err != nil {
		t.Error(err)
	}
}

// TestFolderTogether has many store the same value at once: one file, and nothing half done.
func TestFolderTogether(t *testing.T) {
	dir := t.TempDir()
	value := bytes.Repeat([]byte("v"), 100_000)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			ref, err := store.NewFolder(dir).Put(t.Context(), value)
			if err == nil {
				_, err = store.NewFolder(dir).Load(t.Context(), ref)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if list := files(t, dir); len(list) != 1 {
		t.Errorf("files: %q", list)
	}
}

func TestFolderDamage(t *testing.T) {
	dir := t.TempDir()
	f := store.NewFolder(dir)
	ref, err := f.Put(t.Context(), []byte("a value"))
	if err != nil {
		t.Fatal(err)
	}
	path := files(t, dir)[0]
	wantCode := func(err error, code stepwell.Code) {
		t.Helper()
		if stepwell.CodeOf(err) != code {
			t.Errorf("error %v, want code %s", err, code)
		}
	}
	for _, other := range []string{"a vAlue", "a valu", ""} {
		if err := os.WriteFile(path, []byte(other), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err = f.Load(t.Context(), ref)
		wantCode(err, stepwell.CodeInternal)
	}
	if _, err := f.Put(t.Context(), []byte("a value")); err != nil { // a file of another size is replaced
		t.Fatal(err)
	}
	if _, err := f.Load(t.Context(), ref); err != nil {
		t.Error(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	_, err = f.Load(t.Context(), ref)
	wantCode(err, stepwell.CodeNotFound)
	for _, bad := range []string{"", "@", "x", "@sha256:", "@sha256:00:1", "@sha256:" + strings.Repeat("g", 64) + ":1", "@sha256:" + strings.Repeat("a", 64), ref + "0x",
		strings.ToUpper(ref), "@sha256:../../../../etc/passwd:1", strings.Replace(ref, ":7", ":-7", 1)} {
		_, err := f.Load(t.Context(), bad)
		wantCode(err, stepwell.CodeInvalid)
	}
}

// TestFolderUnwritable leaves nothing behind when it fails.
func TestFolderUnwritable(t *testing.T) {
	dir := t.TempDir()
	blocked := filepath.Join(dir, "blobs")
	if err := os.WriteFile(blocked, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if ref, err := store.NewFolder(blocked).Put(t.Context(), []byte("x")); err == nil || ref != "" {
		t.Errorf("stored as %q in a file", ref)
	}
	if list := files(t, dir); len(list) != 1 {
		t.Errorf("left behind: %q", list)
	}
	_, err := store.NewFolder(blocked).Load(t.Context(), "@sha256:"+strings.Repeat("a", 64)+":1")
	if err == nil || errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

// FuzzRef: for any reference, Load reads nothing outside its folder and does not panic.
func FuzzRef(f *testing.F) {
	for _, seed := range []string{"@sha256:2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881:1", "@sha256::", "@sha256:..:0", "\x00"} {
		f.Add(seed)
	}
	folder := store.NewFolder(f.TempDir())
	f.Fuzz(func(t *testing.T, ref string) {
		if value, err := folder.Load(t.Context(), ref); err == nil {
			t.Errorf("%q loads %q from an empty folder", ref, value)
		}
	})
}

// TestFolderSweep removes old unused blobs and others' leftovers, and nothing else.
func TestFolderSweep(t *testing.T) {
	dir := t.TempDir()
	f := store.NewFolder(dir)
	week := time.Now().Add(-7 * 24 * time.Hour)
	put := func(text string, old bool) (hash string) {
		t.Helper()
		ref, err := f.Put(t.Context(), []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		file, err := f.File(ref)
		if err == nil && old {
			err = os.Chtimes(file, week, week)
		}
		if err != nil {
			t.Fatal(err)
		}
		return filepath.Base(file)
	}
	used, unused, young := put("used", true), put("unused", true), put("young", false)
	aside, back := put("a", true), put("b", false) // left by processes that died while they removed them
	place := func(hash, begin string) string { return filepath.Join(dir, hash[:2], begin+hash) }
	for _, hash := range []string{aside, back} {
		if err := os.Rename(place(hash, ""), place(hash, ".gone-")); err != nil {
			t.Fatal(err)
		}
	}
	for name, at := range map[string]time.Time{".tmp-old": week, ".tmp-new": time.Now(), "README": week} {
		path := filepath.Join(dir, used[:2], name)
		if err := errors.Join(os.WriteFile(path, nil, 0o644), os.Chtimes(path, at, at)); err != nil {
			t.Fatal(err)
		}
	}
	removed := 0
	for shard := range 256 {
		n, err := f.Sweep(t.Context(), byte(shard), time.Now().Add(-time.Hour), func(_ context.Context, hashes []string) (map[string]bool, error) {
			return map[string]bool{used: true}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		removed += n
	}
	got := files(t, dir)
	want := []string{place(used, ""), place(young, ""), place(back, ""), filepath.Join(dir, used[:2], ".tmp-new"), filepath.Join(dir, used[:2], "README")}
	slices.Sort(got)
	slices.Sort(want)
	if removed != 1 || !slices.Equal(got, want) {
		t.Errorf("removed %d (%s), left are\n%q, want\n%q", removed, unused, got, want)
	}
}

// TestFolderSweepAsks removes nothing when the use of blobs is unknown.
func TestFolderSweepAsks(t *testing.T) {
	f := store.NewFolder(t.TempDir())
	ref, err := f.Put(t.Context(), []byte("x")) // 2d…
	if err != nil {
		t.Fatal(err)
	}
	failed := errors.New("no answer")
	if _, err := f.Sweep(t.Context(), 0x2d, time.Now().Add(time.Hour), func(context.Context, []string) (map[string]bool, error) { return nil, failed }); !errors.Is(err, failed) {
		t.Errorf("error %v", err)
	}
	if _, err := f.Load(t.Context(), ref); err != nil {
		t.Error(err)
	}
}
