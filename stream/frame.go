package stream

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"

	"github.com/stepwell/stepwell/stream/durable"
)

// The first frame of a checkpoint is its header, the others are blocks. The payload of a block is: length of its JSON
// (varint), JSON, and for each key the root plus one (varint), the distance to the number before (zigzag varint) and 16
// bytes; for an item that was refused only a 0.

func appendBlock(dst, meta []byte, keys []entry) []byte {
	from := len(dst)
	dst = durable.AppendMeta(durable.BeginFrame(dst), meta)
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
	return durable.SealFrame(dst, from)
}

// appendRawBlock is appendBlock with keys as they stand in a file.
func appendRawBlock(dst, meta, keys []byte) []byte {
	from := len(dst)
	dst = durable.AppendMeta(durable.BeginFrame(dst), meta)
	return durable.SealFrame(append(dst, keys...), from)
}

// eachBlock reads the blocks of a file behind its header, with keys as stored, and returns the length of the intact
// part: 0 when the header is damaged.
func eachBlock(path string, check func(header) error, do func(b block, keys []byte) error) (size int64, err error) {
	f, err := durable.OpenFrames(path, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for first := true; ; first = false {
		payload, err := f.Next()
		if errors.Is(err, io.EOF) || errors.Is(err, durable.ErrTorn) {
			return f.At(), nil
		}
		if err != nil {
			return 0, err
		}
		if first {
			var h header
			if err := json.Unmarshal(payload, &h); err != nil {
				return 0, durable.Damaged("header: %v", err)
			}
			if err := check(h); err != nil {
				return 0, err
			}
			continue
		}
		var b block
		meta, keys, ok := durable.CutMeta(payload)
		if !ok || json.Unmarshal(meta, &b) != nil {
			return 0, durable.Damaged("a block before byte %d", f.At())
		}
		if err := do(b, keys); err != nil {
			return 0, err
		}
	}
}

// eachKey calls do for the keys of a block except refused ones, and returns the number of items.
func eachKey(raw []byte, do func(i int64, root int, seq int64, key [16]byte)) (items int64, err error) {
	seq := int64(0)
	for ; len(raw) > 0; items++ {
		root, n := binary.Uvarint(raw)
		if n <= 0 {
			return 0, durable.Damaged("keys of a block")
		}
		if raw = raw[n:]; root == 0 {
			continue
		}
		step, n := binary.Varint(raw)
		if n <= 0 || len(raw) < n+16 {
			return 0, durable.Damaged("keys of a block")
		}
		seq += step
		do(items, int(root-1), seq, [16]byte(raw[n:]))
		raw = raw[n+16:]
	}
	return items, nil
}
