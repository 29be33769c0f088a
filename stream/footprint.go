package stream

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/stepwell/stepwell/item"
)

// printsSuffix is that of the file in which a segment keeps where its done items are, beside its result.
const printsSuffix = ".footprints"

// Bounds of footprints.
const (
	maxPrints  = 1 << 20  // of a segment; items beyond have none
	maxPending = 32 << 20 // bytes of those of an end whose items are not durable yet
	maxText    = 1000     // bytes of an id or a collection as JSON
)

// printsLeftOut is the key of a record that stands for items that have none.
const printsLeftOut = math.MaxUint64

// Box is the bounding box of an item: west, south, east, north in degrees. West is more than east where it crosses the
// antimeridian.
type Box [4]float32

// boxOf reads the bbox of an item; not ok: it has none, or none on this planet.
func boxOf(v *item.Value) (box Box, ok bool) {
	of := v.Get("bbox")
	if of.Kind() != item.List {
		return box, false
	}
	var all [6]float64
	n := 0
	for text := of.Bytes()[1:]; ; n++ { // valid JSON: it ends with ]
		end := bytes.IndexAny(text, ",]")
		if n == len(all) {
			return box, false
		}
		var err error
		if all[n], err = strconv.ParseFloat(string(bytes.TrimSpace(text[:end])), 64); err != nil {
			return box, false
		}
		if text[end] == ']' {
			n++
			break
		}
		text = text[end+1:]
	}
	switch n {
	case 4:
	case 6:
		all[2], all[3] = all[3], all[4]
	default:
		return box, false
	}
	for i := range box {
		limit := 180.0
		if i%2 == 1 {
			limit = 90
		}
		if !(math.Abs(all[i]) <= limit) {
			return box, false
		}
		box[i] = float32(all[i])
	}
	return box, box[1] <= box[3]
}

// prints keeps the footprints of a segment: one record for each item with a bbox that its end has durably. The checkpoint
// has the length of the file that counts, so a stream that was cut off cuts it there, and goes on. The file is made with the
// first record.
//
// A record is the box, four float32; the item's root and its number, uint16 and uint48; the lengths of its id and of its
// collection, uint16 each; and these two as JSON. Little-endian. Where the length of the id has the bit printMarked, the
// item's mark follows, uint64: a source that has changed since and is read anew gives its numbers to other items.
type prints struct {
	path string

	mu    sync.Mutex
	file  *os.File
	out   *bufio.Writer
	size  int64
	dirty bool
}

// printHead is the length of a record without id and collection.
const printHead = 16 + 8 + 4

// printMarked is set in the length of the id of a record with a mark; those of earlier versions have none.
const printMarked = 1 << 15

// appendPrint adds the record of an item, if it has a box.
func appendPrint(dst []byte, it *Item) []byte {
	box, ok := boxOf(it.Value)
	if !ok {
		return dst
	}
	for _, side := range box {
		dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(side))
	}
	dst = binary.LittleEndian.AppendUint64(dst, placeKey(it.origin.root.index, it.origin.seq))
	id, collection := shortText(it.Get("id")), shortText(it.Get("collection"))
	mark := it.origin.identity()
	marked := uint16(0)
	if mark != 0 {
		marked = printMarked
	}
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(id))|marked)
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(collection)))
	dst = append(append(dst, id...), collection...)
	if mark != 0 {
		dst = binary.LittleEndian.AppendUint64(dst, mark)
	}
	return dst
}

// identity is one mark of both: 0 is none.
func (m marks) identity() uint64 { return cmp.Or(m.id, m.place) }

// printLengths are those of the texts behind the head of a record, and of its mark.
func printLengths(head []byte) (id, collection, mark int) {
	of := binary.LittleEndian.Uint16(head[24:])
	if of&printMarked != 0 {
		mark = 8
	}
	return int(of &^ printMarked), int(binary.LittleEndian.Uint16(head[26:])), mark
}

func shortText(v *item.Value) []byte {
	if v.Kind() != item.Text && v.Kind() != item.Number {
		return nil
	}
	if text := v.Bytes(); len(text) <= maxText {
		return text
	}
	return nil
}

// placeKey is an item's root and number in one.
func placeKey(root int, seq int64) uint64 { return uint64(root)<<48 | uint64(seq)&(1<<48-1) }

// pendingPrints are those of an end's items that are not durable yet.
type pendingPrints struct {
	raw   []byte
	marks []printMark
	count int64 // so far, of this end
	told  bool  // that some are left out
}

