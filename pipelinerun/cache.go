package pipelinerun

import "sync"

// cache keeps up to most values; any one makes room for another.
type cache[K comparable, V any] struct {
	most int
	mu   sync.Mutex
	by   map[K]V
}

func (c *cache[K, V]) get(key K) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok := c.by[key]
	return v, ok
}

func (c *cache[K, V]) put(key K, value V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by == nil {
		c.by = map[K]V{}
	}
	if _, there := c.by[key]; !there && len(c.by) >= c.most {
		for other := range c.by {
			delete(c.by, other)
			break
		}
	}
	c.by[key] = value
}

// locks has a lock for each name that is in use.
type locks struct {
	mu sync.Mutex
	by map[string]*lock
}

type lock struct {
	sync.Mutex
	users int
}

// take locks a name.
func (l *locks) take(name string) (release func()) {
	l.mu.Lock()
	if l.by == nil {
		l.by = map[string]*lock{}
	}
	one := l.by[name]
	if one == nil {
		one = &lock{}
		l.by[name] = one
	}
	one.users++
	l.mu.Unlock()
	one.Lock()
	return func() {
		one.Unlock()
		l.mu.Lock()
		defer l.mu.Unlock()
		if one.users--; one.users == 0 {
			delete(l.by, name)
		}
	}
}
