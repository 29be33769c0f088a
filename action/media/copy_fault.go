package media

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
)

// fault says on which end of a copy something went wrong.
type fault struct {
	side string
	err  error
}

func (f *fault) Error() string { return f.side + ": " + f.err.Error() }
func (f *fault) Unwrap() error { return f.err }

func sourceFault(err error) error      { return &fault{"source", err} }
func destinationFault(err error) error { return &fault{"destination", err} }

// stopError ends the attempt: the other files would fail, too.
type stopError struct{ err error }

func (s *stopError) Error() string { return s.err.Error() }
func (s *stopError) Unwrap() error { return s.err }

func isAny(err error, list ...error) bool {
	for _, e := range list {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// isMediumFault says whether an error means that the device is gone.
func isMediumFault(err error) bool {
	return isAny(err, syscall.ENODEV, syscall.ENXIO, syscall.ESTALE, syscall.ENOTCONN, syscall.Errno(123)) // 123: ENOMEDIUM on Linux
}

// waitForMedium asks for another attempt when the card may be there again.
func waitForMedium(dir string, err error) error {
	return action.Retry(0, &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "waiting for medium " + dir, Err: err,
		Hint: "insert the card or connect the disk again; what is stored already is kept"})
}

// destinationError explains a failure of the destination as a whole.
func destinationError(err error) error {
	hint := "make the destination writable and reachable; what is stored already is kept"
	message := "destination"
	if isAny(err, syscall.ENOSPC, syscall.EDQUOT) {
		message, hint = "the destination is full", "free space there; the next attempt continues from what is stored"
	}
	return &stepwell.Error{Code: stepwell.CodeUnavailable, Message: message, Err: err, Hint: hint}
}

// classify finds out whether an error concerns one file or the whole copy.
func (g *ingest) classify(err error) error {
	var f *fault
	var stop *stopError
	if errors.As(err, &stop) || !errors.As(err, &f) {
		return err
	}
	if f.side == "destination" {
		if isAny(err, syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EIO) || isMediumFault(err) {
			return &stopError{destinationError(f.err)}
		}
		return err
	}
	if isMediumFault(err) || g.mediumGone() {
		return &stopError{waitForMedium(g.srcDir, f.err)}
	}
	return err
}

// mediumGone reports whether the source directory is no longer the one that was opened, or is empty: a removed card
// leaves an empty mount point.
func (g *ingest) mediumGone() bool {
	now, err := os.Stat(g.srcDir)
	if err != nil || !os.SameFile(now, g.srcInfo) {
		return true
	}
	d, err := os.Open(g.srcDir)
	if err != nil {
		return true
	}
	defer d.Close()
	_, err = d.ReadDir(1)
	return err != nil
}

// worthRetry excludes errors that an immediate retry would repeat.
func worthRetry(err error) bool {
	var stop *stopError
	if errors.As(err, &stop) || isAny(err, fs.ErrNotExist, fs.ErrPermission, syscall.ENAMETOOLONG, context.Canceled, context.DeadlineExceeded) {
		return false
	}
	code := stepwell.CodeOf(err)
	return code != stepwell.CodeInvalid && code != stepwell.CodeConflict
}

// copyBlocks copies until the end of src, looks at ctx between blocks, and says which end failed.
func copyBlocks(ctx context.Context, dst io.Writer, src io.Reader, progress func(int64)) (int64, error) {
	buf := make([]byte, blockSize)
	var total int64
	for {
		if err := ctx.Err(); err != nil {
			return total, err
		}
		n, readErr := src.Read(buf)
		if n > 0 {
			if _, err := dst.Write(buf[:n]); err != nil {
				return total, destinationFault(err)
			}
			total += int64(n)
			if progress != nil {
				progress(total)
			}
		}
		if errors.Is(readErr, io.EOF) {
			return total, nil
		}
		if readErr != nil {
			return total, sourceFault(readErr)
		}
		if n == 0 {
			return total, sourceFault(io.ErrNoProgress)
		}
	}
}

func notThere(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// noHardLinks says whether the file system, not the name, is why a link failed.
func noHardLinks(err error) bool {
	return isAny(err, syscall.EPERM, syscall.ENOTSUP, syscall.ENOSYS, syscall.EMLINK, syscall.EOPNOTSUPP)
}

// realPath resolves links in the part of a path that exists.
func realPath(p string) string {
	rest := ""
	for dir := p; ; {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(real, rest)
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return p
		}
		rest = filepath.Join(filepath.Base(dir), rest)
		dir = parent
	}
}

// fileOps are the operations that tests make fail.
type fileOps struct {
	open   func(root *os.Root, name string) (sourceFile, error)
	create func(root *os.Root, name string) (targetFile, error)
	link   func(root *os.Root, from, to string) error
	free   func(dir string) (int64, bool) // bytes; false: unknown
}

type sourceFile interface {
	io.ReadCloser
	Stat() (fs.FileInfo, error)
}

type targetFile interface {
	io.WriteCloser
	Sync() error
}

func systemOps() fileOps {
	return fileOps{
		open: func(root *os.Root, name string) (sourceFile, error) { return root.Open(name) },
		create: func(root *os.Root, name string) (targetFile, error) {
			return root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		},
		link: func(root *os.Root, from, to string) error { return root.Link(from, to) },
		free: action.FreeSpace,
	}
}

// syncDir makes the names in a directory durable. Some file systems cannot, and say so.
func syncDir(root *os.Root, name string) error {
	d, err := root.Open(name)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !isAny(err, syscall.EINVAL, syscall.ENOTSUP) {
		return fmt.Errorf("flush directory: %w", err)
	}
	return nil
}
