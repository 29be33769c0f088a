package field

import (
	"cmp"
	"container/heap"
	"math"
	"slices"

	"github.com/stepwell/stepwell"
)

// arrangeLanes gives every step that has started a lane in which no other one runs at the same time: the free one with the
// lowest number. It sorts the steps by their start.
func (t *Table) arrangeLanes() {
	t.lane = make([]uint32, t.Len())
	var started []int32
	for i := range int32(t.Len()) {
		if t.start[i] > 0 && t.status[i] != absent {
			started = append(started, i)
		}
	}
	slices.SortStableFunc(started, func(a, b int32) int { return cmp.Compare(t.start[a], t.start[b]) })
	var busy, free lanes
	next := uint32(0)
	for _, i := range started {
		for len(busy) > 0 && busy[0].key <= uint64(t.start[i]) {
			lane := heap.Pop(&busy).(keyedLane).lane
			heap.Push(&free, keyedLane{uint64(lane), lane})
		}
		lane := next
		if len(free) > 0 {
			lane = heap.Pop(&free).(keyedLane).lane
		} else {
			next++
		}
		t.lane[i] = lane
		end := uint64(t.start[i]) + uint64(max(t.duration[i], 1))
		if !stepwell.StepStatus(t.status[i]).Terminal() {
			end = math.MaxUint64
		}
		heap.Push(&busy, keyedLane{end, lane})
	}
}

// keyedLane is a lane by the time at which it is free, or by its number.
type keyedLane struct {
	key  uint64
	lane uint32
}

// lanes are a heap by key.
type lanes []keyedLane

func (l lanes) Len() int           { return len(l) }
func (l lanes) Less(i, j int) bool { return l[i].key < l[j].key }
func (l lanes) Swap(i, j int)      { l[i], l[j] = l[j], l[i] }
func (l *lanes) Push(x any)        { *l = append(*l, x.(keyedLane)) }
func (l *lanes) Pop() any {
	last := len(*l) - 1
	x := (*l)[last]
	*l = (*l)[:last]
	return x
}
