package output

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/zeebo/xxh3"

	"github.com/stepwell/stepwell/stream"
)

// lines is a file of lines that grows, compressed or not, and can be cut back to where it was durable:
// compressed files are closed member by member, which readers join again (RFC 1952 §2.2, RFC 8878 §3.1).
type lines struct {
	file   *os.File
	packed io.WriteCloser // into file; nil when nothing has been written since the last sync
	kind   string         // "", gz or zst
	buf    []byte
	last   linesState // as of the last sync
}

// linesState is where a file of lines was durable.
type linesState struct {
	Size int64  `json:"size"`
	Tail uint64 `json:"tail,string"` // hash of the last bytes before it
}

// compression is how a file of that name is compressed.
func compression(name string) string {
	switch {
	case strings.HasSuffix(name, ".gz"):
		return "gz"
	case strings.HasSuffix(name, ".zst"):
		return "zst"
	}
	return ""
}

// openLines opens a file for appending behind s, which cuts off what was not promised. A file that is not as
// s tells is stream.ErrStateGone. kind is as compression tells.
func openLines(path, kind string, s linesState) (*lines, error) {
	flags := os.O_RDWR | os.O_CREATE
	if s.Size > 0 {
		flags = os.O_RDWR
	}
	f, err := os.OpenFile(path, flags, 0o644)
	if os.IsNotExist(err) {
		return nil, fmt.Errorf("%w: %s is missing", stream.ErrStateGone, path)
	}
	if err != nil {
		return nil, err
	}
	l := &lines{file: f, kind: kind, last: s}
	if err = l.check(s); err == nil {
		err = f.Truncate(s.Size)
	}
	if err == nil {
		_, err = f.Seek(s.Size, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return l, nil
}

func (l *lines) check(s linesState) error {
	tail, err := tailOf(l.file, s.Size)
	if err != nil || tail != s.Tail && s.Size > 0 {
		return fmt.Errorf("%w: %s was changed", stream.ErrStateGone, l.file.Name())
	}
	return nil
}

// tailOf hashes the last 4 KiB before an offset.
func tailOf(f io.ReaderAt, size int64) (uint64, error) {
	tail := make([]byte, min(size, 4096))
	_, err := f.ReadAt(tail, size-int64(len(tail)))
	if err == io.EOF && len(tail) == 0 {
		err = nil
	}
	return xxh3.Hash(tail), err
}

// add appends a line.
func (l *lines) add(text []byte) error {
	l.buf = append(append(l.buf, text...), '\n')
	if len(l.buf) < 1<<18 {
		return nil
	}
	return l.flush()
}

func (l *lines) flush() error {
	if len(l.buf) == 0 {
		return nil
	}
	if l.packed == nil {
		var err error
		if l.packed, err = pack(l.file, l.kind); err != nil {
			return err
		}
	}
	_, err := l.packed.Write(l.buf)
	l.buf = l.buf[:0]
	return err
}

// pack compresses into w.
func pack(w io.Writer, kind string) (io.WriteCloser, error) {
	switch kind {
	case "gz":
		return gzip.NewWriterLevel(w, gzip.DefaultCompression)
	case "zst":
		return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
	}
	return plainWriter{w}, nil
}

type plainWriter struct{ io.Writer }

func (plainWriter) Close() error { return nil }

// unpack reads what pack wrote.
func unpack(r io.Reader, kind string) (io.ReadCloser, error) {
	switch kind {
	case "gz":
		return gzip.NewReader(r)
	case "zst":
		d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	}
	return io.NopCloser(r), nil
}

// sync makes all lines durable and tells where.
func (l *lines) sync() (linesState, error) {
	if err := l.flush(); err != nil || l.packed == nil {
		return l.last, err
	}
	if err := l.packed.Close(); err != nil {
		return linesState{}, err
	}
	l.packed = nil
	if err := l.file.Sync(); err != nil {
		return linesState{}, err
	}
	at, err := l.file.Seek(0, io.SeekCurrent)
	if err != nil {
		return linesState{}, err
	}
	tail, err := tailOf(l.file, at)
	l.last = linesState{Size: at, Tail: tail}
	return l.last, err
}

func (l *lines) close() { l.file.Close() }
