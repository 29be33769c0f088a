package stream

import "testing"

// Marks are made for every item: they take nothing from the heap.
func TestMarksAllocateNothing(t *testing.T) {
	r, key := &root{index: 3}, make([]byte, 16)
	place := Place{File: "a/long/path/of/a/file.ndjson", Line: 1_000_000}
	if n := testing.AllocsPerRun(100, func() { _ = r.mark("a-collection", "an-item", place, key) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
	// Equal texts in another place, or of another source, are other items.
	other := &root{index: 4}
	a := r.mark("c", "i", place, key)
	for _, b := range []marks{r.mark("c", "j", place, key), r.mark("d", "i", place, key), other.mark("c", "i", place, key), r.mark("ci", "", place, key)} {
		if a.id == b.id {
			t.Errorf("%v %v", a, b)
		}
	}
}
