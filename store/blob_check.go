package store

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/stepwell/stepwell"
)

// ownerFile in the folder holds the id of the database that owns the blobs.
const ownerFile = "owner"

// Own records the id of the database (and its copies) that owns the blobs, if none is recorded. CodeConflict: another
// id is.
func (f *Folder) Own(id string) error {
	f.owner = id
	of, err := f.Owner()
	switch {
	case err != nil:
		return err
	case of == id:
		f.owned.Store(true)
		return nil
	case of != "":
		return &stepwell.Error{Code: stepwell.CodeConflict, Message: f.dir + " has the large outputs of another database",
			Hint: "put the folder back that belongs to this one, or move this one away"}
	}
	if _, err := os.Stat(f.dir); errors.Is(err, fs.ErrNotExist) {
		return nil // it is made, and says so, with the first blob
	}
	if err := f.mark(); err != nil {
		return fileFault("mark the folder of the blobs", err)
	}
	return nil
}

// Owner is the id of the database that owns the blobs, "" if none is recorded.
func (f *Folder) Owner() (string, error) {
	raw, err := os.ReadFile(filepath.Join(f.dir, ownerFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fileFault("look whose blobs these are", err)
	}
	return strings.TrimSpace(string(raw)), nil
}

func (f *Folder) mark() error {
	if err := writeWhole(filepath.Join(f.dir, ownerFile), strings.NewReader(f.owner+"\n")); err != nil {
		return err
	}
	f.owned.Store(true)
	return nil
}

// makeRoom makes the directories for a file.
func (f *Folder) makeRoom(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if f.owner == "" || f.owned.Load() {
		return nil
	}
	return f.mark()
}

// placeFile in the folder holds its name.
const placeFile = "place"

// Place is a name of the folder that is the same wherever it is mounted. Whoever asks first gives it one.
func (f *Folder) Place() (string, error) {
	path := filepath.Join(f.dir, placeFile)
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(f.dir, 0o755); err == nil {
			err = writeFirst(path, rand.Text())
		}
		if err == nil {
			raw, err = os.ReadFile(path)
		}
	}
	if err != nil {
		return "", fileFault("read the name of the folder of the blobs", err)
	}
	return "folder " + string(raw), nil
}

// writeFirst makes a file with a content unless there is one.
func writeFirst(path, content string) error {
	tmp := path + "-" + rand.Text()
	if err := os.WriteFile(tmp, []byte(content), 0o600); err != nil {
		return err
	}
	err := os.Link(tmp, path)
	if errors.Is(err, fs.ErrExist) {
		err = nil
	} else if err != nil { // a file system without links
		err = os.Rename(tmp, path)
	}
	if removed := os.Remove(tmp); !errors.Is(removed, fs.ErrNotExist) {
		err = errors.Join(err, removed)
	}
	return err
}

// Has reports whether the blob with a hash is there.
func (f *Folder) Has(hash string) bool {
	if !isHash(hash) {
		return false
	}
	_, err := os.Stat(f.file(hash))
	return err == nil
}

// Copy copies the blob with a hash, as it is, into another folder; there is false if it is not there.
func (f *Folder) Copy(to *Folder, hash string) (there bool, err error) {
	if !isHash(hash) {
		return false, nil
	}
	from, err := os.Open(f.file(hash))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fileFault("copy a blob", err)
	}
	path := to.file(hash)
	if err = to.makeRoom(path); err == nil {
		err = writeWhole(path, from)
	}
	if err = errors.Join(err, from.Close()); err != nil {
		return false, fileFault("copy a blob", err)
	}
	return true, nil
}

// Check reads a blob: CodeNotFound when it is missing, CodeInternal when it differs from its reference. The messages
// need no name before them.
func (f *Folder) Check(ctx context.Context, ref string) (err error) {
	hash, size, err := ParseRef(ref)
	if err != nil {
		return err
	}
	file, err := os.Open(f.file(hash))
	if errors.Is(err, fs.ErrNotExist) {
		return &stepwell.Error{Code: stepwell.CodeNotFound, Message: "is missing"}
	}
	if err != nil {
		return fileFault("read a blob", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	h := sha256.New()
	n, err := io.Copy(h, contextReader{ctx, file})
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return fileFault("read a blob", err)
	case n != size:
		return &stepwell.Error{Code: stepwell.CodeInternal, Message: fmt.Sprintf("has %d bytes instead of %d", n, size)}
	case hex.EncodeToString(h.Sum(nil)) != hash:
		return &stepwell.Error{Code: stepwell.CodeInternal, Message: "has another content"}
	}
	return nil
}

// contextReader ends with its context.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}
