package store

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Prefixes of temporary files: a blob being written, and a blob being removed.
const (
	tmpBegin  = ".tmp-"
	goneBegin = ".gone-"
)

// sweepPage is how many blobs are asked about at once.
const sweepPage = 1000

// File is the path of a blob by its reference; CodeInvalid for a malformed one.
func (f *Folder) File(ref string) (string, error) {
	hash, _, err := ParseRef(ref)
	if err != nil {
		return "", err
	}
	return f.file(hash), nil
}

// Sweeper removes unreferenced blobs. A store whose retention removes blobs has one for its Blobs.
type Sweeper interface {
	// Touch sets when a blob, named by its hash, was last needed; a missing blob is no error.
	Touch(hash string, at time.Time) error
	// Sweep removes the blobs of one of 256 parts that were last needed before a time and that used does not name.
	Sweep(ctx context.Context, part byte, before time.Time, used func(ctx context.Context, hashes []string) (map[string]bool, error)) (removed int, err error)
}

// Touch gives the blob with a hash an age of zero. A missing blob is ignored.
func (f *Folder) Touch(hash string, now time.Time) error {
	if !isHash(hash) {
		return nil
	}
	err := os.Chtimes(f.file(hash), now, now)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

func isHash(hash string) bool {
	return len(hash) == 64 && strings.Trim(hash, "0123456789abcdef") == ""
}

// Sweep removes files of one of the folder's 256 directories, unless stored again since before or in use: used gets
// hashes and returns those with references. Leftovers of dead processes go too. It counts the removed blobs.
func (f *Folder) Sweep(ctx context.Context, shard byte, before time.Time, used func(ctx context.Context, hashes []string) (map[string]bool, error)) (removed int, err error) {
	dir := filepath.Join(f.dir, hex.EncodeToString([]byte{shard}))
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("look for unused blobs: %w", err)
	}
	var old []string
	var errs []error
	for _, e := range entries {
		name := e.Name()
		info, err := e.Info()
		switch {
		case err != nil || !info.Mode().IsRegular():
		case strings.HasPrefix(name, goneBegin):
			errs = append(errs, bury(dir, name, before))
		case !info.ModTime().Before(before):
		case strings.HasPrefix(name, tmpBegin):
			errs = append(errs, os.Remove(filepath.Join(dir, name)))
		case isHash(name):
			old = append(old, name)
		}
	}
	for len(old) > 0 && ctx.Err() == nil {
		page := old[:min(len(old), sweepPage)]
		old = old[len(page):]
		n, err := f.removeUnused(ctx, page, before, used)
		removed += n
		errs = append(errs, err)
	}
	return removed, errors.Join(append(errs, ctx.Err())...)
}

func (f *Folder) removeUnused(ctx context.Context, page []string, before time.Time, used func(context.Context, []string) (map[string]bool, error)) (removed int, err error) {
	keep, err := used(ctx, page)
	if err != nil {
		return 0, err
	}
	var errs []error
	for _, hash := range page {
		if keep[hash] {
			continue
		}
		gone, err := f.remove(hash, before)
		if errs = append(errs, err); gone {
			removed++
		}
	}
	return removed, errors.Join(errs...)
}

// remove removes the file of a blob unless it is young. Another process may store the value at the same
// moment: so the file steps aside first, and comes back if it has become young before it did.
func (f *Folder) remove(hash string, before time.Time) (gone bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	path := f.file(hash)
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) || err == nil && !info.ModTime().Before(before) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	dir := filepath.Dir(path)
	if err := os.Rename(path, filepath.Join(dir, goneBegin+hash)); err != nil {
		return false, err
	}
	if err := bury(dir, goneBegin+hash, before); err != nil {
		return false, err
	}
	_, err = os.Stat(path)
	return errors.Is(err, os.ErrNotExist), nil
}

// bury removes a file that has stepped aside, or brings it back if it is young.
func bury(dir, name string, before time.Time) error {
	path := filepath.Join(dir, name)
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if hash := strings.TrimPrefix(name, goneBegin); isHash(hash) && !info.ModTime().Before(before) {
		return os.Rename(path, filepath.Join(dir, hash))
	}
	return os.Remove(path)
}
