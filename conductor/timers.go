package conductor

import (
	"slices"
	"time"

	"github.com/stepwell/stepwell/engine"
)

// timer is a time at which an execution is woken.
type timer struct {
	run int64
	engine.Timer
}

// timerHeap keeps the earliest first. A timer that has become pointless stays until its time, and is
// then ignored by the engine; those of executions that have ended go before, see prune.
type timerHeap struct {
	list []timer
	kept int // length after the last prune
}

// The heap is pruned when it has more than minPrune timers and twice those left by the last prune: a constant cost
// per timer.
const minPrune = 4096

// prune lets go of the timers of executions that are not in memory, if there may be many: a time
// limit of a day would otherwise hold a timer for every execution of the day.
func (h *timerHeap) prune(alive func(run int64) bool) {
	if len(h.list) < 2*h.kept+minPrune {
		return
	}
	h.list = slices.DeleteFunc(h.list, func(t timer) bool { return !alive(t.run) })
	for i := len(h.list)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
	if h.kept = len(h.list); cap(h.list) > 4*h.kept+minPrune {
		h.list = slices.Clip(slices.Clone(h.list))
	}
}

func (h *timerHeap) add(t timer) {
	h.list = append(h.list, t)
	for i := len(h.list) - 1; i > 0; {
		parent := (i - 1) / 2
		if h.list[parent].At <= h.list[i].At {
			return
		}
		h.list[parent], h.list[i] = h.list[i], h.list[parent]
		i = parent
	}
}

// due removes and returns the due timers.
func (h *timerHeap) due(now int64) []timer {
	var out []timer
	for len(h.list) > 0 && h.list[0].At <= now {
		out = append(out, h.pop())
	}
	return out
}

func (h *timerHeap) pop() timer {
	top, last := h.list[0], len(h.list)-1
	h.list[0] = h.list[last]
	h.list = h.list[:last]
	h.down(0)
	return top
}

// down moves a timer below earlier ones.
func (h *timerHeap) down(i int) {
	for {
		least := i
		for _, child := range [2]int{2*i + 1, 2*i + 2} {
			if child < len(h.list) && h.list[child].At < h.list[least].At {
				least = child
			}
		}
		if least == i {
			return
		}
		h.list[i], h.list[least] = h.list[least], h.list[i]
		i = least
	}
}

// maxWait limits the loop's sleep, and so the delay after a suspend or a change of the clock.
const maxWait = time.Minute

// wait is how long until the first, or maxWait.
func (h *timerHeap) wait(now int64) time.Duration {
	if len(h.list) == 0 || h.list[0].At-now > maxWait.Microseconds() {
		return maxWait
	}
	return max(0, time.Duration(h.list[0].At-now)*time.Microsecond)
}
