package media

import (
	"encoding/binary"
	"hash"
	"math/bits"
)

// The primes of XXH64 (xxHash specification, "XXH64 algorithm description").
const (
	xxhPrime1 uint64 = 0x9E3779B185EBCA87
	xxhPrime2 uint64 = 0xC2B2AE3D27D4EB4F
	xxhPrime3 uint64 = 0x165667B19E3779F9
	xxhPrime4 uint64 = 0x85EBCA77C2B2AE63
	xxhPrime5 uint64 = 0x27D4EB2F165667C5
)

// xxh64 is XXH64 with seed 0, the hash that media hash lists of film productions carry (ASC MHL).
// It guards against accidents, not against an adversary.
type xxh64 struct {
	acc   [4]uint64
	buf   [32]byte
	n     int
	total uint64
}

func newXXH64() hash.Hash64 {
	x := &xxh64{}
	x.Reset()
	return x
}

func (x *xxh64) Reset() {
	p := xxhPrime1 // a variable: the sums wrap around
	*x = xxh64{acc: [4]uint64{p + xxhPrime2, xxhPrime2, 0, -p}}
}

func (x *xxh64) Size() int      { return 8 }
func (x *xxh64) BlockSize() int { return 32 }

func xxhRound(acc, lane uint64) uint64 {
	return bits.RotateLeft64(acc+lane*xxhPrime2, 31) * xxhPrime1
}

func (x *xxh64) stripe(p []byte) {
	for i := range x.acc {
		x.acc[i] = xxhRound(x.acc[i], binary.LittleEndian.Uint64(p[8*i:]))
	}
}

func (x *xxh64) Write(p []byte) (int, error) {
	n := len(p)
	x.total += uint64(n)
	if x.n > 0 {
		c := copy(x.buf[x.n:], p)
		x.n += c
		p = p[c:]
		if x.n < 32 {
			return n, nil
		}
		x.stripe(x.buf[:])
		x.n = 0
	}
	for ; len(p) >= 32; p = p[32:] {
		x.stripe(p)
	}
	x.n = copy(x.buf[:], p)
	return n, nil
}

func (x *xxh64) Sum64() uint64 {
	h := xxhPrime5
	if x.total >= 32 {
		h = bits.RotateLeft64(x.acc[0], 1) + bits.RotateLeft64(x.acc[1], 7) +
			bits.RotateLeft64(x.acc[2], 12) + bits.RotateLeft64(x.acc[3], 18)
		for _, a := range x.acc {
			h = (h^xxhRound(0, a))*xxhPrime1 + xxhPrime4
		}
	}
	h += x.total
	p := x.buf[:x.n]
	for ; len(p) >= 8; p = p[8:] {
		h = bits.RotateLeft64(h^xxhRound(0, binary.LittleEndian.Uint64(p)), 27)*xxhPrime1 + xxhPrime4
	}
	if len(p) >= 4 {
		h = bits.RotateLeft64(h^uint64(binary.LittleEndian.Uint32(p))*xxhPrime1, 23)*xxhPrime2 + xxhPrime3
		p = p[4:]
	}
	for _, c := range p {
		h = bits.RotateLeft64(h^uint64(c)*xxhPrime5, 11) * xxhPrime1
	}
	h = (h ^ h>>33) * xxhPrime2
	h = (h ^ h>>29) * xxhPrime3
	return h ^ h>>32
}

func (x *xxh64) Sum(b []byte) []byte { return binary.BigEndian.AppendUint64(b, x.Sum64()) }
