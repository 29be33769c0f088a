package files

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/stream/durable"
)

// Publish moves a local file to its place atomically: readers of dest see the old file or the whole new one. When it
// returns, the file is durable under its name. Missing directories are made. Other file systems and S3 get a copy,
// whose size is compared. A bad name is CodeInvalid; https is read-only.
func (p *Places) Publish(ctx context.Context, local, dest string) error {
	if err := p.publish(ctx, local, dest, nil); err != nil {
		return about(dest, err)
	}
	return nil
}

func (p *Places) publish(ctx context.Context, local, dest string, over *version) error {
	if err := supported(dest); err != nil {
		return err
	}
	switch {
	case isWeb(dest):
		return &stepwell.Error{Code: stepwell.CodeInvalid, Message: "URLs are not written to", Hint: "use a local path or s3://"}
	case isS3(dest):
		if err := p.upload(ctx, local, dest, over); err != nil {
			return err
		}
		return os.Remove(local)
	}
	return durable.Publish(ctx, local, dest)
}

// Remove deletes a file, durably, and reports whether it existed.
func (p *Places) Remove(ctx context.Context, dest string) (was bool, err error) {
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
		return false, stepwell.Invalid("write the path of a file", "it is a directory")
	}
	if err := os.Remove(dest); err != nil {
		return false, err
	}
	return true, durable.SyncDir(filepath.Dir(dest))
}

// Lock locks a file for writing (durable.Locks). The lock is next to it, or for a remote file among the temporary
// files.
func (p *Places) Lock(dest, owner string, alone bool, clear func() error) (*durable.Lock, error) {
	l, err := p.locks.Acquire(lockPath(dest), dest, owner, alone, clear)
	if e, ok := errors.AsType[*stepwell.Error](err); ok && e.Code == stepwell.CodeInvalid && isS3(dest) {
		e.Hint = "its temporary directory is needed; set TMPDIR to one that can be written"
	}
	return l, err
}

// LockAt is Lock with the lock file at path.
func (p *Places) LockAt(path, dest, owner string, alone bool, clear func() error) (*durable.Lock, error) {
	return p.locks.Acquire(path, dest, owner, alone, clear)
}

// Turn waits until no other stream of this process publishes to a place that has no lock file.
func (p *Places) Turn(place string) (done func()) { return p.locks.Turn(place) }

func lockPath(dest string) string {
	if !isS3(dest) {
		return filepath.Join(filepath.Dir(dest), durable.Hidden(dest, ".lock"))
	}
	h := fnv.New64a()
	h.Write([]byte(dest)) //nolint:errcheck // never fails
	return filepath.Join(os.TempDir(), fmt.Sprintf(".stepwell-%016x.lock", h.Sum64()))
}
