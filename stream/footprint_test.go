package stream

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/item"
)

// A file that lost its end with the power is cut at its last whole record, and goes on from there.
func TestFootprintsCutWithinARecord(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a"+printsSuffix)
	p := &prints{path: name}
	record := func(key uint64) []byte {
		raw := binary.LittleEndian.AppendUint64(make([]byte, 16), key)
		if key > 1 { // the first is one of an earlier version
			raw = binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(raw, 3|printMarked), 0)
			return binary.LittleEndian.AppendUint64(append(raw, `"x"`...), 7)
		}
		return append(binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(raw, 3), 0), `"x"`...)
	}
	if err := errors.Join(p.add(record(1)), p.add(record(2)), p.close()); err != nil {
		t.Fatal(err)
	}
	whole := int64(len(record(1)))
	if err := os.Truncate(name, whole+int64(len(record(2)))-5); err != nil {
		t.Fatal(err)
	}
	p = &prints{path: name}
	if err := p.resume(whole + int64(len(record(2)))); err != nil || p.size != whole {
		t.Fatalf("%d bytes count, %v; want %d", p.size, err, whole)
	}
	if err := errors.Join(p.add(record(3)), p.close()); err != nil {
		t.Fatal(err)
	}
	var keys, marked []uint64
	err := eachPrint(t.Context(), strings.TrimSuffix(name, printsSuffix), func(_ Box, at place, texts []byte, id int) {
		if string(texts) != `"x"` || id != 3 {
			t.Errorf("%q, %d", texts, id)
		}
		keys, marked = append(keys, at.key), append(marked, at.mark)
	})
	if err != nil || !slices.Equal(keys, []uint64{1, 3}) || !slices.Equal(marked, []uint64{0, 7}) {
		t.Errorf("%v, %v, %v", keys, marked, err)
	}
}

// Items beyond the bounds have no footprints, and the answer says that it is not all.
func TestFootprintsLeftOut(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a"+printsSuffix)
	pending, p := &pendingPrints{count: maxPrints}, &prints{path: name}
	it := &Item{Value: itemOf(t, `{"id":"x","bbox":[1,2,3,4]}`)}
	for n := range int64(3) {
		pending.add(it, n+1)
	}
	if len(pending.marks) != 1 {
		t.Fatalf("%d records say that some are left out", len(pending.marks))
	}
	if err := errors.Join(p.add(pending.upTo(3)), p.close()); err != nil {
		t.Fatal(err)
	}
	q := &FootprintQuery{}
	all, err := q.read(t.Context(), strings.TrimSuffix(name, printsSuffix), 0, nil)
	if err != nil || len(all) != 0 || !q.cut {
		t.Errorf("%d footprints, cut %v, %v", len(all), q.cut, err)
	}
}

func itemOf(t *testing.T, text string) *item.Value {
	t.Helper()
	v, err := item.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}
