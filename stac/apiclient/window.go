package apiclient

import (
	"encoding/base64"
	"encoding/binary"

	"github.com/zeebo/xxh3"
)

// Seen notices items that come again, as far back as a Pager does. It is not for several goroutines.
type Seen struct{ w *window }

// NewSeen makes an empty one.
func NewSeen() *Seen { return &Seen{newWindow()} }

// New reports whether the item has not been there, and remembers it. One without an id is always new.
func (s *Seen) New(f Feature) bool { return f.ID == "" || s.w.add(keyOf(f)) }

// window remembers a limited number of keys by their hashes, so that memory does not grow with the search. Pages
// overlap with their neighbours; a dedupe step removes repeats from farther away.
type window struct {
	ring []xxh3.Uint128
	next int
	has  map[xxh3.Uint128]struct{}
}

// windowSize is how far back repetitions are noticed: some 8 MB when full.
const windowSize = 100_000

func newWindow() *window { return &window{has: map[xxh3.Uint128]struct{}{}} }

// add reports whether the key is new.
func (w *window) add(key xxh3.Uint128) bool {
	if _, known := w.has[key]; known {
		return false
	}
	if len(w.ring) < windowSize {
		w.ring = append(w.ring, key)
	} else {
		delete(w.has, w.ring[w.next])
		w.ring[w.next] = key
		w.next = (w.next + 1) % windowSize
	}
	w.has[key] = struct{}{}
	return true
}

func keyOf(f Feature) xxh3.Uint128 { return xxh3.HashString128(f.Collection + "\x00" + f.ID) }

func (r *Request) hash() xxh3.Uint128 {
	h := xxh3.New()
	for _, part := range []string{r.Method, r.URL, string(r.Body)} {
		h.WriteString(part)   //nolint:errcheck // it has none
		h.Write([]byte{0xff}) //nolint:errcheck // it has none
	}
	var sum uint64 // the order of the headers does not matter
	for name, value := range r.Header {
		sum += xxh3.HashString(name + "\x00" + value)
	}
	h.Write(binary.LittleEndian.AppendUint64(nil, sum)) //nolint:errcheck // it has none
	return h.Sum128()
}

// maxRecent bounds the keys of the last page that a Cursor carries.
const maxRecent = 1000

func packKeys(keys []xxh3.Uint128) string {
	raw := make([]byte, 0, 16*len(keys))
	for _, k := range keys[max(0, len(keys)-maxRecent):] {
		b := k.Bytes()
		raw = append(raw, b[:]...)
	}
	return base64.RawStdEncoding.EncodeToString(raw)
}

func (w *window) unpack(text string) {
	raw, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return // then the next page may repeat an item, which is left out later
	}
	for ; len(raw) >= 16; raw = raw[16:] {
		w.add(xxh3.Uint128{Hi: binary.BigEndian.Uint64(raw[:8]), Lo: binary.BigEndian.Uint64(raw[8:16])})
	}
}
