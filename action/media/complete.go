package media

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// checkEnd compares a file's stated length with the actual one, in the formats whose readers do not do so. Formats that
// can end anywhere (MPEG-TS, MP3, Ogg …) state none.
func checkEnd(b *boundedReader, m *Metadata) {
	var h [30]byte
	n, _ := b.ReadAt(h[:], 0)
	head := h[:n]
	switch m.Container.Format {
	case "png":
		checkPNG(b, m)
	case "webp", "wav", "avi":
		if len(head) >= 8 {
			promise(b, m, 8+int64(binary.LittleEndian.Uint32(head[4:])))
		}
	case "bmp":
		if len(head) >= 26 {
			promise(b, m, int64(binary.LittleEndian.Uint32(head[2:])))
			m.pictureSize(int64(int32(binary.LittleEndian.Uint32(head[18:]))), int64(int32(binary.LittleEndian.Uint32(head[22:]))))
		}
	case "gif":
		if len(head) >= 10 {
			m.pictureSize(int64(binary.LittleEndian.Uint16(head[6:])), int64(binary.LittleEndian.Uint16(head[8:])))
		}
		tail := make([]byte, min(b.size, 16))
		if _, err := b.ReadAt(tail, b.size-int64(len(tail))); err != nil || !bytes.Contains(tail, []byte{0x3b}) {
			m.cut("the picture ends before its end marker")
		}
	case "matroska", "webm":
		checkMatroska(b, m)
	case "heif", "avif":
		v := &movie{b: b, m: m, boxes: maxBoxes}
		if err := v.each(0, b.size, func(x box) error { v.checkCut(x); return nil }); err != nil {
			m.cut("%v", err)
		}
	}
}

// promise compares the length that a header states with the file's. Writers put 0 or all bits set before the length is
// known.
func promise(b *boundedReader, m *Metadata, length int64) {
	if length > 8 && length < 1<<32 && length > b.size {
		m.cut("the header promises %d bytes more than the file has", length-b.size)
	}
}

// pictureSize sets the size of a picture; a negative height means rows from the top.
func (m *Metadata) pictureSize(w, h int64) {
	if h = max(h, -h); w > 0 && h > 0 {
		m.Width, m.Height, m.Rotation = some(int(w)), some(int(h)), some(0)
	} else {
		m.lost("the size of the picture is not in the file")
	}
}

func checkPNG(b *boundedReader, m *Metadata) {
	at := int64(8)
	for range maxBoxes {
		var h [8]byte
		if _, err := b.ReadAt(h[:], at); err != nil {
			m.cut("the picture ends before its end marker")
			return
		}
		at += 12 + int64(binary.BigEndian.Uint32(h[:]))
		if string(h[4:]) == "IEND" {
			return
		}
	}
}

// checkMatroska compares the length of the segment, which is the rest of the file, with the actual one (RFC 8794).
func checkMatroska(b *boundedReader, m *Metadata) {
	var h [12]byte
	_, _ = b.ReadAt(h[:], 4)
	head, n, ok := ebmlSize(h[:])
	at := 4 + int64(n) + head
	if _, err := b.ReadAt(h[:], at); err != nil || !ok || string(h[:4]) != "\x18\x53\x80\x67" {
		m.cut("the file ends before its segment")
		return
	}
	if length, n, ok := ebmlSize(h[4:]); ok {
		if end := at + 4 + int64(n) + length; end > b.size {
			m.cut("the segment promises %d bytes more than the file has", end-b.size)
		}
	}
}

// ebmlSize reads the length of an element; not ok: unknown, as in a recording that was not finished.
func ebmlSize(p []byte) (size int64, n int, ok bool) {
	n = bits.LeadingZeros8(p[0]) + 1
	if n > 8 || n > len(p) {
		return 0, 0, false
	}
	v := uint64(p[0]) & (1<<(8-n) - 1)
	for _, c := range p[1:n] {
		v = v<<8 | uint64(c)
	}
	return int64(v), n, v != 1<<(7*n)-1 && v < 1<<56
}
