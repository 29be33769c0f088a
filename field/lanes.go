package field

import (
	"math"
	"math/bits"
	"slices"

	"github.com/stepwell/stepwell"
)

// arrangeLanes gives every step that has started a lane in which no other one runs at the same time: the free one with the
// lowest number. It sorts the steps by their start, and by their end.
func (t *Table) arrangeLanes() {
	t.lane = make([]uint32, t.Len())
	starts, ends := make([]uint64, 0, t.Len()), make([]uint64, 0, t.Len()) // the time, and in the low half the step
	for i := range t.status {
		if t.start[i] == 0 || t.status[i] == absent {
			continue
		}
		starts = append(starts, uint64(t.start[i])<<32|uint64(i))
		if end := uint64(t.start[i]) + uint64(max(t.duration[i], 1)); end <= math.MaxUint32 && stepwell.StepStatus(t.status[i]).Terminal() {
			ends = append(ends, end<<32|uint64(i)) // others keep their lane
		}
	}
	slices.Sort(starts)
	slices.Sort(ends)
	free, next := newNumbers(len(starts)), uint32(0)
	for _, s := range starts {
		for len(ends) > 0 && ends[0]>>32 <= s>>32 { // it has a lane: it started before it ended
			free.add(t.lane[uint32(ends[0])])
			ends = ends[1:]
		}
		lane, ok := free.takeLowest()
		if !ok {
			lane = next
			next++
		}
		t.lane[uint32(s)] = lane
	}
}

// numbers is a set of small numbers: a bit each, and one for each 64 of these that are not all 0.
type numbers struct {
	bits, some []uint64
	from       int // nothing is in some before
}

func newNumbers(n int) *numbers {
	words := n/64 + 1
	return &numbers{bits: make([]uint64, words), some: make([]uint64, words/64+1)}
}

func (s *numbers) add(n uint32) {
	word := n / 64
	s.bits[word] |= 1 << (n % 64)
	s.some[word/64] |= 1 << (word % 64)
	s.from = min(s.from, int(word/64))
}

func (s *numbers) takeLowest() (n uint32, ok bool) {
	for ; s.from < len(s.some); s.from++ {
		if s.some[s.from] == 0 {
			continue
		}
		word := s.from*64 + bits.TrailingZeros64(s.some[s.from])
		bit := bits.TrailingZeros64(s.bits[word])
		if s.bits[word] &^= 1 << bit; s.bits[word] == 0 {
			s.some[s.from] &^= 1 << (word % 64)
		}
		return uint32(word*64 + bit), true
	}
	return 0, false
}
