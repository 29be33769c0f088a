package media

import (
	"bufio"
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
)

// readJPEGFile reads size and completeness from the markers (ITU-T T.81 annex B), the rest from
// the EXIF block.
func readJPEGFile(b *boundedReader, m *Metadata) {
	r := bufio.NewReaderSize(b.section(0, b.size), 32<<10)
	if err := jpegMarkers(r, m); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			m.cut("the picture ends before its end marker")
		} else {
			m.lost("%v", err)
		}
	}
	if m.Width == nil && !m.Partial {
		m.lost("the picture has no frame header")
	}
	readEXIF(b, m, imagemeta.JPEG, false)
}

// jpegMarkers walks the segments up to the scan, then to the end marker.
func jpegMarkers(r *bufio.Reader, m *Metadata) error {
	if _, err := r.Discard(2); err != nil { // start of image
		return err
	}
	for range maxSegments {
		marker, err := nextMarker(r)
		if err != nil {
			return err
		}
		switch {
		case marker == 0xd9:
			return errors.New("the picture ends before its coded data")
		case marker == 0x01 || marker >= 0xd0 && marker <= 0xd7:
			continue // no length
		}
		var h [2]byte
		if _, err := io.ReadFull(r, h[:]); err != nil {
			return err
		}
		n := int(binary.BigEndian.Uint16(h[:])) - 2
		if n < 0 {
			return fmt.Errorf("segment %#x has the impossible length %d", marker, n+2)
		}
		if isFrame(marker) && n >= 6 {
			var f [6]byte
			if _, err := io.ReadFull(r, f[:]); err != nil {
				return err
			}
			n -= 6
			m.frame(f)
		}
		if _, err := r.Discard(n); err != nil {
			return err
		}
		if marker == 0xda {
			return endOfScan(r)
		}
	}
	return fmt.Errorf("more than %d segments", maxSegments)
}

// isFrame says whether a marker begins a frame header: SOF0–SOF15 without DHT, JPG and DAC.
func isFrame(marker byte) bool {
	return marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc
}

func (m *Metadata) frame(f [6]byte) {
	h, w := int(binary.BigEndian.Uint16(f[1:])), int(binary.BigEndian.Uint16(f[3:]))
	if m.Width == nil && w > 0 && h > 0 {
		m.Width, m.Height = &w, &h
	}
}

func nextMarker(r *bufio.Reader) (byte, error) {
	c, err := r.ReadByte()
	if err != nil {
		return 0, err
	}
	if c != 0xff {
		return 0, fmt.Errorf("a segment is expected where the byte %#x stands", c)
	}
	for range 1 << 16 { // fill bytes
		if c, err = r.ReadByte(); err != nil {
			return 0, err
		}
		if c != 0xff {
			if c == 0 {
				return 0, errors.New("a segment is expected where coded data stands")
			}
			return c, nil
		}
	}
	return 0, errors.New("too many fill bytes")
}

// endOfScan looks for the end marker. Inside coded data ff is always followed by 00 or a restart,
// a progressive picture has further segments in between, and trailers may follow the end.
func endOfScan(r *bufio.Reader) error {
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
