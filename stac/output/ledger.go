package output

import (
	"bufio"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/durable"
)

// ledger is the file in the segment's directory that lists the output's contents: one record per item, and the facts
// about collections and their parts. It is append-only; data behind the size in a state was never promised and is
// truncated. The rest of the sink is rebuilt from it.
type ledger struct {
	file    *os.File
	id      string // random, so that a state and its ledger belong together
	written int64  // bytes in the file; buf follows
	buf     []byte
}

// The kinds of records.
const (
	recordItem = 'i' // entry
	recordUnit = 'u' // number of the unit, its state as JSON in text; the last one counts
	recordNode = 'n' // number of the node, entry.unit, parent, directory in text
	recordTime = 't' // time, in Unix milliseconds: when the items that follow were written
)

// maxRecord bounds one record: names are bounded, extents and summaries too.
const maxRecord = 1 << 20

// bufferedLedger is how many bytes of records wait in memory.
const bufferedLedger = 1 << 18

// entry is an item in the ledger.
type entry struct {
	key   [16]byte
	value uint64 // as in the index
	unit  int
	node  int    // of a catalog
	name  string // of the file, within its directory; "" when it has no file of its own
	title string // of a catalog's link
	size  int64
}

// record is any record; its kind says which of the fields count.
type record struct {
	kind   byte
	at     int64 // where it begins, of one that was read
	entry  entry
	number int
	parent int
	text   string
	time   int64
}

// newLedger begins the ledger of a directory, and forgets the one that is there.
func newLedger(dir, about string) (*ledger, error) {
	f, err := os.OpenFile(ledgerPath(dir), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, err
	}
	return beginLedger(f, about), nil
}

func beginLedger(f *os.File, about string) *ledger {
	l := &ledger{file: f, id: rand.Text()}
	l.text(l.id + " " + about)
	return l
}

func ledgerPath(dir string) string { return filepath.Join(dir, "output.ledger") }

// openLedger opens the ledger of a state, truncates the rest, and calls see for every record. A missing or different
// ledger is stream.ErrStateGone.
func openLedger(dir, about string, s state, see func(record) error) (*ledger, error) {
	f, err := os.OpenFile(ledgerPath(dir), os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s is missing", stream.ErrStateGone, ledgerPath(dir))
	}
	if err != nil {
		return nil, err
	}
	l := &ledger{file: f, id: s.Ledger, written: s.Size}
	if err := l.load(about, see); err != nil {
		f.Close()
		return nil, err
	}
	return l, nil
}

func (l *ledger) load(about string, see func(record) error) error {
	switch info, err := l.file.Stat(); {
	case err != nil:
		return err
	case info.Size() < l.written:
		return fmt.Errorf("%w: %s is shorter than it was", stream.ErrStateGone, l.file.Name())
	}
	r := l.reader(0, 1<<16)
	if head := r.text(); r.err != nil || head != l.id+" "+about {
		return fmt.Errorf("%w: %s is of another output", stream.ErrStateGone, l.file.Name())
	}
	if err := r.each(see); err != nil {
		return err
	}
	if err := l.file.Truncate(l.written); err != nil {
		return err
	}
	_, err := l.file.Seek(l.written, io.SeekStart)
	return err
}

// size is where the next record begins.
func (l *ledger) size() int64 { return l.written + int64(len(l.buf)) }

func (l *ledger) numbers(all ...int64) {
	for _, n := range all {
		l.buf = binary.AppendUvarint(l.buf, uint64(n))
	}
}

func (l *ledger) text(s string) {
	l.numbers(int64(len(s)))
	l.buf = append(l.buf, s...)
}

// add appends a record, and returns where it begins.
func (l *ledger) add(r record) (at int64) {
	at = l.size()
	l.buf = append(l.buf, r.kind)
	switch r.kind {
	case recordItem:
		e := &r.entry
		l.buf = binary.LittleEndian.AppendUint64(append(l.buf, e.key[:]...), e.value)
		l.numbers(int64(e.unit), int64(e.node), e.size)
		l.text(e.name)
		l.text(e.title)
	case recordUnit:
		l.numbers(int64(r.number))
		l.text(r.text)
	case recordNode:
		l.numbers(int64(r.number), int64(r.entry.unit), int64(r.parent))
		l.text(r.text)
	case recordTime:
		l.numbers(r.time)
	}
	return at
}

