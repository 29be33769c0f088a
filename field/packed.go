package field

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"strings"
	"sync"
)

// perPacked is the memory in bytes, for each step, within which the compressed columns of a table are kept.
const perPacked = 12

// PackedRows is how many rows those who read a whole table ask for at a time, from a multiple of it on: what Packed gives them is kept.
const PackedRows = 100_000

// packed is the rows of a table, compressed, by the columns and the first row that were asked for. Each is written when it is first asked
// for, and kept while there is room: pages that open an execution all ask for the same.
type packed struct {
	mu    sync.Mutex
	kept  map[packedKey][]byte
	bytes int
}

type packedKey struct {
	columns string
	from    int
}

// Packed is what Encode writes, compressed with gzip at its fastest level. The caller must not change it.
func (t *Table) Packed(names []string, from, limit int) ([]byte, error) {
	rest := t.Len() - from
	keeps := rest > 0 && from%PackedRows == 0 && min(limit, rest) == min(PackedRows, rest)
	key := packedKey{strings.Join(names, ","), from}
	if keeps {
		t.packed.mu.Lock()
		defer t.packed.mu.Unlock()
		if kept := t.packed.kept[key]; kept != nil {
			return kept, nil
		}
	}
	raw, err := t.Encode(names, from, limit)
	if err != nil {
		return nil, err
	}
	out := Pack(raw)
	if keeps && t.packed.bytes+len(out) <= perPacked*t.Len() {
		if t.packed.kept == nil {
			t.packed.kept = map[packedKey][]byte{}
		}
		out = bytes.Clone(out)
		t.packed.kept[key] = out
		t.packed.bytes += len(out)
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

// deflaters are of the fastest level. Each has a megabyte.
var deflaters = sync.Pool{New: func() any {
	w, _ := flate.NewWriter(nil, flate.BestSpeed) // the level is one
	return w
}}

// deflated is Message.Deflated.
func deflated(raw []byte) []byte {
	var out bytes.Buffer
	w := deflaters.Get().(*flate.Writer)
	defer deflaters.Put(w)
	w.Reset(&out)
	_, _ = w.Write(raw) // a buffer takes everything
	_ = w.Flush()
	return bytes.Clone(bytes.TrimSuffix(out.Bytes(), []byte("\x00\x00\xff\xff")))
}

// Packed is what Encode writes, compressed with gzip at its fastest level.
func (c *Changes) Packed(from, to int) ([]byte, error) {
	raw, err := c.Encode(from, to)
	if err != nil {
		return nil, err
	}
	return Pack(raw), nil
}
