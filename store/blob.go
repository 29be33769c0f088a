package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/stepwell/stepwell"
)

// refPrefix begins a reference; the hash in hexadecimal and the size in bytes follow.
const (
	refPrefix = "@sha256:"
	hashSize  = 64
)

// Folder keeps blobs as files, by the hash of their content: `aa/<hash>`, where aa is how the hash
// begins. A file appears whole or not at all, survives a loss of power, and never changes. Any
// number of processes may use one folder.
type Folder struct {
	dir   string
	owner string       // id of the database; "": it is not said
	owned atomic.Bool  // the folder says so
	mu    sync.RWMutex // held for reading while a value is stored, for writing while one is removed
}

var _ Blobs = (*Folder)(nil)

// NewFolder is the folder at dir, which is made with the first blob.
func NewFolder(dir string) *Folder { return &Folder{dir: dir} }

// Put stores a value and returns its reference, "@sha256:<hash>:<size>". It is durable when Put
// returns; storing it again costs a hash and makes the file young, so that Sweep leaves it alone.
func (f *Folder) Put(ctx context.Context, value []byte) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	sum := sha256.Sum256(value)
	hash := hex.EncodeToString(sum[:])
	ref := refPrefix + hash + ":" + strconv.Itoa(len(value))
	path := f.file(hash)
	f.mu.RLock()
	defer f.mu.RUnlock()
	if info, err := os.Stat(path); err == nil && info.Size() == int64(len(value)) {
		now := time.Now()
		if err := os.Chtimes(path, now, now); err == nil {
			return ref, nil
		} // else it has just been removed, or is somebody else's: the value is stored anew
	}
	if err := f.makeRoom(path); err != nil {
		return "", fileFault("store a blob", err)
	}
	if err := writeWhole(path, bytes.NewReader(value)); err != nil {
		return "", fileFault("store a blob", err)
	}
	return ref, nil
}

// fileFault gives an error of the file system its code: nearly all are transient (IsAway); a value too large for the
// file system is CodeLimit.
func fileFault(op string, err error) error {
	switch {
	case errors.Is(err, syscall.EFBIG):
		return &stepwell.Error{Code: stepwell.CodeLimit, Message: op + ": the value is larger than the file system takes", Hint: "keep large values in files of your own", Err: err}
	case diskFull(err):
		return Away(op, "the disk is full", "free some space; nothing that was reported as done is lost", err)
	case errors.Is(err, fs.ErrPermission):
		return Away(op, "the folder of the blobs cannot be used", "check its permissions", err)
	}
	return Away(op, "the disk reports an error", "check the disk and its file system", err)
}

func (f *Folder) file(hash string) string { return filepath.Join(f.dir, hash[:2], hash) }

// writeWhole makes a file that is there with its whole content, on disk, or not at all.
func writeWhole(path string, value io.Reader) error {
	dir := filepath.Dir(path)
	tmp, err := os.CreateTemp(dir, tmpBegin)
	if err != nil {
		return err
	}
	_, err = io.Copy(tmp, value)
	if err == nil {
		err = tmp.Sync()
	}
	err = errors.Join(err, tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return errors.Join(SyncDir(dir), SyncDir(filepath.Dir(dir)))
}

// SyncDir makes the names in a directory durable. Windows has no such call and does it by itself.
func SyncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Load reads a value: CodeInvalid for a malformed reference, CodeNotFound if it is missing, CodeInternal if it is
// damaged, CodeUnavailable if it cannot be read now.
func (f *Folder) Load(ctx context.Context, ref string) ([]byte, error) {
	return f.LoadInto(ctx, ref, nil)
}

// LoadInto is Load into the caller's memory, as far as its capacity goes.
func (f *Folder) LoadInto(ctx context.Context, ref string, into []byte) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	hash, size, err := ParseRef(ref)
	if err != nil {
		return nil, err
	}
	value, err := readInto(f.file(hash), into)
	if errors.Is(err, os.ErrNotExist) {
		return nil, &stepwell.Error{Code: stepwell.CodeNotFound, Message: "the blob " + hash + " is not in " + f.dir, Hint: "the folder belongs to the database: move both together"}
	}
	if err != nil {
		return nil, fileFault("read a blob", err)
	}
	if sum := sha256.Sum256(value); int64(len(value)) != size || hex.EncodeToString(sum[:]) != hash {
		return nil, &stepwell.Error{Code: stepwell.CodeInternal, Message: "the blob " + f.file(hash) + " is damaged", Hint: "restore it from a copy, or restart the step that made it"}
	}
	return value, nil
}

// readInto is os.ReadFile into the caller's memory.
func readInto(path string, into []byte) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	value := bytes.NewBuffer(into[:0])
	value.Grow(int(info.Size()) + bytes.MinRead)
	_, err = value.ReadFrom(file)
	return value.Bytes(), err
}

// RefSize is the size in bytes of the value that a reference stands for; ok is false for a malformed reference.
func RefSize(ref string) (size int64, ok bool) {
	_, size, err := ParseRef(ref)
	return size, err == nil
}

// ParseRef takes a reference apart; CodeInvalid for a malformed one.
func ParseRef(ref string) (hash string, size int64, err error) {
	rest, ok := strings.CutPrefix(ref, refPrefix)
	hash, number, cut := strings.Cut(rest, ":")
	raw, hexErr := hex.DecodeString(hash)
	size, sizeErr := strconv.ParseInt(number, 10, 64)
	if !ok || !cut || hexErr != nil || len(raw) != sha256.Size || hash != strings.ToLower(hash) || sizeErr != nil || size < 0 {
		return "", 0, &stepwell.Error{Code: stepwell.CodeInvalid, Message: fmt.Sprintf("%.100q is not a reference to a blob", ref)}
	}
	return hash, size, nil
}
