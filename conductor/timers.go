package conductor

import (
	"time"

	"github.com/stepwell/stepwell/engine"
)

// timer is a time at which an execution wants to be told.
type timer struct {
	run int64
	engine.Timer
}

// timerHeap keeps the earliest first. Timers that have become pointless stay until their time and
// are then ignored by the engine.
type timerHeap struct{ list []timer }

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

// due takes out the timers whose time has come.
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
	for i := 0; ; {
		least := i
		for _, child := range [2]int{2*i + 1, 2*i + 2} {
			if child < last && h.list[child].At < h.list[least].At {
				least = child
			}
		}
		if least == i {
			return top
		}
		h.list[i], h.list[least] = h.list[least], h.list[i]
		i = least
	}
}

// wait is how long until the first.
func (h *timerHeap) wait(now int64) time.Duration {
	if len(h.list) == 0 {
		return time.Hour
	}
	return max(0, time.Duration(h.list[0].At-now)*time.Microsecond)
}
