package media

import (
	"context"
	"errors"
	"io"
)

const (
	// window is how much is read at once; headers and tables lie close together.
	window = 4 << 10
	// maxReadBytes and maxReads bound the work on one file's metadata, hashing aside. Media of many
	// hours need a tenth of it.
	maxReadBytes = 256 << 20
	maxReads     = 2_000_000
	// maxLeaf bounds a structure that is held in memory as a whole.
	maxLeaf = 1 << 20
)

var errBudget = errors.New("the description of the file is larger than the reader's limit")

// boundedReader reads a file through a small window and gives up when a file asks for too much
// work. It is for one goroutine.
type boundedReader struct {
	ctx   context.Context
	src   io.ReaderAt
	size  int64
	reads int
	bytes int64
	buf   []byte
	at    int64 // offset of buf
}

func newBoundedReader(ctx context.Context, src io.ReaderAt, size int64) *boundedReader {
	return &boundedReader{ctx: ctx, src: src, size: size, reads: maxReads, bytes: maxReadBytes}
}

// ReadAt implements io.ReaderAt within the limits; it ends at the size known when the file was opened.
func (b *boundedReader) ReadAt(p []byte, off int64) (int, error) {
	if b.reads--; b.reads < 0 {
		return 0, errBudget
	}
	if off < 0 || off >= b.size {
		return 0, io.EOF
	}
	var eof error
	if int64(len(p)) > b.size-off {
		p, eof = p[:b.size-off], io.EOF
	}
	if n := len(p); off >= b.at && off+int64(n) <= b.at+int64(len(b.buf)) {
		return copy(p, b.buf[off-b.at:]), eof
	}
	if len(p) >= window {
		n, err := b.fetch(p, off)
		if err == nil {
			err = eof
		}
		return n, err
	}
	if b.buf == nil {
		b.buf = make([]byte, 0, window)
	}
	n, err := b.fetch(b.buf[:min(window, b.size-off)], off)
	b.buf, b.at = b.buf[:n], off
	if n < len(p) {
		return copy(p, b.buf), err
	}
	return copy(p, b.buf), eof
}

func (b *boundedReader) fetch(p []byte, off int64) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	if b.bytes -= int64(len(p)); b.bytes < 0 {
		return 0, errBudget
	}
	n, err := b.src.ReadAt(p, off)
	if n == len(p) {
		return n, nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// section is the file from off on as a stream.
func (b *boundedReader) section(off, n int64) *io.SectionReader {
	return io.NewSectionReader(b, off, n)
}
