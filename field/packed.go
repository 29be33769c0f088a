package field

import (
	"bytes"
	"compress/gzip"
	"sync"
)

// perPacked is the memory in bytes, for each step, within which the compressed columns of a table are kept.
const perPacked = 12

// packed is all columns and rows of a table, compressed. It is written when it is first asked for, and kept unless it is too
// large: pages that open an execution ask for exactly this.
type packed struct {
	mu  sync.Mutex
	all []byte
}

// Packed is what Encode writes, compressed with gzip at its fastest level. The caller must not change it.
func (t *Table) Packed(names []string, from, limit int) ([]byte, error) {
	whole := len(names) == 0 && from == 0 && limit >= t.Len()
	if whole {
		t.packed.mu.Lock()
		defer t.packed.mu.Unlock()
		if t.packed.all != nil {
			return t.packed.all, nil
		}
	}
	raw, err := t.Encode(names, from, limit)
	if err != nil {
		return nil, err
	}
	out := Pack(raw)
	if whole && len(out) <= perPacked*t.Len() {
		t.packed.all = bytes.Clone(out)
	}
	return out, nil
}

// Pack compresses with gzip at its fastest level.
func Pack(raw []byte) []byte {
	var out bytes.Buffer
	w, _ := gzip.NewWriterLevel(&out, gzip.BestSpeed) // the level is one
	_, _ = w.Write(raw)                               // a buffer takes everything
	_ = w.Close()
	return out.Bytes()
}

// Packed is what Encode writes, compressed with gzip at its fastest level.
func (c *Changes) Packed(from, to int) ([]byte, error) {
	raw, err := c.Encode(from, to)
	if err != nil {
		return nil, err
	}
	return Pack(raw), nil
}