// flush writes the buffer to the file when it holds more than so many bytes.
func (l *ledger) flush(most int) error {
	if len(l.buf) <= most {
		return nil
	}
	n, err := l.file.Write(l.buf)
	l.written, l.buf = l.written+int64(n), l.buf[:0]
	return err
}

// sync makes everything durable.
func (l *ledger) sync() error {
	if err := l.flush(0); err != nil {
		return err
	}
	return l.file.Sync()
}

// each reads all records again.
func (l *ledger) each(see func(record) error) error {
	if err := l.flush(0); err != nil {
		return err
	}
	r := l.reader(0, 1<<16)
	r.text()
	return r.each(see)
}

// at reads one record that has been written to the file.
func (l *ledger) at(offset int64) (record, error) {
	r := l.reader(offset, 512)
	rec := r.record()
	return rec, r.err
}

func (l *ledger) reader(from int64, buffer int) *ledgerReader {
	return &ledgerReader{in: bufio.NewReaderSize(io.NewSectionReader(l.file, from, l.written-from), buffer), offset: from}
}

// compact puts a ledger in the place of this one, with the items that keep selects and everything else, and returns its
// id and size. States of the old one become invalid.
func (l *ledger) compact(about string, keep func(entry) bool) (id string, size int64, err error) {
	err = durable.WriteFile(l.file.Name(), func(f *os.File) error {
		next := beginLedger(f, about)
		err := l.each(func(r record) error {
			if r.kind != recordItem || keep(r.entry) {
				next.add(r)
			}
			return next.flush(bufferedLedger)
		})
		id, size = next.id, next.size()
		return errors.Join(err, next.flush(0))
	})
	return id, size, err
}

func (l *ledger) close() { l.file.Close() }

// ledgerReader decodes records; the first error stays.
type ledgerReader struct {
	in     *bufio.Reader
	offset int64
	err    error
}

func (r *ledgerReader) each(see func(record) error) error {
	for {
		if _, err := r.in.Peek(1); err == io.EOF && r.err == nil {
			return nil
		}
		rec := r.record()
		if r.err != nil {
			return fmt.Errorf("%w: the ledger is damaged at byte %d: %w", stream.ErrStateGone, rec.at, r.err)
		}
		if err := see(rec); err != nil {
			return err
		}
	}
}

func (r *ledgerReader) record() record {
	rec := record{at: r.offset}
	kind := r.bytes(1)
	if r.err != nil {
		return rec
	}
	switch rec.kind = kind[0]; rec.kind {
	case recordItem:
		e := &rec.entry
		copy(e.key[:], r.bytes(16))
		if value := r.bytes(8); r.err == nil {
			e.value = binary.LittleEndian.Uint64(value)
		}
		e.unit, e.node, e.size = int(r.number()), int(r.number()), int64(r.number())
		e.name, e.title = r.text(), r.text()
	case recordUnit:
		rec.number, rec.text = int(r.number()), r.text()
	case recordNode:
		rec.number, rec.entry.unit, rec.parent, rec.text = int(r.number()), int(r.number()), int(r.number()), r.text()
	case recordTime:
		rec.time = int64(r.number())
	default:
		r.err = fmt.Errorf("unknown record %q", rec.kind)
	}
	return rec
}

func (r *ledgerReader) bytes(n int) []byte {
	if r.err != nil {
		return nil
	}
	b := make([]byte, n)
	_, r.err = io.ReadFull(r.in, b)
	r.offset += int64(n)
	return b
}

// ReadByte implements io.ByteReader.
func (r *ledgerReader) ReadByte() (byte, error) {
	r.offset++
	return r.in.ReadByte()
}

func (r *ledgerReader) number() (n uint64) {
	if r.err == nil {
		n, r.err = binary.ReadUvarint(r)
	}
	if n > 1<<48 && r.err == nil {
		r.err = fmt.Errorf("the number %d", n)
	}
	return n
}

func (r *ledgerReader) text() string {
	n := r.number()
	if r.err == nil && n > maxRecord {
		r.err = fmt.Errorf("a text of %d bytes", n)
	}
	if r.err != nil {
		return ""
	}
	return string(r.bytes(int(n)))
}
