package files

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/gofrs/flock"

	"github.com/stepwell/stepwell"
)

// staleAfter is when a temporary file is taken for one that a crash has left.
const staleAfter = 24 * time.Hour

// Publish puts a local file in its place at once, and takes it away from where it was: whoever looks at dest
// sees what was there before, or all of the new. When it returns, the file is durable under its name.
// Directories that are missing are made. Other file systems and S3 get a copy, whose size is compared. An
// error of the name is CodeInvalid; https is not written to.
func (p *Places) Publish(ctx context.Context, local, dest string) error {
	if err := p.publish(ctx, local, dest); err != nil {
		return about(dest, err)
	}
	return nil
}

func (p *Places) publish(ctx context.Context, local, dest string) error {
	if err := supported(dest); err != nil {
		return err
	}
	switch {
	case isWeb(dest):
		return &stepwell.Error{Code: stepwell.CodeInvalid, Message: "URLs are not written to", Hint: "use a local path or s3://"}
	case isS3(dest):
		if err := p.upload(ctx, local, dest); err != nil {
			return err
		}
		return os.Remove(local)
	}
	if err := makeDir(filepath.Dir(dest)); err != nil {
		return err
	}
	if err := syncPath(local); err != nil {
		return err
	}
	err := os.Rename(local, dest)
	if errors.Is(err, syscall.EXDEV) {
		if err = copyOver(ctx, local, dest); err == nil {
			err = os.Remove(local)
		}
	}
	if err != nil {
		return err
	}
	return syncPath(filepath.Dir(dest))
}

// remove takes away a file, durably, and tells whether there was one.
func (p *Places) remove(ctx context.Context, dest string) (was bool, err error) {
	if isS3(dest) {
		return p.removeObject(ctx, dest)
	}
	info, err := os.Lstat(dest)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	case info.IsDir():
		return false, invalid("it is a directory", "write the path of a file")
	}
	if err := os.Remove(dest); err != nil {
		return false, err
	}
	return true, syncPath(filepath.Dir(dest))
}

// copyOver brings a file from another file system.
func copyOver(ctx context.Context, local, dest string) (err error) {
	if err := removeStale(dest); err != nil {
		return err
	}
	in, err := os.Open(local)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.CreateTemp(filepath.Dir(dest), beside(dest, ".*.tmp"))
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, out.Close(), os.Remove(out.Name()))
		}
	}()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	n, err := io.Copy(out, &abortable{ctx, in})
	if err == nil && n != info.Size() {
		err = fmt.Errorf("%d bytes were copied of %d", n, info.Size())
	}
	if err = errors.Join(err, out.Chmod(0o644), out.Sync()); err != nil {
		return err
	}
	if err := os.Rename(out.Name(), dest); err != nil {
		return err
	}
	return out.Close()
}

// abortable ends reading when the context does.
type abortable struct {
	ctx context.Context
	in  io.Reader
}

// Read implements io.Reader.
func (a *abortable) Read(p []byte) (int, error) {
	if err := context.Cause(a.ctx); err != nil {
		return 0, err
	}
	return a.in.Read(p)
}

// removeStale takes away the temporary files that writing dest has left after a crash.
func removeStale(dest string) error {
	entries, err := os.ReadDir(filepath.Dir(dest))
	if err != nil {
		return err
	}
	prefix := beside(dest, "") + "."
	for _, e := range entries {
		name := e.Name()
		if !strings.HasPrefix(name, prefix) || !strings.HasSuffix(name, ".tmp") {
			continue
		}
		info, err := e.Info()
		if err == nil && time.Since(info.ModTime()) > staleAfter {
			err = os.Remove(filepath.Join(filepath.Dir(dest), name))
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// beside is the name of a hidden file that belongs to path, short enough for a file system.
func beside(path, suffix string) string {
	const longest = 200 // of 255; suffixes need some
	name := filepath.Base(path)
	if len(name) > longest {
		h := fnv.New64a()
		h.Write([]byte(name)) //nolint:errcheck // never fails
		cut := longest - 17
		for !utf8.RuneStart(name[cut]) {
			cut--
		}
		name = fmt.Sprintf("%s-%016x", name[:cut], h.Sum64())
	}
	return "." + name + suffix
}

func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// makeDir makes a directory durable with those above it that are missing.
func makeDir(dir string) error {
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	above := filepath.Dir(dir)
	if above != dir {
		if err := makeDir(above); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return syncPath(above)
}

// lock keeps a second writer away from an output: of the same machine, or of one whose file system shares
// locks.
type lock struct{ held *flock.Flock }

// lockPath is the lock of a path: beside it, or of a remote one among the temporary files.
func lockPath(dest string) string {
	if !isS3(dest) {
		return filepath.Join(filepath.Dir(dest), beside(dest, ".lock"))
	}
	h := fnv.New64a()
	h.Write([]byte(dest)) //nolint:errcheck // never fails
	return filepath.Join(os.TempDir(), fmt.Sprintf(".stepwell-%016x.lock", h.Sum64()))
}

func lockOutput(dest string) (*lock, error) {
	path := lockPath(dest)
	if err := makeDir(filepath.Dir(path)); err != nil {
		return nil, unwritable(dest, path, err)
	}
	for range 100 { // another that ends takes its file away, and then this lock means nothing
		l := flock.New(path)
		ok, err := l.TryLock()
		if err != nil {
			return nil, unwritable(dest, path, err)
		}
		if !ok {
			return nil, &stepwell.Error{Code: stepwell.CodeConflict, Message: dest + " is being written by another run",
				Hint: "wait until it has ended, or give this one another path"}
		}
		mine, err := l.Stat()
		if err != nil {
			return nil, errors.Join(err, l.Close())
		}
		if now, err := os.Stat(path); err == nil && os.SameFile(mine, now) {
			return &lock{l}, nil
		}
		if err := l.Close(); err != nil {
			return nil, err
		}
	}
	return nil, &stepwell.Error{Code: stepwell.CodeConflict, Message: dest + ": its lock changes all the time", Hint: "too many runs write it"}
}

// unwritable says of dest what an error of its lock, which nobody knows of, is about: the directory.
func unwritable(dest, path string, err error) error {
	if !errors.Is(err, fs.ErrPermission) && !errors.Is(err, syscall.EROFS) {
		return err
	}
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	hint := "give write permission on the directory, or write to another path"
	if isS3(dest) {
		hint = "its temporary directory is needed; set TMPDIR to one that can be written"
	}
	return &stepwell.Error{Code: stepwell.CodeInvalid, Message: dest + ": the directory " + filepath.Dir(path) + " cannot be written", Hint: hint, Err: err}
}

// release removes the lock's file while it is still held.
func (l *lock) release() error {
	return errors.Join(os.Remove(l.held.Path()), l.held.Close())
}
