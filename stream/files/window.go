package files

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
)

// windowSize is how much of a file is held at once, besides the row that is being read.
const windowSize = 256 << 10

// errTooLong is a row beyond Shape.MaxItem; it has been skipped.
var errTooLong = errors.New("too long")

// window is a text as it is read: a bounded piece of it, and where that piece is.
type window struct {
	ctx    context.Context
	in     io.Reader
	buf    []byte
	lo, hi int   // the bytes not yet consumed
	off    int64 // of buf[lo] in the text
	line   int64 // lines before buf[lo]
	err    error // of in; buffered bytes come first
}

func newWindow(ctx context.Context, in io.Reader) *window {
	return &window{ctx: ctx, in: in, buf: make([]byte, windowSize)}
}

// fill reads more bytes. It returns false at the end or when the window is full; w.err distinguishes them.
func (w *window) fill() bool {
	if w.lo > 0 {
		w.hi = copy(w.buf, w.buf[w.lo:w.hi])
		w.lo = 0
	}
	if w.hi == len(w.buf) {
		return false
	}
	for idle := 0; w.err == nil; idle++ {
		if w.err = context.Cause(w.ctx); w.err != nil {
			return false
		}
		if idle == 100 {
			w.err = io.ErrNoProgress
			return false
		}
		var n int
		n, w.err = w.in.Read(w.buf[w.hi:])
		w.hi += n
		if n > 0 {
			return true
		}
	}
	return false
}

// rest are the buffered bytes, at least one unless the text has ended.
func (w *window) rest() []byte {
	if w.lo == w.hi {
		w.fill()
	}
	return w.buf[w.lo:w.hi]
}

// ahead fills the whole window and returns it without consuming it.
func (w *window) ahead() []byte {
	for w.fill() {
	}
	return w.buf[w.lo:w.hi]
}

// consume moves past n bytes.
func (w *window) consume(n int) {
	w.line += int64(bytes.Count(w.buf[w.lo:w.lo+n], newline))
	w.off += int64(n)
	w.lo += n
}

var newline = []byte{'\n'}

// broken is the error that ended the text, nil when it ended well.
func (w *window) broken() error {
	if w.err == io.EOF { //nolint:errorlint // io.Reader returns it bare
		return nil
	}
	return w.err
}

// readLine consumes a line, and returns it without its end and the blanks around it. The error is io.EOF behind the last,
// errTooLong for a line beyond limit, else that of the file.
func (w *window) readLine(limit int64) ([]byte, error) {
	text, size, ended, err := w.take(limit, true, func(p []byte) (int, bool) {
		if end := bytes.IndexByte(p, '\n'); end >= 0 {
			return end, true
		}
		return len(p), false
	})
	switch {
	case err != nil:
		return nil, err
	case ended:
		w.consume(1)
	case size == 0:
		return nil, io.EOF
	}
	if size > limit {
		return nil, errTooLong
	}
	return bytes.TrimSpace(text), nil
}

// take consumes a piece of the text: end returns how much of the bytes given belongs to it, and whether it ends there. ended
// is false for one that ends with the text. There is none of it when its size is beyond limit, or with keep false.
func (w *window) take(limit int64, keep bool, end func(p []byte) (n int, ended bool)) (text []byte, size int64, ended bool, err error) {
	for !ended {
		rest := w.rest()
		if len(rest) == 0 {
			return text, size, false, w.broken()
		}
		var n int
		n, ended = end(rest)
		switch size += int64(n); {
		case !keep || size > limit:
			text = nil
		case text == nil && ended:
			text = bytes.Clone(rest[:n])
		default:
			text = grow(text, rest[:n], limit)
		}
		w.consume(n)
	}
	return text, size, true, nil
}

// grow appends, and uses at most twice the memory needed.
func grow(dst, src []byte, limit int64) []byte {
	if need := len(dst) + len(src); need > cap(dst) {
		dst = slices.Grow(dst, int(min(int64(need), limit-int64(len(dst)))))
	}
	return append(dst, src...)
}
