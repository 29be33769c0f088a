package sqlite

import (
	"sync"
	"time"
)

// A terminal execution whose log was read so lately may be about to be restarted: it is not removed. Nor is a
// definition known to this process, which may start it again without storing it; beyond maxKnown no definition is
// removed until the next start of the process.
const (
	usedFor  = 10 * time.Minute
	maxKnown = 100_000
)

// used holds the data in use by this process, which retention spares.
type used struct {
	mu          sync.Mutex
	now, before map[int64]struct{} // executions, of this period and the one before
	turn        time.Time          // when now began
	definitions map[string]struct{}
}

func (u *used) note(execution int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.age()
	u.now[execution] = struct{}{}
}

// age drops entries used too long ago.
func (u *used) age() {
	switch gone := time.Since(u.turn); {
	case gone < usedFor:
		return
	case gone < 2*usedFor:
		u.before = u.now
	default:
		u.before = nil
	}
	u.now, u.turn = map[int64]struct{}{}, time.Now()
}

// executions are those in use.
func (u *used) executions() (out []int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.age()
	for _, list := range []map[int64]struct{}{u.now, u.before} {
		for no := range list {
			out = append(out, no)
		}
	}
	return out
}

func (u *used) definition(hash []byte) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.definitions == nil {
		u.definitions = map[string]struct{}{}
	}
	if len(u.definitions) < maxKnown {
		u.definitions[string(hash)] = struct{}{}
	}
}

// knows reports whether a definition may be in use.
func (u *used) knows(hash []byte) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	_, known := u.definitions[string(hash)]
	return known || len(u.definitions) >= maxKnown
}
