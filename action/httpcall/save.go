package httpcall

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"

	"github.com/stepwell/stepwell/action"
)

// save writes a body to a file, which appears under its name complete and flushed or not at all.
func (a *answer) save(path string, body io.Reader, limit int64) (err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return action.Invalid("", "the directory of the file: %v", err)
	}
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".part-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name()) // nolint:errcheck // the first error is the cause
		}
	}()
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, sum), io.LimitReader(body, limit+1))
	if err != nil {
		return err
	}
	if n > limit {
		return tooLarge(limit, "take more with max_bytes")
	}
	if err = f.Chmod(0o644); err != nil {
		return err
	}
	if err = f.Sync(); err != nil {
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return err
	}
	kind, _ := mediaType(a.header)
	a.file = map[string]any{"path": path, "size": n, "sha256": hex.EncodeToString(sum.Sum(nil)), "content_type": kind}
	return nil
}
