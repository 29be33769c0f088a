package builtin

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

const (
	maxLine    = 16 << 10 // bytes of a line in the log
	maxMessage = 4 << 10  // bytes of output in an error message
)

// streamLines hands every line of r to emit as valid text and every byte to keep, until r ends or fails. Its memory is
// one line of maxLine bytes, for any input.
func streamLines(r io.Reader, keep *tail, emit func(line string)) {
	reader := bufio.NewReaderSize(r, maxLine+len("\r\n"))
	for {
		part, err := reader.ReadSlice('\n')
		keep.write(part)
		head, total := part, len(part)
		if errors.Is(err, bufio.ErrBufferFull) {
			head = append([]byte(nil), part...)
		}
		for errors.Is(err, bufio.ErrBufferFull) {
			part, err = reader.ReadSlice('\n')
			keep.write(part)
			total += len(part)
		}
		if total > 0 {
			emit(lineOf(head, total))
		}
		if err != nil {
			return
		}
	}
}

// lineOf is a line for the log: without its end, truncated when it is too long, with U+FFFD for invalid bytes. Total is
// the length of the whole line of which head is the beginning.
func lineOf(head []byte, total int) string {
	text := string(head)
	text = strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")
	if len(text) <= maxLine {
		return clean(text)
	}
	end := maxLine
	for end > maxLine-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return clean(text[:end]) + fmt.Sprintf(" … [line of %d bytes cut]", total)
}

// clean replaces characters that databases and JSON refuse in text: invalid UTF-8 and NUL.
func clean(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}

// tail keeps the last bytes written to it.
type tail struct {
	size int
	ring []byte // grows to size
	next int    // where the next byte goes
	full bool   // the ring has gone round
	lost bool   // something was overwritten
}

func newTail(size int) *tail { return &tail{size: size, ring: make([]byte, min(size, maxCapture))} }

// newTailOf is a smaller tail of another one's text.
func newTailOf(t *tail, size int) *tail {
	small := newTail(size)
	small.write(t.bytes())
	return small
}

func (t *tail) write(p []byte) {
	if n := t.next + len(p); n >= len(t.ring) && len(t.ring) < t.size {
		t.ring = append(t.ring, make([]byte, min(max(n+1, 2*len(t.ring)), t.size)-len(t.ring))...)
	}
	if t.full && len(p) > 0 || t.next+len(p) > len(t.ring) {
		t.lost = true
	}
	if len(p) > len(t.ring) {
		p = p[len(p)-len(t.ring):]
	}
	for len(p) > 0 {
		n := copy(t.ring[t.next:], p)
		p, t.next = p[n:], t.next+n
		if t.next == len(t.ring) {
			t.next, t.full = 0, true
		}
	}
}

func (t *tail) bytes() []byte {
	if !t.full {
		return append([]byte(nil), t.ring[:t.next]...)
	}
	return append(append([]byte(nil), t.ring[t.next:]...), t.ring[:t.next]...)
}

// text is the stored end, as valid text without trailing newlines, and whether more was written.
func (t *tail) text() (text string, truncated bool) {
	kept := t.bytes()
	for i := 0; t.lost && i < utf8.UTFMax && len(kept) > 0 && !utf8.RuneStart(kept[0]); i++ {
		kept = kept[1:] // the rest of a character whose beginning is gone
	}
	return clean(strings.TrimRight(string(kept), "\r\n")), t.lost
}

// lastLines are the last n lines that are not blank.
func (t *tail) lastLines(n int) string {
	text, truncated := t.text()
	lines := strings.Split(text, "\n")
	if truncated && len(lines) > 1 {
		lines = lines[1:] // its beginning is gone
	}
	var kept []string
	for _, line := range lines {
		if line = strings.TrimRight(line, " \t\r"); line != "" {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept[max(0, len(kept)-n):], "\n")
}
