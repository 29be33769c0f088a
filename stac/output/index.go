package output

import (
	"github.com/zeebo/xxh3"
)

// index has every item of the output by (collection, id): 24 bytes each. Ids that are equal on file systems that ignore
// case are one id, so that two ids never share a file.
type index map[[16]byte]uint64

// A value is 40 bits of the content's hash, 23 of the exact id's, and whether it is of this run.
const (
	thisRun     = 1
	idBits      = (1<<23 - 1) << 1
	contentBits = ^uint64(1<<24 - 1)
)

// verdict is the index's answer about an item.
type verdict int

const (
	fresh     verdict = iota // not known
	repeated                 // known, with this content
	updated                  // known from an earlier run, with other content
	duplicate                // known from this run, with other content
)

// keyOf is the key of an id, and of the same id as a twin: when another that differs in case only came first.
func keyOf(collection, id string, exact bool) [16]byte {
	var space [192]byte
	text := append(append(space[:0], collection...), 0)
	if exact {
		text = append(append(text, 1), id...)
	} else {
		text = append(append(text, 0), fold(id)...)
	}
	return xxh3.Hash128(text).Bytes()
}

func valueOf(id string, content []byte) uint64 {
	return xxh3.Hash(content)&contentBits | xxh3.HashString(id)<<1&idBits | thisRun
}

// lookup finds an item: the key under which it is or would be kept, and whether it is a twin. It changes
// nothing.
func (x index) lookup(collection, id string, value uint64) (key [16]byte, isTwin bool, v verdict) {
	key = keyOf(collection, id, false)
	old, known := x[key]
	if known && (old^value)&idBits != 0 {
		key, isTwin = keyOf(collection, id, true), true
		old, known = x[key]
	}
	switch {
	case !known:
		v = fresh
	case (old^value)&contentBits == 0:
		v = repeated
	case old&thisRun != 0:
		v = duplicate
	default:
		v = updated
	}
	return key, isTwin, v
}

// current reports whether an entry of the ledger is the last word on its item.
func (x index) current(e entry) bool {
	return x[e.key]&^thisRun == e.value&^thisRun
}
