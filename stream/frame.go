package stream

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/zeebo/xxh3"
)

// A frame of a checkpoint is: length of the payload (4 bytes), hash of those four (4), hash of the payload
// (8), the payload; little-endian. The payload of a block is: length of its JSON (varint), JSON, and for
// each key the root plus one (varint), the distance to the number before (zigzag varint) and 16 bytes; for an
// item that was refused only a 0.
const frameHead = 16

// sealFrame puts the head before a payload that begins at from+frameHead of dst.
func sealFrame(dst []byte, from int) []byte {
	payload := dst[from+frameHead:]
	head := dst[from : from+frameHead]
	binary.LittleEndian.PutUint32(head, uint32(len(payload)))
	binary.LittleEndian.PutUint32(head[4:], uint32(xxh3.Hash(head[:4])))
	binary.LittleEndian.PutUint64(head[8:], xxh3.Hash(payload))
	return dst
}

func appendFrame(dst, payload []byte) []byte {
	from := len(dst)
	dst = append(dst, make([]byte, frameHead)...)
	return sealFrame(append(dst, payload...), from)
}

func appendBlock(dst, meta []byte, keys []entry) []byte {
	from := len(dst)
	dst = append(dst, make([]byte, frameHead)...)
	dst = binary.AppendUvarint(dst, uint64(len(meta)))
	dst = append(dst, meta...)
	last := int64(0)
	for i := range keys {
		k := &keys[i]
		if k.refused {
			dst = append(dst, 0)
			continue
		}
		dst = binary.AppendUvarint(dst, uint64(k.root)+1)
		dst = binary.AppendVarint(dst, k.seq-last)
		dst = append(dst, k.key[:]...)
		last = k.seq
	}
	return sealFrame(dst, from)
}

// appendRawBlock is appendBlock with keys as they stand in a file.
func appendRawBlock(dst, meta, keys []byte) []byte {
	from := len(dst)
	dst = append(dst, make([]byte, frameHead)...)
	dst = binary.AppendUvarint(dst, uint64(len(meta)))
	dst = append(dst, meta...)
	return sealFrame(append(dst, keys...), from)
}

// damage is what is wrong with a checkpoint that cannot be used.
type damage struct{ what string }

func (d *damage) Error() string { return d.what }

func damaged(format string, args ...any) error { return &damage{fmt.Sprintf(format, args...)} }

// errTorn is the end of a file whose last frame was not written out.
var errTorn = errors.New("torn")

// frames reads a checkpoint's frames.
type frames struct {
	in   *bufio.Reader
	size int64 // of the file
	at   int64 // of the next frame
	buf  []byte
}

// next gives the next payload, valid until the next call; io.EOF at the end, errTorn at a torn tail.
func (f *frames) next() ([]byte, error) {
	left := f.size - f.at
	if left == 0 {
		return nil, io.EOF
	}
	if left < frameHead {
		return nil, errTorn
	}
	var head [frameHead]byte
	if _, err := io.ReadFull(f.in, head[:]); err != nil {
		return nil, err
	}
	if binary.LittleEndian.Uint32(head[4:]) != uint32(xxh3.Hash(head[:4])) {
		return nil, f.torn(head[:])
	}
	length := int64(binary.LittleEndian.Uint32(head[:]))
	if length > left-frameHead {
		return nil, errTorn
	}
	if int64(cap(f.buf)) < length {
		f.buf = make([]byte, length)
	}
	f.buf = f.buf[:length]
	if _, err := io.ReadFull(f.in, f.buf); err != nil {
		return nil, err
	}
	if binary.LittleEndian.Uint64(head[8:]) != xxh3.Hash(f.buf) {
		if length == left-frameHead { // the last one: written in part, though the file is as long as it should be
			return nil, errTorn
		}
		return nil, damaged("block at byte %d", f.at)
	}
	f.at += frameHead + length
	return f.buf, nil
}

// torn decides about a head that is none: zeros up to the end are a file that was made longer before a
// crash, anything else is damage.
func (f *frames) torn(head []byte) error {
	for {
		for _, c := range head {
			if c != 0 {
				return damaged("head of the block at byte %d", f.at)
			}
		}
		n, err := f.in.Read(head)
		if errors.Is(err, io.EOF) {
			return errTorn
		}
		if err != nil {
			return err
		}
		head = head[:n]
	}
}

// eachBlock reads the blocks of a file behind its header, and tells how much of it is whole: 0 when not
// even the header is. The keys are given as they stand in the file.
func eachBlock(path string, check func(header) error, do func(b block, keys []byte) error) (size int64, err error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	f := &frames{in: bufio.NewReaderSize(file, 256<<10), size: info.Size()}
	for first := true; ; first = false {
		payload, err := f.next()
		if errors.Is(err, io.EOF) || errors.Is(err, errTorn) {
			return f.at, nil
		}
		if err != nil {
			return 0, err
		}
		if first {
			var h header
			if err := json.Unmarshal(payload, &h); err != nil {
				return 0, damaged("header: %v", err)
			}
			if err := check(h); err != nil {
				return 0, err
			}
			continue
		}
		b, keys, ok := parseBlock(payload)
		if !ok {
			return 0, damaged("a block before byte %d", f.at)
		}
		if err := do(b, keys); err != nil {
			return 0, err
		}
	}
}

func parseBlock(payload []byte) (b block, keys []byte, ok bool) {
	n, width := binary.Uvarint(payload)
	if width <= 0 || n > uint64(len(payload)-width) {
		return b, nil, false
	}
	meta, keys := payload[width:width+int(n)], payload[width+int(n):]
	return b, keys, json.Unmarshal(meta, &b) == nil
}

// eachKey goes over the keys of a block, without those of refused items, and tells how many items they are for.
func eachKey(raw []byte, do func(i int64, root int, seq int64, key [16]byte)) (items int64, err error) {
	seq := int64(0)
	for ; len(raw) > 0; items++ {
		root, n := binary.Uvarint(raw)
		if n <= 0 {
			return 0, damaged("keys of a block")
		}
		if raw = raw[n:]; root == 0 {
			continue
		}
		step, n := binary.Varint(raw)
		if n <= 0 || len(raw) < n+16 {
			return 0, damaged("keys of a block")
		}
		seq += step
		do(items, int(root-1), seq, [16]byte(raw[n:]))
		raw = raw[n+16:]
	}
	return items, nil
}
