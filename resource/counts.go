package resource

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

// Count is the counts of an object that starts executions.
type Count struct {
	Runs      int       `json:"runs"`
	Last      time.Time `json:"last"`
	Execution string    `json:"execution"`
	Failed    string    `json:"failed,omitempty"` // why the latest could not be started
}

// Counts keeps counts, which are stored a second later at most: a process that is killed loses those of its last
// second, and nothing else.
type Counts struct {
	objects store.Objects
	kind    string
	hide    func(string) string
	gather  Gather

	mu    sync.Mutex
	all   map[string]Count
	dirty map[string]bool
}

// OpenCounts loads all counts of a kind. hide takes secrets out of texts; nil: there are none.
func OpenCounts(ctx context.Context, objects store.Objects, kind string, hide func(string) string) (*Counts, error) {
	if hide == nil {
		hide = func(text string) string { return text }
	}
	c := &Counts{objects: objects, kind: kind, hide: hide, gather: NewGather(), all: map[string]Count{}, dirty: map[string]bool{}}
	return c, Each(ctx, objects, kind, c.read)
}

func (c *Counts) read(o *store.Object) error {
	var n Count
	if err := json.Unmarshal(o.Body, &n); err != nil {
		return &stepwell.Error{Code: stepwell.CodeInternal, Message: "the stored count " + o.ID + " cannot be read", Err: err}
	}
	c.all[o.ID] = n
	return nil
}

// Of gives the count of an id.
func (c *Counts) Of(id string) Count {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all[id]
}

// Ran counts an execution, or takes in why there is none.
func (c *Counts) Ran(id, execution string, err error) {
	c.mu.Lock()
	n := c.all[id]
	if err != nil {
		n.Failed = stepwell.Clip(c.hide(err.Error()), maxShown)
	} else {
		n.Runs++
		n.Last, n.Execution, n.Failed = time.Now(), execution, ""
	}
	c.all[id], c.dirty[id] = n, true
	c.mu.Unlock()
	c.gather.Changed()
}

// Forget removes the count of a deleted object.
func (c *Counts) Forget(ctx context.Context, id string) error {
	c.mu.Lock()
	delete(c.all, id)
	delete(c.dirty, id)
	c.mu.Unlock()
	if err := c.objects.DeleteObject(ctx, c.kind, id, store.AnyRevision); err != nil && stepwell.CodeOf(err) != stepwell.CodeNotFound {
		return err
	}
	return nil
}

// Run stores counts until ctx ends, the last ones included.
func (c *Counts) Run(ctx context.Context) error { return c.gather.Run(ctx, c.flush) }

// flush stores changed counts. Counts that cannot be stored are retried.
func (c *Counts) flush(ctx context.Context) error {
	const batch = 500
	var failed error
	for {
		var objects []store.Object
		c.mu.Lock()
		for id := range c.dirty {
			body, err := json.Marshal(c.all[id])
			if err != nil {
				failed = errors.Join(failed, fmt.Errorf("count of %s: %w", id, err))
			} else {
				objects = append(objects, store.Object{Kind: c.kind, ID: id, Revision: store.AnyRevision, Body: body})
			}
			delete(c.dirty, id)
			if len(objects) == batch {
				break
			}
		}
		c.mu.Unlock()
		if len(objects) == 0 {
			return failed
		}
		if _, err := c.objects.PutObjects(ctx, objects...); err != nil {
			c.mu.Lock()
			for _, o := range objects {
				if _, ok := c.all[o.ID]; ok {
					c.dirty[o.ID] = true
				}
			}
			c.mu.Unlock()
			return errors.Join(failed, err)
		}
	}
}
