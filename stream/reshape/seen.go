package reshape

import (
	"math/bits"

	"github.com/zeebo/xxh3"
)

// seen is a set of hashes: 18 to 27 bytes for each, and never much more than that while it grows, because
// its parts grow one by one. That two keys share a hash of 128 bits is as likely as one in 10²³ at 50 million
// keys.
type seen struct {
	parts [256]part
	n     int64
}

// part is an open hash table with linear probing. Its slots are free where they are zero.
type part struct {
	slots []xxh3.Uint128
	n     int
}

// has reports whether h is there, and else where it belongs.
func (p *part) has(h xxh3.Uint128) (slot uint64, ok bool) {
	if len(p.slots) == 0 {
		return 0, false
	}
	slot, _ = bits.Mul64(h.Lo, uint64(len(p.slots)))
	for p.slots[slot] != (xxh3.Uint128{}) {
		if p.slots[slot] == h {
			return slot, true
		}
		if slot++; slot == uint64(len(p.slots)) {
			slot = 0
		}
	}
	return slot, false
}

// add reports false when h is there already.
func (s *seen) add(h xxh3.Uint128) bool {
	if h == (xxh3.Uint128{}) {
		h.Lo = 1
	}
	p := &s.parts[h.Hi>>56]
	slot, ok := p.has(h)
	if ok {
		return false
	}
	if p.n >= len(p.slots)-len(p.slots)/8 {
		p.grow()
		slot, _ = p.has(h)
	}
	p.slots[slot] = h
	p.n++
	s.n++
	return true
}

func (p *part) grow() {
	old := p.slots
	p.slots = make([]xxh3.Uint128, max(16, len(old)+len(old)/2))
	for _, h := range old {
		if h != (xxh3.Uint128{}) {
			slot, _ := p.has(h)
			p.slots[slot] = h
		}
	}
}
