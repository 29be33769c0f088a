package upload

import (
	"sync"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/resource"
)

// slots bound the requests that hold chunks in memory. One caller gets half of them at most. It is safe for concurrent use.
type slots struct {
	mu    sync.Mutex
	most  int
	taken int
	by    map[resource.Ref]int
}

func newSlots(most int) *slots { return &slots{most: most, by: map[resource.Ref]int{}} }

// take takes a slot until free is called: CodeUnavailable when there is none.
func (s *slots) take(caller resource.Ref) (free func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken == s.most || s.by[caller] >= (s.most+1)/2 {
		return nil, &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "too many files are under way", Hint: "try again in a moment"}
	}
	s.taken++
	s.by[caller]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.taken--
		if s.by[caller]--; s.by[caller] == 0 {
			delete(s.by, caller)
		}
	}, nil
}
