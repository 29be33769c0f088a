package durable

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"
)

// carried is a local file of a Handover as it was saved last.
type carried struct {
	path  string
	info  fs.FileInfo
	parts parts
	ends  uint64 // hash of the first and the last bytes

	unsure bool   // it was fetched, and whoever opened it may have cut it since
	sum    uint64 // hash of all of it, if unsure
}

// carry is a file whose first bytes are in pieces.
func carry(name string, p parts) (*carried, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, moved(err)
	}
	c := &carried{path: name, info: info, parts: p}
	c.ends, err = endsOf(name, p.size())
	return c, err
}

// scan finds the files of the stream. What was saved of them stays where it is; the rest becomes pieces without a pack.
func (h *Handover) scan() (map[string]*carried, error) {
	next := map[string]*carried{}
	for _, part := range h.parts {
		root := h.base + part
		err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
			if name == root && errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil || !d.Type().IsRegular() || local(d.Name()) {
				return moved(err)
			}
			f, err := h.see(name)
			if err == nil {
				next[filepath.ToSlash(strings.TrimPrefix(name, h.base))] = f
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return next, nil
}

// local reports whether a file means something to this machine only: a lock, or what is not renamed yet.
func local(name string) bool {
	return strings.HasSuffix(name, ".lock") || strings.HasSuffix(name, ".tmp") || name == "lock"
}

// see compares a file with what was saved of it.
func (h *Handover) see(name string) (*carried, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, moved(err)
	}
	was := h.known[filepath.ToSlash(strings.TrimPrefix(name, h.base))]
	if was != nil && !was.unsure && os.SameFile(was.info, info) && was.info.Size() == info.Size() && was.info.ModTime().Equal(info.ModTime()) {
		return was, nil
	}
	var old parts
	if was != nil {
		same, err := was.begins(info)
		if err != nil {
			return nil, err
		}
		if same {
			old = was.parts
		}
	}
	f := &carried{path: name, info: info, parts: grow(old, info.Size())}
	f.ends, err = endsOf(name, info.Size())
	return f, err
}

// begins reports whether a file begins with what was saved of it: files are appended to, or replaced by new ones.
func (c *carried) begins(now fs.FileInfo) (bool, error) {
	size := c.parts.size()
	if !os.SameFile(c.info, now) || now.Size() < size || now.Size() == size && !c.unsure {
		return false, nil
	}
	if c.unsure {
		sum, err := sumOf(c.path, size)
		return sum == c.sum, err
	}
	ends, err := endsOf(c.path, size)
	return ends == c.ends, err
}

// grow adds the bytes up to size as new pieces. Small pieces before them are stored again together with them, as soon as as
// many bytes are new: a file has few pieces, and each byte is stored a few times.
func grow(old parts, size int64) parts {
	out := slices.Clone(old)
	fresh := size - out.size()
	if fresh == 0 {
		return out
	}
	for len(out) > 0 && out[len(out)-1].Size <= fresh && out[len(out)-1].Size+fresh <= maxPiece {
		fresh += out[len(out)-1].Size
		out = out[:len(out)-1]
	}
	for fresh > 0 {
		n := min(fresh, maxPiece)
		out = append(out, piece{Size: n})
		fresh -= n
	}
	return out
}

// endsOf is a hash of the first and the last bytes of the first size bytes of a file.
func endsOf(name string, size int64) (uint64, error) {
	n := min(size, edge)
	text, err := appendFrom(nil, name, 0, n)
	if err == nil {
		text, err = appendFrom(text, name, size-n, n)
	}
	return xxh3.Hash(text), err
}

// sumOf is a hash of the first size bytes of a file.
func sumOf(name string, size int64) (uint64, error) {
	f, err := os.Open(name)
	if err != nil {
		return 0, moved(err)
	}
	defer f.Close()
	sum := xxh3.New()
	if n, err := io.Copy(sum, io.LimitReader(f, size)); err != nil || n != size {
		return 0, errors.Join(err, errMoved)
	}
	return sum.Sum64(), nil
}
