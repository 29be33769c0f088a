package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

// inFolder are the names in a folder.
func inFolder(t *testing.T, folder string) []string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestBackupInto: the newest copies of the database stay, other files are untouched but for unfinished backups of it,
// and two backups at once are refused.
func TestBackupInto(t *testing.T) {
	dir := t.TempDir()
	open := func(name string) *Store {
		s, err := Open(t.Context(), Options{Path: filepath.Join(dir, name), Exclusive: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	s, other := open("a.db"), open("b.db")
	folder := filepath.Join(dir, "deep", "backups")
	foreign, err := other.BackupInto(t.Context(), folder, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	left := s.copyPrefix() + "20200101T000000.000Z.db"
	kept := []string{filepath.Base(foreign.Path), s.copyPrefix() + "notes.db", "a-important.db"}
	for _, name := range []string{kept[1], kept[2], left + ".part", left + ".part-wal"} {
		if err := os.WriteFile(filepath.Join(folder, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(folder, left+".blobs", "00"), 0o700); err != nil {
		t.Fatal(err)
	}
	var made []string
	for i := range 5 {
		c, err := s.BackupInto(t.Context(), folder, 2, nil)
		if err != nil {
			t.Fatal(err)
		}
		if i >= 2 && !slices.Equal(c.Removed, []string{made[i-2]}) || i < 2 && len(c.Removed) > 0 || c.Size == 0 {
			t.Errorf("%d: %+v", i, c)
		}
		made = append(made, filepath.Base(c.Path))
		for _, want := range kept {
			if !slices.Contains(inFolder(t, folder), want) {
				t.Errorf("%s was removed", want)
			}
		}
	}
	if err := TakeOver(t.Context(), filepath.Join(folder, made[4]), nil); err != nil {
		t.Errorf("the copy is not a database: %v", err)
	}
	for _, name := range inFolder(t, folder) {
		if strings.HasPrefix(name, left) {
			t.Errorf("%s of an unfinished backup is still there", name)
		}
		if copied, _, _ := strings.Cut(name, ".db"); slices.Contains(made[:3], copied+".db") {
			t.Errorf("%s is still there", name)
		}
	}
	s.copying.Lock()
	defer s.copying.Unlock()
	if _, err := s.BackupInto(t.Context(), folder, 1, nil); stepwell.CodeOf(err) != stepwell.CodeConflict {
		t.Error(err)
	}
}

// TestBackupOfObjects: a copy has the blobs that objects refer to, and a check finds out when one of them is missing.
func TestBackupOfObjects(t *testing.T) {
	s := open(t, Options{})
	ref, err := s.Blobs().Put(t.Context(), []byte("a chunk"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.PutObjects(t.Context(), store.Object{Kind: "upload", ID: "u", Body: []byte("1"), Blobs: []string{ref}}); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "copy.db")
	if err := s.Backup(t.Context(), to, nil); err != nil {
		t.Fatal(err)
	}
	found, err := Verify(t.Context(), to)
	if err != nil || found.Blobs != 1 || found.Lost != 0 {
		t.Fatalf("%+v %v", found, err)
	}
	file, err := store.NewFolder(to + ".blobs").File(ref)
	if err = errors.Join(err, os.Remove(file)); err != nil {
		t.Fatal(err)
	}
	found, err = Verify(t.Context(), to)
	if err != nil || found.Lost != 1 || !strings.Contains(found.Err("f").Error(), "the media of a lesson") {
		t.Fatalf("%+v %v", found, err)
	}
}
