package files

import (
	"bytes"
	"fmt"
	"io"

	"github.com/stepwell/stepwell"
)

// The structure of a JSON document is read byte by byte, so that neither the document nor an oversized row is ever in
// memory; rows are validated by their parser.

// space consumes white space and returns the next byte; io.EOF at the end.
func (w *window) space() (byte, error) {
	for {
		rest := w.rest()
		if len(rest) == 0 {
			if err := w.broken(); err != nil {
				return 0, err
			}
			return 0, io.EOF
		}
		for i, c := range rest {
			if c != ' ' && c != '\n' && c != '\t' && c != '\r' {
				w.consume(i)
				return c, nil
			}
		}
		w.consume(len(rest))
	}
}

// fault is bad JSON at the place where the window is.
func (w *window) fault(format string, args ...any) error {
	return &stepwell.Error{Code: stepwell.CodeInvalid,
		Message: fmt.Sprintf("byte %d (line %d): ", w.off, w.line+1) + fmt.Sprintf(format, args...)}
}

// next is space inside a document, where an end is a fault.
func (w *window) next() (byte, error) {
	c, err := w.space()
	if err == io.EOF { //nolint:errorlint // bare
		return 0, w.fault("the document ends too early")
	}
	return c, err
}

// expect consumes white space and the byte c.
func (w *window) expect(c byte) error {
	got, err := w.next()
	if err != nil {
		return err
	}
	if got != c {
		return w.fault("%q where %q should be", got, c)
	}
	w.consume(1)
	return nil
}

// value consumes one JSON value and returns its text. errTooLong: it is beyond limit, and has been skipped. With keep false
// there is no text.
func (w *window) value(limit int64, keep bool) ([]byte, error) {
	if _, err := w.next(); err != nil {
		return nil, err
	}
	var s scan
	text, size, ended, err := w.take(limit, keep, s.feed)
	switch {
	case err != nil:
		return nil, err
	case !ended && !s.atEnd():
		return nil, w.fault("the document ends in the middle of a value")
	case size == 0:
		return nil, w.fault("a value is missing")
	case size > limit:
		return nil, errTooLong
	}
	return text, nil
}

// scan finds the end of a JSON value in pieces of text.
type scan struct {
	depth   int
	begun   bool
	scalar  bool // a number, true, false, null
	quoted  bool // inside a text
	escaped bool // behind its backslash
}

// atEnd reports whether the value may end where the text does.
func (s *scan) atEnd() bool { return s.scalar || !s.begun }

// feed returns how much of the next piece belongs to the value, and whether that is its end.
// The loop is long because it runs for every byte of the input.
func (s *scan) feed(p []byte) (n int, done bool) {
	i := 0
	if !s.begun && len(p) > 0 {
		s.begun = true
		switch p[0] {
		case '{', '[', '"':
		default:
			s.scalar = true
		}
	}
	for i < len(p) {
		if s.quoted {
			i += s.text(p[i:])
			if !s.quoted && s.depth == 0 {
				return i, true
			}
			continue
		}
		c := p[i]
		if s.scalar {
			switch c {
			case ',', ']', '}', ' ', '\n', '\r', '\t', ':', '[', '{', '"':
				return i, true
			}
			i++
			continue
		}
		i++
		switch c {
		case '"':
			s.quoted = true
		case '{', '[':
			s.depth++
		case '}', ']':
			if s.depth--; s.depth == 0 {
				return i, true
			}
		}
	}
	return len(p), false
}

// text goes behind the end of the text that p begins in, or to the end of p.
func (s *scan) text(p []byte) int {
	if s.escaped {
		s.escaped = false
		return 1
	}
	end := bytes.IndexByte(p, '"')
	inner := p
	if end >= 0 {
		inner = p[:end]
	}
	if slash := bytes.IndexByte(inner, '\\'); slash >= 0 {
		s.escaped = true
		return slash + 1
	}
	if end >= 0 {
		s.quoted = false
		return end + 1
	}
	return len(p)
}
