package worker

import (
	"slices"

	"github.com/stepwell/stepwell/store"
)

// maxTail limits the memory of one attempt's last lines, in bytes.
const maxTail = 4 << 20

// tail keeps the last lines of a log.
type tail struct {
	ring  []store.LogLine
	head  int // the oldest
	n     int
	bytes int
	left  int // lines that had to go
}

// add adds a line, of which at most limit are kept. It reports whether it is the first.
func (t *tail) add(line store.LogLine, limit int) (first bool) {
	first = t.n == 0 && t.left == 0
	size := len(line.Message) + len(line.Attrs)
	for t.n > 0 && (t.n >= limit || t.bytes+size > maxTail) {
		t.drop()
	}
	switch {
	case t.n < len(t.ring):
		t.ring[(t.head+t.n)%len(t.ring)] = line
	case t.head == 0:
		t.ring = append(t.ring, line)
	default: // it grows again
		t.ring = append(slices.Concat(t.ring[t.head:], t.ring[:t.head]), line)
		t.head = 0
	}
	t.n++
	t.bytes += size
	return first
}

func (t *tail) drop() {
	old := &t.ring[t.head]
	t.bytes -= len(old.Message) + len(old.Attrs)
	*old = store.LogLine{}
	t.head = (t.head + 1) % len(t.ring)
	t.n--
	t.left++
}

// empty gives the lines, oldest first, and how many had to go before them.
func (t *tail) empty() (left int, last []store.LogLine) {
	left = t.left
	for i := range t.n {
		last = append(last, t.ring[(t.head+i)%len(t.ring)])
	}
	*t = tail{}
	return left, last
}
