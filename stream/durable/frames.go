package durable

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/zeebo/xxh3"
)

// FrameHead is how long the head of a frame is. A frame is: length of the payload (4 bytes), hash of those four (4), hash
// of the payload (8), the payload; little-endian. A file of frames is only appended to, so that a crash leaves a torn
// tail at most.
const FrameHead = 16

// BeginFrame makes room for the head of a frame, whose payload is appended next.
func BeginFrame(dst []byte) []byte { return append(dst, make([]byte, FrameHead)...) }

// SealFrame writes the head of the frame that begins at from of dst and ends with it.
func SealFrame(dst []byte, from int) []byte {
	payload := dst[from+FrameHead:]
	head := dst[from : from+FrameHead]
	binary.LittleEndian.PutUint32(head, uint32(len(payload)))
	binary.LittleEndian.PutUint32(head[4:], uint32(xxh3.Hash(head[:4])))
	binary.LittleEndian.PutUint64(head[8:], xxh3.Hash(payload))
	return dst
}

// AppendFrame appends a whole frame.
func AppendFrame(dst, payload []byte) []byte {
	from := len(dst)
	return SealFrame(append(BeginFrame(dst), payload...), from)
}

// AppendMeta appends the first part of a payload of two; the rest of the payload is the second.
func AppendMeta(dst, meta []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(meta))), meta...)
}

// CutMeta divides a payload that begins with AppendMeta.
func CutMeta(payload []byte) (meta, rest []byte, ok bool) {
	n, width := binary.Uvarint(payload)
	if width <= 0 || n > uint64(len(payload)-width) {
		return nil, nil, false
	}
	return payload[width : width+int(n)], payload[width+int(n):], true
}

// Damage is the reason why a file of frames cannot be used.
type Damage struct{ what string }

func (d *Damage) Error() string { return d.what }

// Damaged makes a Damage.
func Damaged(format string, args ...any) error { return &Damage{fmt.Sprintf(format, args...)} }

// ErrTorn is the end of a file whose last frame was not written out.
var ErrTorn = errors.New("torn")

// Frames reads a file of frames.
type Frames struct {
	file *os.File
	in   *bufio.Reader
	size int64 // of the file
	at   int64 // of the next frame
	buf  []byte
}

// OpenFrames opens a file; offset is where a frame begins.
func OpenFrames(path string, offset int64) (*Frames, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil {
		_, err = file.Seek(offset, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &Frames{file: file, in: bufio.NewReaderSize(file, 256<<10), size: info.Size(), at: offset}, nil
}

// Close closes the file.
func (f *Frames) Close() error { return f.file.Close() }

// At is where the next frame begins.
func (f *Frames) At() int64 { return f.at }

// Next gives the next payload, valid until the next call; io.EOF at the end, ErrTorn at a torn tail.
func (f *Frames) Next() ([]byte, error) {
	left := f.size - f.at
	if left == 0 {
		return nil, io.EOF
	}
	if left < FrameHead {
		return nil, ErrTorn
	}
	var head [FrameHead]byte
	if _, err := io.ReadFull(f.in, head[:]); err != nil {
		return nil, err
	}
	if binary.LittleEndian.Uint32(head[4:]) != uint32(xxh3.Hash(head[:4])) {
		return nil, f.torn(head[:])
	}
	length := int64(binary.LittleEndian.Uint32(head[:]))
	if length > left-FrameHead {
		return nil, ErrTorn
	}
	if int64(cap(f.buf)) < length {
		f.buf = make([]byte, length)
	}
	f.buf = f.buf[:length]
	if _, err := io.ReadFull(f.in, f.buf); err != nil {
		return nil, err
	}
	if binary.LittleEndian.Uint64(head[8:]) != xxh3.Hash(f.buf) {
		if length == left-FrameHead { // the last one: written in part, though the file is as long as it should be
			return nil, ErrTorn
		}
		return nil, Damaged("block at byte %d", f.at)
	}
	f.at += FrameHead + length
	return f.buf, nil
}

// torn decides about a head that is none: zeros up to the end are a file that was made longer before a
// crash, anything else is damage.
func (f *Frames) torn(head []byte) error {
	for {
		for _, c := range head {
			if c != 0 {
				return Damaged("head of the block at byte %d", f.at)
			}
		}
		n, err := f.in.Read(head)
		if errors.Is(err, io.EOF) {
			return ErrTorn
		}
		if err != nil {
			return err
		}
		head = head[:n]
	}
}
