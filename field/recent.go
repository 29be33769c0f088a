package field

import (
	"slices"
	"sync"
)

// recent keeps what was asked for last of executions at versions.
type recent[T any] struct {
	mu   sync.Mutex
	kept []keptOne[T] // the one that was asked for the longest time ago first
}

type keptOne[T any] struct {
	no, version int64
	value       *T
	bytes       int
}

// find returns what is kept of an execution at a version from the first to the last; nil: nothing.
func (c *recent[T]) find(no, first, last int64) *T {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.kept, func(k keptOne[T]) bool { return k.no == no && first <= k.version && k.version <= last })
	if i < 0 {
		return nil
	}
	k := c.kept[i]
	c.kept = append(slices.Delete(c.kept, i, i+1), k)
	return k.value
}

// keep adds a value, and drops older ones until all of them have at most so many bytes; at least the newest is kept.
func (c *recent[T]) keep(no, version int64, value *T, bytes, most int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept = slices.DeleteFunc(c.kept, func(k keptOne[T]) bool { return k.no == no && k.version == version })
	c.kept = append(c.kept, keptOne[T]{no, version, value, bytes})
	sum := 0
	for i := len(c.kept) - 1; i >= 0; i-- {
		if sum += c.kept[i].bytes; sum > most && i < len(c.kept)-1 {
			c.kept = slices.Delete(c.kept, 0, i+1)
			return
		}
	}
}
