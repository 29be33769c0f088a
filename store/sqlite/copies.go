package sqlite

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

// CheckCopy checks a copy, and removes the files that the check creates. An error says that the database is damaged;
// missing blobs are no error.
func CheckCopy(ctx context.Context, path string) (*Health, *References, error) {
	h, err := Check(ctx, path)
	if err != nil {
		return nil, nil, err
	}
	if len(h.Problems) > 0 {
		return nil, nil, &stepwell.Error{Code: stepwell.CodeInternal, Message: "the copy is damaged: " + h.Problems[0], Hint: "check the original with `stepwell doctor`"}
	}
	found, err := Verify(ctx, path)
	if err != nil {
		return nil, nil, err
	}
	if h.Log == 0 && h.Holder == "" {
		for _, end := range []string{"-wal", "-shm"} {
			err = errors.Join(err, remove(path+end))
		}
	}
	return h, found, err
}

// remove removes a file that may be there.
func remove(name string) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// incomplete marks a copy that lacks blobs.
const incomplete = "-incomplete"

// BackupInto makes a backup with a name of its own in a folder, which is created if it does not exist, and checks it as
// CheckCopy does. Of the database's copies with such names the newest keep are left there, itself included. A copy that
// lacks blobs is an error, CodeInternal, that names them: it stays too, marked in its name, in the place of an earlier one of that
// kind, and no other copy makes room for it. CodeConflict: another call is under way.
func (s *Store) BackupInto(ctx context.Context, folder string, keep int, progress func(done, total int)) (*store.Copied, error) {
	if !s.copying.TryLock() {
		return nil, &stepwell.Error{Code: stepwell.CodeConflict, Message: "another backup is being made", Hint: "wait for its end"}
	}
	defer s.copying.Unlock()
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "create the folder for backups", Hint: "check its parent's permissions", Err: err}
	}
	if err := s.removeUnfinished(folder); err != nil {
		return nil, err
	}
	path := filepath.Join(folder, s.copyPrefix()+s.now().UTC().Format("20060102T150405.000Z")+".db")
	if err := s.Backup(ctx, path, progress); err != nil {
		return nil, err
	}
	h, found, err := CheckCopy(ctx, path)
	if err != nil {
		return nil, err
	}
	c := &store.Copied{Path: path, Size: h.Size, Blobs: found.Blobs}
	if broken := found.Err(path + ".blobs"); broken != nil {
		marked := strings.TrimSuffix(path, ".db") + incomplete + ".db"
		err := errors.Join(os.Rename(path+".blobs", marked+".blobs"), os.Rename(path, marked))
		if err == nil {
			_, err = s.removeOlder(folder, 1, func(name string) bool { return strings.Contains(name, incomplete) })
		}
		return nil, errors.Join(&stepwell.Error{Code: stepwell.CodeInternal, Message: marked + " was written, but is not whole", Err: broken}, err)
	}
	c.Removed, err = s.removeOlder(folder, keep, func(name string) bool { return !strings.Contains(name, incomplete) })
	return c, err
}

// copyPrefix is how the names of this database's copies begin: those of another one in the same folder differ.
func (s *Store) copyPrefix() string {
	return strings.TrimSuffix(filepath.Base(s.path), ".db") + "-" + s.ID()[:min(8, len(s.ID()))] + "-"
}

// copies are the names of the database's copies, incomplete ones too, oldest first.
func (s *Store) copies(folder string) ([]string, error) {
	entries, err := os.ReadDir(folder) // sorted
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name(), s.copyPrefix())
		if at, _, dot := strings.Cut(rest, "Z"); ok && dot {
			if _, err := time.Parse("20060102T150405.000", at); err == nil {
				names = append(names, e.Name())
			}
		}
	}
	return names, nil
}

// removeUnfinished removes backups that a process's death cut off.
func (s *Store) removeUnfinished(folder string) error {
	names, err := s.copies(folder)
	for _, name := range names {
		copied, _, _ := strings.Cut(name, ".db")
		if slices.Contains(names, copied+".db") {
			continue
		}
		err = errors.Join(err, os.RemoveAll(filepath.Join(folder, name)))
	}
	return err
}

// removeOlder leaves the newest copies of a kind.
func (s *Store) removeOlder(folder string, keep int, of func(name string) bool) (removed []string, err error) {
	names, err := s.copies(folder)
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasSuffix(name, ".db") || !of(name) })
	for _, name := range names[:max(0, len(names)-keep)] {
		path := filepath.Join(folder, name)
		// The file goes first: blobs of a copy without one are removed the next time.
		if err := errors.Join(remove(path), os.RemoveAll(path+".blobs")); err != nil {
			return removed, &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "remove an older backup", Err: err}
		}
		removed = append(removed, name)
	}
	return removed, nil
}
