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

// packed is all rows of a table, compressed, by the columns that were asked for. Each is written when it is first asked for, and kept while
// there is room: pages that open an execution all ask for the same.
type packed struct {
	mu    sync.Mutex
	kept  map[string][]byte
	bytes int
}

// Packed is what Encode writes, compressed with gzip at its fastest level. The caller must not change it.
func (t *Table) Packed(names []string, from, limit int) ([]byte, error) {
	whole := from == 0 && limit >= t.Len()
	which := strings.Join(names, ",")
	if whole {
		t.packed.mu.Lock()
		defer t.packed.mu.Unlock()
		if kept := t.packed.kept[which]; kept != nil {
			return kept, nil
		}
	}
	raw, err := t.Encode(names, from, limit)
	if err != nil {
		return nil, err
	}
	out := Pack(raw)
	if whole && t.packed.bytes+len(out) <= perPacked*t.Len() {
		if t.packed.kept == nil {
			t.packed.kept = map[string][]byte{}
		}
		t.packed.kept[which] = bytes.Clone(out)
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
