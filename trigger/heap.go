package trigger

import stdheap "container/heap"

// heap orders entries by when the loop has to look at them.
type heap []*entry

func (h heap) Len() int           { return len(h) }
func (h heap) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h heap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].pos, h[j].pos = i, j
}

// Push is for container/heap alone.
func (h *heap) Push(x any) {
	e := x.(*entry)
	e.pos = len(*h)
	*h = append(*h, e)
}

// Pop is for container/heap alone.
func (h *heap) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	e.pos = -1
	return e
}

// place puts an entry where its due time belongs, or takes it out.
func (h *heap) place(e *entry) {
	switch {
	case e.due.IsZero():
		h.remove(e)
	case e.pos < 0:
		stdheap.Push(h, e)
	default:
		stdheap.Fix(h, e.pos)
	}
}

func (h *heap) remove(e *entry) {
	if e.pos >= 0 {
		stdheap.Remove(h, e.pos)
	}
}

func (h *heap) pop() *entry { return stdheap.Pop(h).(*entry) }
