package output

import (
	"bufio"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
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
	file *os.File
	id   string // random, so that a state and its ledger belong together
	size int64  // including buf
	buf  []byte
}

// The kinds of records.
const (
	recordItem = 'i' // entry
	recordUnit = 'u' // unit number, its state as JSON; the last one counts
	recordNode = 'n' // node number, unit, parent, directory
	recordTime = 't' // Unix milliseconds: when the items that follow were written
)

// maxRecord bounds one record: names are bounded, extents and summaries too.
const maxRecord = 1 << 20

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

// record is any record, as read.
type record struct {
	kind   byte
	at     int64 // where it begins
	entry  entry
	number int // of a unit or node
	parent int
	text   string // state or directory
	time   int64
}

func newLedger(dir string, about string) (*ledger, error) {
	var id [16]byte
	rand.Read(id[:])
	f, err := os.OpenFile(ledgerPath(dir), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, err
	}
	l := &ledger{file: f, id: hex.EncodeToString(id[:])}
	l.text(l.id + " " + about)
	return l, nil
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
	l := &ledger{file: f, id: s.Ledger, size: s.Size}
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
	case info.Size() < l.size:
		return fmt.Errorf("%w: %s is shorter than it was", stream.ErrStateGone, l.file.Name())
	}
	r := &ledgerReader{r: bufio.NewReaderSize(io.NewSectionReader(l.file, 0, l.size), 1<<16)}
	if head := r.text(); r.err != nil || head != l.id+" "+about {
		return fmt.Errorf("%w: %s is of another output", stream.ErrStateGone, l.file.Name())
	}
	if err := r.each(see); err != nil {
		return err
	}
	if err := l.file.Truncate(l.size); err != nil {
		return err
	}
	_, err := l.file.Seek(l.size, io.SeekStart)
	return err
}

func (l *ledger) number(n uint64) {
	before := len(l.buf)
	l.buf = binary.AppendUvarint(l.buf, n)
	l.size += int64(len(l.buf) - before)
}

func (l *ledger) bytes(b ...byte) {
	l.buf = append(l.buf, b...)
	l.size += int64(len(b))
}

func (l *ledger) text(s string) {
	l.number(uint64(len(s)))
	l.buf = append(l.buf, s...)
	l.size += int64(len(s))
}

// item appends an item and returns where.
func (l *ledger) item(e entry) (at int64) {
	at = l.size
	l.bytes(recordItem)
	l.bytes(e.key[:]...)
	l.bytes(binary.LittleEndian.AppendUint64(nil, e.value)...)
	l.number(uint64(e.unit))
	l.number(uint64(e.node))
	l.number(uint64(e.size))
	l.text(e.name)
	l.text(e.title)
	return at
}

func (l *ledger) unit(number int, state string) {
	l.bytes(recordUnit)
	l.number(uint64(number))
	l.text(state)
}

func (l *ledger) node(number, unit, parent int, dir string) {
	l.bytes(recordNode)
	l.number(uint64(number))
	l.number(uint64(unit))
	l.number(uint64(parent))
	l.text(dir)
}

func (l *ledger) now(milliseconds int64) {
	l.bytes(recordTime)
	l.number(uint64(milliseconds))
}

// flush writes the buffer to the file when it is large.
func (l *ledger) flush(always bool) error {
	if len(l.buf) < 1<<18 && !always {
		return nil
	}
	_, err := l.file.Write(l.buf)
	l.buf = l.buf[:0]
	return err
}

// sync makes everything durable.
func (l *ledger) sync() error {
	if err := l.flush(true); err != nil {
		return err
	}
	return l.file.Sync()
}

// each reads all records again. Everything must have been flushed.
func (l *ledger) each(see func(record) error) error {
	r := &ledgerReader{r: bufio.NewReaderSize(io.NewSectionReader(l.file, 0, l.size), 1<<16)}
	r.text()
	return r.each(see)
}

// at reads one record.
func (l *ledger) at(offset int64) (record, error) {
	r := &ledgerReader{r: bufio.NewReaderSize(io.NewSectionReader(l.file, offset, l.size-offset), 512), offset: offset}
	rec := r.record()
	return rec, r.err
}

// compact replaces this ledger by a new one of the items that keep selects, and of everything else. States of the old
// one become invalid.
func (l *ledger) compact(dir, about string, keep func(entry) bool) (*ledger, error) {
	if err := l.flush(true); err != nil {
		return nil, err
	}
	temp := filepath.Join(dir, "output.compact")
	if err := os.MkdirAll(temp, 0o755); err != nil {
		return nil, err
	}
	next, err := newLedger(temp, about)
	if err != nil {
		return nil, err
	}
	err = l.each(func(r record) error {
		switch r.kind {
		case recordItem:
			if keep(r.entry) {
				next.item(r.entry)
			}
		case recordUnit:
			next.unit(r.number, r.text)
		case recordNode:
			next.node(r.number, r.entry.unit, r.parent, r.text)
		case recordTime:
			next.now(r.time)
		}
		return next.flush(false)
	})
	if err == nil {
		err = next.sync()
	}
	if err == nil {
		err = os.Rename(ledgerPath(temp), ledgerPath(dir))
	}
	if err == nil {
		err = durable.SyncDir(dir)
	}
	if err != nil {
		next.close()
		return nil, err
	}
	l.close()
	return next, os.Remove(temp)
}

func (l *ledger) close() { l.file.Close() }

// ledgerReader decodes; the first error stays.
type ledgerReader struct {
	r      *bufio.Reader
	offset int64
	err    error
}

func (r *ledgerReader) each(see func(record) error) error {
	for {
		if _, err := r.r.Peek(1); err == io.EOF && r.err == nil {
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
	kind := r.readBytes(1)
	if r.err != nil {
		return rec
	}
	switch rec.kind = kind[0]; rec.kind {
	case recordItem:
		e := &rec.entry
		copy(e.key[:], r.readBytes(16))
		if value := r.readBytes(8); r.err == nil {
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

func (r *ledgerReader) readBytes(n int) []byte {
	if r.err != nil {
		return nil
	}
	b := make([]byte, n)
	_, r.err = io.ReadFull(r.r, b)
	r.offset += int64(n)
	return b
}

func (r *ledgerReader) number() uint64 {
	var n uint64
	for shift := 0; r.err == nil; shift += 7 {
		if shift > 63 {
			r.err = errors.New("a number is too long")
			break
		}
		b := r.readBytes(1)
		if r.err != nil {
			break
		}
		n |= uint64(b[0]&0x7f) << shift
		if b[0] < 0x80 {
			break
		}
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
	return string(r.readBytes(int(n)))
}