// printMark says where the record ends of an item written.
type printMark struct {
	written int64 // the item's number at its end
	end     int
}

// add takes note of an item that is about to be written.
func (p *pendingPrints) add(it *Item, written int64) {
	if it.Value == nil {
		return
	}
	if p.count >= maxPrints || len(p.raw) >= maxPending {
		if !p.told {
			p.told = true
			p.raw = binary.LittleEndian.AppendUint64(append(p.raw, make([]byte, 16)...), printsLeftOut)
			p.raw = append(p.raw, 0, 0, 0, 0)
			p.marks = append(p.marks, printMark{written, len(p.raw)})
		}
		return
	}
	before := len(p.raw)
	if p.raw = appendPrint(p.raw, it); len(p.raw) > before {
		p.count++
		p.marks = append(p.marks, printMark{written, len(p.raw)})
	}
}

// upTo are the records of the items up to a number. They are dropped with drop.
func (p *pendingPrints) upTo(durable int64) []byte {
	n := p.number(durable)
	if n == 0 {
		return nil
	}
	return p.raw[:p.marks[n-1].end]
}

func (p *pendingPrints) number(durable int64) int {
	n := 0
	for n < len(p.marks) && p.marks[n].written <= durable {
		n++
	}
	return n
}

func (p *pendingPrints) drop(durable int64) {
	n := p.number(durable)
	if n == 0 {
		return
	}
	cut := p.marks[n-1].end
	p.raw = p.raw[:copy(p.raw, p.raw[cut:])]
	p.marks = p.marks[:copy(p.marks, p.marks[n:])]
	for i := range p.marks {
		p.marks[i].end -= cut
	}
}

// add writes records.
func (p *prints) add(records []byte) error {
	if len(records) == 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.file == nil {
		if err := os.MkdirAll(filepath.Dir(p.path), 0o755); err != nil {
			return err
		}
		if err := p.open(os.O_CREATE|os.O_TRUNC, 0); err != nil {
			return err
		}
	}
	n, err := p.out.Write(records)
	p.size += int64(n)
	p.dirty = true
	return err
}

func (p *prints) open(flags int, at int64) error {
	f, err := os.OpenFile(p.path, os.O_WRONLY|flags, 0o600)
	if err != nil {
		return err
	}
	if err = f.Truncate(at); err == nil {
		_, err = f.Seek(at, io.SeekStart)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	p.file, p.out, p.size = f, bufio.NewWriterSize(f, 64<<10), at
	return nil
}

// sync makes everything durable and returns the length of the file.
func (p *prints) sync() (size int64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.dirty {
		return p.size, nil
	}
	if err := p.out.Flush(); err != nil {
		return 0, err
	}
	if err := p.file.Sync(); err != nil {
		return 0, err
	}
	p.dirty = false
	return p.size, nil
}

// resume goes on with the file of a stream that was cut off, of which the first size bytes count. Where fewer are there, the
// rest was lost together with what they tell of.
func (p *prints) resume(size int64) error {
	if size == 0 {
		return p.drop()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	info, err := os.Stat(p.path)
	if err != nil {
		return unlessAbsent(err)
	}
	if info.Size() < size {
		if size, err = wholePrints(p.path); err != nil {
			return err
		}
	}
	return p.open(0, size)
}

// wholePrints is the length of a file's records without one at its end that is cut off.
func wholePrints(name string) (whole int64, err error) {
	f, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, 256<<10)
	var head [printHead]byte
	for {
		if _, err = io.ReadFull(in, head[:]); err != nil {
			break
		}
		id, collection, mark := printLengths(head[:])
		if _, err = in.Discard(id + collection + mark); err != nil {
			break
		}
		whole += int64(printHead + id + collection + mark)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return whole, err
}

// drop begins with an empty file.
func (p *prints) drop() error {
	err := p.close()
	p.size, p.dirty = 0, false
	return errors.Join(err, remove(p.path))
}

// hasFootprints reports whether Footprints has items of this segment, also such that an earlier attempt has done.
func (s *segment) hasFootprints() bool {
	return s.prints != nil && s.prints.any() || s.spool != nil && s.spool.hasBoxes()
}

func (p *prints) any() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.size > 0
}

// close writes everything out.
func (p *prints) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.file == nil {
		return nil
	}
	err := errors.Join(p.out.Flush(), p.file.Close())
	p.file = nil
	return err
}
