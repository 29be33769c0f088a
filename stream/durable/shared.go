package durable

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
)

// Shared is a place that all workers reach: a folder (SharedFolder) or a bucket (files.Bucket). Names are relative paths
// with slashes. A body is durable under its name when Put or Create returns, and nobody sees a part of it. An error that
// is none of those named may pass. What has returned is seen by every call after it, in any process. No body is empty. For
// any number of goroutines and processes.
type Shared interface {
	// Put stores a body under a name, in place of the one that is there.
	Put(ctx context.Context, name string, body []byte) error
	// Create stores a body under a name that is not there yet: fs.ErrExist. Of several at once one succeeds.
	Create(ctx context.Context, name string, body []byte) error
	// Get reads a body; fs.ErrNotExist.
	Get(ctx context.Context, name string) ([]byte, error)
	// List gives everything whose name begins with a prefix, by name.
	List(ctx context.Context, prefix string) ([]Stored, error)
	// Remove removes a name; a missing one is no error.
	Remove(ctx context.Context, name string) error
}

// Stored is what Shared.List finds.
type Stored struct {
	Name     string
	Modified time.Time
}

// Probe checks that a place does what Shared promises: CodeInvalid when it does not, as with a bucket whose service
// ignores If-None-Match.
func Probe(ctx context.Context, place Shared) error {
	name := "probe/" + NewToken()
	bad := func(what string) error {
		return &stepwell.Error{Code: stepwell.CodeInvalid, Message: "the place that workers share " + what,
			Hint: "use a folder that all workers mount, or a bucket of a service with conditional writes (If-None-Match)"}
	}
	if err := place.Create(ctx, name, []byte(name)); err != nil {
		return err
	}
	second := place.Create(ctx, name, []byte("again"))
	body, err := place.Get(ctx, name)
	found, lerr := place.List(ctx, "probe/")
	if err := errors.Join(err, lerr, place.Remove(ctx, name)); err != nil {
		return err
	}
	switch {
	case !errors.Is(second, fs.ErrExist):
		return bad("lets two processes create one name")
	case string(body) != name:
		return bad("does not give back what was stored")
	case !slices.ContainsFunc(found, func(s Stored) bool { return s.Name == name }):
		return bad("does not list what was stored")
	}
	return nil
}

// SharedFolder is a directory that all workers have at some path. Its file system must have hard links, and must show a new
// name to all machines at once: over NFS that needs the mount option lookupcache=positive.
type SharedFolder struct{ dir string }

// NewSharedFolder is the folder at dir, which is made with the first name.
func NewSharedFolder(dir string) *SharedFolder { return &SharedFolder{dir} }

func (f *SharedFolder) path(name string) string {
	return filepath.Join(f.dir, filepath.FromSlash(name))
}

// Put implements Shared.
func (f *SharedFolder) Put(ctx context.Context, name string, body []byte) error {
	return f.store(ctx, name, body, os.Rename)
}

// Create implements Shared: a second link of one name fails on every file system.
func (f *SharedFolder) Create(ctx context.Context, name string, body []byte) error {
	return f.store(ctx, name, body, func(temp, path string) error {
		err := os.Link(temp, path)
		return errors.Join(err, os.Remove(temp))
	})
}

func (f *SharedFolder) store(ctx context.Context, name string, body []byte, place func(temp, path string) error) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	to := f.path(name)
	dir := filepath.Dir(to)
	if err := MakeDir(dir); err != nil {
		return err
	}
	temp := filepath.Join(dir, "."+NewToken()+".tmp")
	err := WriteNew(temp, func(w *os.File) error {
		_, err := w.Write(body)
		return err
	})
	if err != nil {
		return err
	}
	if err := place(temp, to); err != nil {
		return err
	}
	return SyncDir(dir)
}

// Get implements Shared.
func (f *SharedFolder) Get(ctx context.Context, name string) ([]byte, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return os.ReadFile(f.path(name))
}

// List implements Shared. Files of processes that died while they wrote are left out.
func (f *SharedFolder) List(ctx context.Context, prefix string) (found []Stored, err error) {
	err = filepath.WalkDir(f.path(path.Dir(prefix+"x")), func(p string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed meanwhile
		}
		if err != nil || d.IsDir() {
			return errors.Join(err, context.Cause(ctx))
		}
		rel, err := filepath.Rel(f.dir, p)
		name := filepath.ToSlash(rel)
		if err != nil || !strings.HasPrefix(name, prefix) || strings.HasPrefix(d.Name(), ".") && strings.HasSuffix(name, ".tmp") {
			return err
		}
		info, err := d.Info()
		if err == nil {
			found = append(found, Stored{name, info.ModTime()})
		}
		return unlessGone(err)
	})
	if err != nil {
		return nil, fmt.Errorf("the folder that workers share: %w", err)
	}
	slices.SortFunc(found, func(a, b Stored) int { return strings.Compare(a.Name, b.Name) })
	return found, nil
}

// Remove implements Shared.
func (f *SharedFolder) Remove(ctx context.Context, name string) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return unlessGone(os.Remove(f.path(name)))
}

// unlessGone is an error that is not about a file that is not there.
func unlessGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
