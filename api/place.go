package api

import "sync"

// places bounds requests that are served at the same time, all together and those of each caller. It is safe for
// concurrent use.
type places struct {
	most, each int

	mu      sync.Mutex
	taken   int
	callers map[string]int
}

func newPlaces(most, each int) *places {
	return &places{most: most, each: max(1, each), callers: map[string]int{}}
}

// take takes a place, if there is one for the caller.
func (p *places) take(caller string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken >= p.most || p.callers[caller] >= p.each {
		return false
	}
	p.taken++
	p.callers[caller]++
	return true
}

// leave gives a place back.
func (p *places) leave(caller string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
	if p.callers[caller]--; p.callers[caller] == 0 {
		delete(p.callers, caller)
	}
}
