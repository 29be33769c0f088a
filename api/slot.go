package api

import "sync"

// slotPool bounds concurrent requests, all together and those of each caller. It is safe for concurrent use.
type slotPool struct {
	most, each int

	mu      sync.Mutex
	taken   int
	callers map[string]int
}

func newSlotPool(most, each int) *slotPool {
	return &slotPool{most: most, each: max(1, each), callers: map[string]int{}}
}

// acquire takes a slot, if one is free for the caller.
func (p *slotPool) acquire(caller string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken >= p.most || p.callers[caller] >= p.each {
		return false
	}
	p.taken++
	p.callers[caller]++
	return true
}

// release gives a slot back.
func (p *slotPool) release(caller string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
	if p.callers[caller]--; p.callers[caller] == 0 {
		delete(p.callers, caller)
	}
}
