package media

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	mp4 "github.com/abema/go-mp4"
)

const (
	maxBoxes  = 500_000
	maxTracks = 256
)

// box is the header of one box (ISO 14496-12 §4.2; an atom in QuickTime). body..end never leaves
// the parent nor the file; cut says that the header promised more.
type box struct {
	typ       mp4.BoxType
	start     int64
	body, end int64
	promised  int64 // the end that the header states
	cut       bool
}

// movie collects the contents of a file's boxes.
type movie struct {
	b     *boundedReader
	m     *Metadata
	ctx   mp4.Context
	boxes int

	moov        bool
	damaged     bool // something in moov or in a fragment could not be read
	mayFragment bool // mvex announces fragments
	timescale   uint32
	duration    float64 // of mvhd, in ticks
	created     time.Time
	fragTotal   float64 // of mehd, in ticks
	sidx        map[uint32]float64
	trex        map[uint32]uint32 // default sample duration by track
	tracks      []*track
	tags        tags
}

// readMP4 describes an ISO base media or QuickTime file. Nothing recurses over the file's own
// structure: each container is entered by name, so that the nesting is bounded by the code.
func readMP4(b *boundedReader, m *Metadata) {
	v := &movie{b: b, m: m, boxes: maxBoxes, sidx: map[uint32]float64{}, trex: map[uint32]uint32{}}
	v.ctx.IsQuickTimeCompatible = m.Container.Format == "mov" // also without ftyp
	v.top()
	v.finish()
}

func (v *movie) top() {
	first := true
	err := v.each(0, v.b.size, func(x box) error {
		v.checkCut(x)
		switch name4(x.typ) {
		case "ftyp", "styp":
			if first {
				v.brands(x)
			}
			first = false
		case "moov":
			if v.moov {
				v.m.warn("a second movie header at %d is ignored", x.start)
				return nil
			}
			v.moov = true
			return v.counting(func() error { return v.readMoov(x) })
		case "moof":
			v.m.Container.Fragmented = true
			return v.counting(func() error {
				return v.each(x.body, x.end, func(y box) error {
					if name4(y.typ) == "traf" {
						return v.readTraf(y)
					}
					return nil
				})
			})
		case "sidx":
			v.readSidx(x)
		}
		return nil
	})
	if err != nil {
		v.m.lost("%v", err)
	}
	v.damaged = v.damaged || v.m.Container.Fragmented && (err != nil || v.m.Truncated) // fragments are missing
	if !v.moov {
		v.m.cut("no movie header (moov): the file is cut or was never finished")
	}
}

// counting records whether the input of f is damaged.
func (v *movie) counting(f func() error) error {
	before := v.m.Partial
	v.m.Partial = false
	err := f()
	v.damaged = v.damaged || v.m.Partial || err != nil
	v.m.Partial = v.m.Partial || before
	return err
}

// each calls f for the boxes from start to end. A malformed header ends the list with an error; an
// error of f is a warning, since the next box is known all the same, unless nothing can be read any more.
func (v *movie) each(start, end int64, f func(box) error) error {
	for at := start; end-at >= 8; {
		if v.boxes--; v.boxes < 0 {
			return errBudget
		}
		x, err := v.header(at, end)
		if err != nil {
			return err
		}
		if x.typ == (mp4.BoxType{}) {
			return nil // QuickTime ends some lists with an empty atom
		}
		if x.cut && end < v.b.size {
			v.m.lost("the box %q at %d promises %d bytes more than what it lies in has", name4(x.typ), x.start, x.promised-end)
		}
		if err := f(x); isAny(err, errBudget, context.Canceled, context.DeadlineExceeded) {
			return err
		} else if err != nil {
			v.m.lost("%v", err)
		}
		at = x.end
	}
	return nil
}

func (v *movie) checkCut(x box) {
	if x.cut {
		v.m.cut("the box %q at %d promises %d bytes more than the file has", name4(x.typ), x.start, x.promised-v.b.size)
	}
}

func (v *movie) header(at, end int64) (box, error) {
	var h [16]byte
	if err := v.full(h[:8], at); err != nil {
		return box{}, fmt.Errorf("box header at %d: %w", at, err)
	}
	x := box{typ: mp4.BoxType(h[4:8]), start: at, body: at + 8}
	size := uint64(binary.BigEndian.Uint32(h[:4]))
	switch size {
	case 0: // extends to the end of the file
		size = uint64(end - at)
	case 1:
		if end-at < 16 {
			return box{}, fmt.Errorf("box %q at %d is cut", name4(x.typ), at)
		}
		if err := v.full(h[8:], at+8); err != nil {
			return box{}, fmt.Errorf("box header at %d: %w", at, err)
		}
		x.body += 8
		size = binary.BigEndian.Uint64(h[8:])
	}
	if terminator := x.typ == (mp4.BoxType{}) && size == 8; terminator {
		x.end, x.promised = x.body, x.body
		return x, nil
	}
	if size < uint64(x.body-at) || size > 1<<62 || !printable(x.typ) {
		return box{}, fmt.Errorf("no box at %d: size %d, type %q", at, size, h[4:8])
	}
	x.promised = at + int64(size)
	x.end = min(x.promised, end)
	x.cut = x.promised > end
	return x, nil
}

