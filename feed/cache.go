package feed

import (
	"context"
	"sync"
)

// cache keeps the newest pages within its budget. A missing page is read once for all concurrent readers.
type cache struct {
	mu     sync.Mutex
	budget int
	bytes  int
	pages  map[place]*entry
	order  []*entry // oldest first
}

type place struct {
	execution int64
	at        Cursor
}

// entry is a page, or a read in progress: ready is closed when it ends.
type entry struct {
	place place
	page  *page
	err   error
	ready chan struct{}
}

// put stores pages. A page being read at the moment is left to its readers.
func (c *cache) put(execution int64, pages []*page) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range pages {
		c.insert(&entry{place: place{execution, p.start}, page: p})
	}
}

func (c *cache) insert(e *entry) {
	if c.pages[e.place] != nil {
		return
	}
	c.pages[e.place] = e
	c.order = append(c.order, e)
	c.bytes += e.page.bytes + overhead
	for c.bytes > c.budget && len(c.order) > 1 {
		old := c.order[0]
		c.order[0] = nil
		c.order = c.order[1:]
		c.bytes -= old.page.bytes + overhead
		delete(c.pages, old.place)
	}
}

// get finds the page of a place, or has it read by load, which gives it and those behind it. The page may be nil: then
// there is nothing behind the place.
func (c *cache) get(ctx context.Context, at place, load func() ([]*page, error)) (*page, error) {
	c.mu.Lock()
	e := c.pages[at]
	if e == nil {
		e = &entry{place: at, ready: make(chan struct{})}
		c.pages[at] = e
		c.mu.Unlock()
		c.load(e, load)
		return e.page, e.err
	}
	c.mu.Unlock()
	if e.ready == nil {
		return e.page, nil
	}
	select {
	case <-e.ready:
		return e.page, e.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (c *cache) load(e *entry, load func() ([]*page, error)) {
	defer close(e.ready)
	pages, err := load()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pages, e.place)
	if e.err = err; err != nil || len(pages) == 0 {
		return
	}
	e.page = pages[0]
	for _, p := range pages {
		c.insert(&entry{place: place{e.place.execution, p.start}, page: p})
	}
}
