package conductor

import (
	"bytes"
	"context"
	"fmt"

	"github.com/stepwell/stepwell"
)

// starts are the keys of executions that are on their way: taken until it is known whether they are durable.
// It is guarded by Conductor.mu.
type starts map[string]chan struct{}

// StartOnce is Start, and tells whether the execution is a new one: with a Key (Origin) there is one
// execution for it, however often and by however many it is asked for, over crashes too. A key under which
// something else was asked for (KeyHash) is CodeConflict.
//
// An execution for which there is no room is held: its status is pending until it is admitted. CodeConflict
// names the execution in whose favour it is skipped (settings.concurrency); CodeLimit: too many are held.
func (c *Conductor) StartOnce(ctx context.Context, req Request) (id string, fresh bool, err error) {
	if ctx.Err() != nil {
		return "", false, context.Cause(ctx)
	}
	if len(req.KeyHash) > 0 { // a request may hold a secret that can be guessed
		if req.KeyHash, err = c.o.Secrets.Digest(ctx, req.KeyHash); err != nil {
			return "", false, err
		}
	}
	if req.claim = nil; req.Key != "" {
		id, err := c.claim(ctx, &req)
		if id != "" || err != nil {
			return id, false, err
		}
	}
	id, err = c.start(ctx, req)
	return id, err == nil, err
}

// claim takes the key for a start, which gives it back when it is known how that went. An id instead: that one
// was started under the key before.
func (c *Conductor) claim(ctx context.Context, req *Request) (id string, err error) {
	for {
		c.mu.Lock()
		busy := c.starts[req.Key]
		if busy == nil {
			req.claim = make(chan struct{})
			c.starts[req.Key] = req.claim
		}
		c.mu.Unlock()
		if busy == nil {
			break
		}
		select {
		case <-busy:
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-c.stop:
			return "", c.stopped()
		}
	}
	found, err := c.o.Store.StartKey(ctx, req.Key)
	switch {
	case stepwell.CodeOf(err) == stepwell.CodeNotFound:
		return "", nil
	case err != nil:
		err = fmt.Errorf("key of the start: %w", err)
	case !bytes.Equal(found.Hash, req.KeyHash):
		err = &stepwell.Error{Code: stepwell.CodeConflict, Message: "the key was used for another request, which started execution " + found.Execution, Hint: "use another key"}
	default:
		id = found.Execution
	}
	c.release(req.Key, req.claim)
	return id, err
}

// release gives a key back.
func (c *Conductor) release(key string, claim chan struct{}) {
	if claim == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.starts[key] == claim {
		close(claim)
		delete(c.starts, key)
	}
}
