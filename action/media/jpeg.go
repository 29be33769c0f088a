package media

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/bep/imagemeta"
)

const (
	maxSegments = 4096
	// maxScan bounds the search for the end of the coded picture; no camera writes more.
	maxScan = 200 << 20
	// maxStray is how many bytes that belong to no segment are passed over. Behind more of them
	// the next segment might be that of a thumbnail.
	maxStray = 64
)

// jpegFile walks the segments of a JPEG (ITU-T T.81 annex B).
type jpegFile struct {
	b     *boundedReader
	m     *Metadata
	exif  *io.SectionReader // the first EXIF block
	frame bool
}

// readJPEGFile reads size and completeness from the markers, the rest from the EXIF block.
func readJPEGFile(b *boundedReader, m *Metadata) {
	j := &jpegFile{b: b, m: m}
	err := j.walk()
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		m.cut("the picture ends before its end marker")
	case err != nil:
		m.lost("%v", err)
	}
	if m.Width == nil && !m.Partial {
		m.lost("the picture has no frame header")
	}
	if j.exif != nil {
		decodeEXIF(j.exif, m, imagemeta.TIFF, imagemeta.EXIF)
	} else if err == nil || j.frame { // the EXIF block comes before the frame
		m.Rotation = some(0)
	}
}

// walk goes through the segments up to the scan, then looks for the end marker.
func (j *jpegFile) walk() error {
	at := int64(2) // after the start of image
	for range maxSegments {
		marker, body, err := j.next(at)
		if err != nil {
			return err
		}
		switch {
		case marker == 0xd9:
			return errors.New("the picture ends before its coded data")
		case marker == 0x01 || marker >= 0xd0 && marker <= 0xd7: // no length
			at = body
			continue
		}
		end, err := j.segment(marker, body)
		if err != nil {
			return err
		}
		if at = end; marker == 0xda {
			return j.endOfScan(at)
		}
	}
	return fmt.Errorf("more than %d segments", maxSegments)
}

// segment reads the relevant fields of a segment and returns its end.
func (j *jpegFile) segment(marker byte, body int64) (end int64, err error) {
	var h [8]byte
	if _, err := j.b.ReadAt(h[:2], body); err != nil {
		return 0, err
	}
	n := int64(binary.BigEndian.Uint16(h[:]))
	if n < 2 {
		return 0, fmt.Errorf("segment %#x has the impossible length %d", marker, n)
	}
	end = body + n
	whole, _ := j.b.ReadAt(h[:min(n, 8)], body) // truncation is found at the next marker
	if isFrame(marker) && whole == 8 {
		j.setFrame(h[2:])
	}
	if marker == 0xe1 && j.exif == nil && whole == 8 && string(h[2:6]) == "Exif" {
		j.exif = j.b.section(body+8, min(end, j.b.size)-body-8)
	}
	return end, nil
}

// isFrame says whether a marker begins a frame header: SOF0–SOF15 without DHT, JPG and DAC.
func isFrame(marker byte) bool {
	return marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc
}

// setFrame takes the size of the picture. A second frame of another size means that one of them is not the picture's.
func (j *jpegFile) setFrame(f []byte) {
	h, w := int(binary.BigEndian.Uint16(f[1:])), int(binary.BigEndian.Uint16(f[3:]))
	switch {
	case w == 0 || h == 0:
	case !j.frame:
		j.m.Width, j.m.Height = &w, &h
	case j.m.Width == nil || *j.m.Width != w || *j.m.Height != h:
		j.m.Width, j.m.Height = nil, nil
		j.m.lost("the frame headers disagree about the size of the picture")
	}
	j.frame = j.frame || w > 0 && h > 0
}

// next finds the marker at an offset, behind fill bytes and a few bytes that belong nowhere, and returns where
// its segment begins.
func (j *jpegFile) next(at int64) (marker byte, body int64, err error) {
	var p [2]byte
	if _, err := j.b.ReadAt(p[:], at); err != nil {
		return 0, 0, err
	}
	if p[0] != 0xff {
		stray, err := j.stray(at)
		if err != nil {
			return 0, 0, err
		}
		j.m.warn("%d bytes at %d belong to no segment", stray, at)
		at += stray
	}
	for range 1 << 16 {
		if _, err := j.b.ReadAt(p[:], at); err != nil {
			return 0, 0, err
		}
		switch {
		case p[1] == 0:
			return 0, 0, errors.New("a segment is expected where coded data stands")
		case p[1] != 0xff:
			return p[1], at + 2, nil
		}
		at++
	}
	return 0, 0, errors.New("too many fill bytes")
}

// stray counts the bytes up to the next segment that is followed by another.
func (j *jpegFile) stray(at int64) (int64, error) {
	var p [maxStray + 2]byte
	n, _ := j.b.ReadAt(p[:], at)
	for i := 0; i+1 < n; i++ {
		if p[i] != 0xff {
			continue
		}
		switch c := p[i+1]; {
		case c == 0xd8:
			return 0, fmt.Errorf("another picture begins at %d, where a segment is expected", at+int64(i))
		case c >= 0xc0 && c <= 0xfe && c != 0xc8 && (c < 0xd0 || c > 0xd9) && j.followed(at+int64(i)):
			return int64(i), nil
		}
	}
	return 0, fmt.Errorf("a segment is expected at %d, where the byte %#x stands", at, p[0])
}

// followed says whether a marker stands behind the segment at an offset.
func (j *jpegFile) followed(at int64) bool {
	var p [2]byte
	if _, err := j.b.ReadAt(p[:], at+2); err != nil {
		return false
	}
	n := int64(binary.BigEndian.Uint16(p[:]))
	_, err := j.b.ReadAt(p[:1], at+2+n)
	return n >= 2 && err == nil && p[0] == 0xff
}

// endOfScan looks for the end marker. Inside coded data ff is always followed by 00 or a restart,
// a progressive picture has further segments in between, and trailers may follow the end.
func (j *jpegFile) endOfScan(at int64) error {
	r := j.b.section(at, j.b.size-at)
	block := make([]byte, 32<<10)
	kept := 0 // the last byte of the block before, for a marker across the border
	for seen := 0; seen < maxScan; {
		n, err := r.Read(block[kept:])
		if bytes.Contains(block[:kept+n], []byte{0xff, 0xd9}) {
			return nil
		}
		if err != nil {
			return err
		}
		if n > 0 {
			block[0], kept = block[kept+n-1], 1
		}
		seen += n
	}
	return fmt.Errorf("no end of the picture within %d bytes", maxScan)
}