// full reads all of p or gives an error.
func (v *movie) full(p []byte, at int64) error {
	n, err := v.b.ReadAt(p, at)
	if n == len(p) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// payload reads a box's content, at most limit bytes of it.
func (v *movie) payload(x box, limit int64) ([]byte, error) {
	n := x.end - x.body
	if n > limit {
		return nil, fmt.Errorf("box %q at %d is larger than %d bytes", name4(x.typ), x.start, limit)
	}
	p := make([]byte, n)
	if err := v.full(p, x.body); err != nil && n > 0 {
		return nil, fmt.Errorf("box %q at %d: %w", name4(x.typ), x.start, err)
	}
	return p, nil
}

// decode reads a box into one of go-mp4's structures and returns the bytes taken, after which the
// children begin. A failure is a warning: one bad box does not hide the others.
func (v *movie) decode(x box, into mp4.IBox) (int64, bool) {
	p, err := v.payload(x, maxLeaf)
	var n uint64
	if err == nil {
		n, err = mp4.Unmarshal(bytes.NewReader(p), uint64(len(p)), into, v.ctx)
	}
	if err != nil {
		v.m.lost("box %q at %d: %v", name4(x.typ), x.start, err)
		return 0, false
	}
	return int64(n), true
}

func (v *movie) brands(x box) {
	p, err := v.payload(x, maxLeaf)
	if err != nil || len(p) < 8 {
		v.m.lost("box %q at %d is cut", name4(x.typ), x.start)
		return
	}
	v.m.Container.Brand = cleanText(string(p[:4]))
	v.ctx.IsQuickTimeCompatible = string(p[:4]) == "qt  "
	for q := p[8:]; len(q) >= 4 && len(v.m.Container.CompatibleBrands) < 64; q = q[4:] {
		if brand := cleanText(string(q[:4])); brand != "" {
			v.m.Container.CompatibleBrands = append(v.m.Container.CompatibleBrands, brand)
		}
		v.ctx.IsQuickTimeCompatible = v.ctx.IsQuickTimeCompatible || string(q[:4]) == "qt  "
	}
}

func (v *movie) readMoov(moov box) error {
	return v.each(moov.body, moov.end, func(x box) error {
		switch name4(x.typ) {
		case "mvhd":
			var h mp4.Mvhd
			if _, ok := v.decode(x, &h); ok {
				v.timescale, v.duration = h.Timescale, knownTicks(h.GetDuration(), h.GetVersion())
				v.created = mp4Time(h.GetCreationTime())
			}
		case "trak":
			if len(v.tracks) >= maxTracks {
				return fmt.Errorf("more than %d tracks", maxTracks)
			}
			t := &track{}
			v.tracks = append(v.tracks, t)
			return v.readTrak(x, t)
		case "mvex":
			v.mayFragment = true
			return v.each(x.body, x.end, func(y box) error { v.readMvex(y); return nil })
		case "udta":
			return v.readUdta(x)
		case "meta":
			return v.readMeta(x)
		}
		return nil
	})
}

func (v *movie) readMvex(x box) {
	switch name4(x.typ) {
	case "mehd":
		var h mp4.Mehd
		if _, ok := v.decode(x, &h); ok {
			v.fragTotal = knownTicks(h.GetFragmentDuration(), h.GetVersion())
		}
	case "trex":
		var h mp4.Trex
		if _, ok := v.decode(x, &h); ok && len(v.trex) < maxTracks {
			v.trex[h.TrackID] = h.DefaultSampleDuration
		}
	}
}

// readSidx adds up the media segments; references to further sidx boxes would count twice.
func (v *movie) readSidx(x box) {
	var h mp4.Sidx
	if _, ok := v.decode(x, &h); !ok || h.Timescale == 0 || len(v.sidx) >= maxTracks {
		return
	}
	for _, ref := range h.References {
		if !ref.ReferenceType {
			v.sidx[h.ReferenceID] += float64(ref.SubsegmentDuration) / float64(h.Timescale)
		}
	}
}

// mp4Time reads seconds since 1904-01-01 UTC. Writers without a clock leave zero, the Unix epoch or an earlier time:
// unknown.
func mp4Time(seconds uint64) time.Time {
	const toUnix = 2082844800
	if seconds <= toUnix || seconds > 1<<40 {
		return time.Time{}
	}
	return time.Unix(int64(seconds-toUnix), 0).UTC()
}

// knownTicks is a duration, 0 when all bits are set: that means unknown.
func knownTicks(d uint64, version uint8) float64 {
	if (version == 0 && d == 1<<32-1) || d == 1<<64-1 {
		return 0
	}
	return float64(d)
}

func name4(t mp4.BoxType) string { return string(t[:]) }

func printable(t mp4.BoxType) bool {
	for i, c := range t {
		if (c < 0x20 || c > 0x7e) && (i != 0 || c != 0xa9) && !numbered(t) {
			return false
		}
	}
	return true
}

// numbered types are the indexes of QuickTime metadata items: 00 00 xx xx.
func numbered(t mp4.BoxType) bool { return t[0] == 0 && t[1] == 0 && (t[2] != 0 || t[3] != 0) }
