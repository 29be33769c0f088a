package durable

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"
)

// staleAfter is the age at which a temporary file counts as left by a crash.
const staleAfter = 24 * time.Hour

// SyncDir makes the names in a directory durable. Windows has no such call and does it by itself.
func SyncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	return syncFile(dir)
}

// syncFile makes a file's content durable.
func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// MakeDir makes a directory and those above it that are missing, durably.
func MakeDir(dir string) error {
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	above := filepath.Dir(dir)
	if above != dir {
		if err := MakeDir(above); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return SyncDir(above)
}

// WriteNew makes a file, durable when it returns, and none at all when write fails.
func WriteNew(path string, write func(*os.File) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err = write(f); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// WriteFile replaces a file atomically: readers see the old file or the whole new one, which is durable when WriteFile
// returns. Missing directories are made. After an error the old file is still there.
func WriteFile(path string, write func(*os.File) error) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	temp := filepath.Join(dir, Hidden(path, "."+NewToken()+".tmp"))
	if err := WriteNew(temp, write); err != nil {
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return SyncDir(dir)
}

// Publish moves a local file to its local destination atomically: readers of dest see the old file or the whole new
// one. When it returns, the file is durable under its name. Missing directories are made. Another file system gets a
// copy, whose size is compared.
func Publish(ctx context.Context, local, dest string) error {
	if err := MakeDir(filepath.Dir(dest)); err != nil {
		return err
	}
	if err := syncFile(local); err != nil {
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
	return SyncDir(filepath.Dir(dest))
}

// copyOver copies a file to another file system, under its name when all of it is there.
func copyOver(ctx context.Context, local, dest string) error {
	if err := removeStale(dest); err != nil {
		return err
	}
	in, err := os.Open(local)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	return WriteFile(dest, func(out *os.File) error {
		n, err := io.Copy(out, Abortable(ctx, in))
		if err == nil && n != info.Size() {
			err = fmt.Errorf("%d bytes were copied of %d", n, info.Size())
		}
		return err
	})
}

// Abortable ends reading when the context does.
func Abortable(ctx context.Context, in io.Reader) io.Reader { return &abortable{ctx, in} }

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

// removeStale removes the temporary files that WriteFile of dest has left after a crash more than staleAfter ago.
func removeStale(dest string) error {
	entries, err := os.ReadDir(filepath.Dir(dest))
	if err != nil {
		return err
	}
	prefix := Hidden(dest, "") + "."
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

// Hidden is the name of a hidden file that belongs to path, short enough for a file system.
func Hidden(path, suffix string) string {
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

// EscapeGlob makes a path stand for itself in a pattern of filepath.Glob.
func EscapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}
