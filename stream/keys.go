package stream

import (
	"encoding/binary"
	"math/bits"
)

// keyBag counts the keys that are done already: about 25 bytes for each. It is filled once, to the size given at
// creation, and then only taken from. Not safe for concurrent use.
type keyBag struct {
	keys   [][16]byte
	counts []uint32 // 0: free; else how often the key is there, and one
}

func newKeyBag(size int64) *keyBag {
	slots := size + size/4 + 8
	return &keyBag{keys: make([][16]byte, slots), counts: make([]uint32, slots)}
}

// slot finds the key, or the place where it belongs. There is always a free one.
func (b *keyBag) slot(key *[16]byte) uint64 {
	hi, _ := bits.Mul64(binary.LittleEndian.Uint64(key[:]), uint64(len(b.keys)))
	for b.counts[hi] != 0 && b.keys[hi] != *key {
		if hi++; hi == uint64(len(b.keys)) {
			hi = 0
		}
	}
	return hi
}

func (b *keyBag) add(key [16]byte) {
	i := b.slot(&key)
	if b.counts[i] == 0 {
		b.keys[i], b.counts[i] = key, 1
	}
	b.counts[i]++
}

// removeOne reports whether the key is there, and takes one away.
func (b *keyBag) removeOne(key [16]byte) bool {
	i := b.slot(&key)
	if b.counts[i] < 2 {
		return false
	}
	b.counts[i]--
	return true
}
