package conductor

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

// starts are the keys of executions that are on their way: taken until it is known whether they are durable.
// It is guarded by Conductor.mu.
type starts map[string]chan struct{}

// StartOnce is Start, and reports whether the execution is new: a Key (Origin) has one execution, for any number of
// requests and callers, over crashes too. A key used for another request (KeyHash) is CodeConflict.
//
// An execution without a free slot is held: its status is pending until it is admitted. CodeConflict names the execution
// in whose favour it is skipped (settings.concurrency); CodeLimit: too many are held.
func (c *Conductor) StartOnce(ctx context.Context, req Request) (id string, fresh bool, err error) {
	if ctx.Err() != nil {
		return "", false, context.Cause(ctx)
	}
	if err := checkOrigin(&req.Origin, req.Dir); err != nil {
		return "", false, err
	}
	if err := c.checkProject(ctx, &req); err != nil {
		return "", false, err
	}
	if len(req.KeyHash) > 0 { // a request may hold a secret that can be guessed
		if req.KeyHash, err = c.o.Secrets.Digest(ctx, req.KeyHash); err != nil {
			return "", false, err
		}
	}
	given := req.Key
	if req.Key, err = c.hiddenStartKey(ctx, given); err != nil {
		return "", false, err
	}
	for tries := 1; ; tries++ {
		if req.claim = nil; req.Key != "" {
			id, err := c.claim(ctx, &req, given)
			if id != "" || err != nil {
				return id, false, err
			}
		}
		id, err = c.start(ctx, req)
		switch {
		case refusedFor(err, store.KeyTaken): // another process has started one under the key meanwhile: find it
		case refusedFor(err, store.VersionTaken) && tries < maxNumberTries:
			// The numbers here are another's too: a store that lacked the last commits has given them out again.
			c.numbers.drop()
		default:
			return id, err == nil, err
		}
	}
}

// maxNumberTries is how many numbers of executions are tried. Those that a block is taken from are above all that the store has then.
const maxNumberTries = 10

// checkProject is CodeNotFound for a project that there is not. The one of a retry may have been deleted.
func (c *Conductor) checkProject(ctx context.Context, req *Request) error {
	project := req.Project
	if project == "" || req.Parent != "" {
		return nil
	}
	if err := store.CheckProject(project); err != nil {
		return err
	}
	list, err := c.o.Store.Progress(ctx, []string{project})
	if err == nil && len(list) == 0 {
		err = &stepwell.Error{Code: stepwell.CodeNotFound, Message: "project: there is no project " + stepwell.Clip(project, 80), Hint: "create it first"}
	}
	return err
}

// refusedFor reports whether the store refused a start for this reason.
func refusedFor(err error, why store.Why) bool {
	refusal, ok := errors.AsType[*store.Refusal](err)
	return ok && refusal.Why == why
}

// hiddenStartKey is the stored form of a start's key: an outside key may hold a secret that is not known yet.
func (c *Conductor) hiddenStartKey(ctx context.Context, key string) (string, error) {
	if key == "" {
		return "", nil
	}
	sum, err := c.o.Secrets.Digest(ctx, []byte(key))
	if err != nil || string(sum) == key {
		return key, err
	}
	return hiddenKey + hex.EncodeToString(sum), nil
}

// StartKey finds the execution that was started under a key: CodeNotFound.
func (c *Conductor) StartKey(ctx context.Context, key string) (*store.StartKey, error) {
	hidden, err := c.hiddenStartKey(ctx, key)
	if err != nil {
		return nil, err
	}
	return c.startKey(ctx, hidden, key)
}

// startKey looks for a key in the form in which it is stored, and as it was stored before keys were hidden.
func (c *Conductor) startKey(ctx context.Context, hidden, given string) (*store.StartKey, error) {
	found, err := c.o.Store.StartKey(ctx, hidden)
	if stepwell.CodeOf(err) == stepwell.CodeNotFound && hidden != given {
		found, err = c.o.Store.StartKey(ctx, given)
	}
	return found, err
}

// claim takes the key for a start, which releases it once its outcome is known. Or it returns the id of the execution
// started under the key before. Given is the key as the caller gave it.
func (c *Conductor) claim(ctx context.Context, req *Request, given string) (id string, err error) {
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
	found, err := c.startKey(ctx, req.Key, given)
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

// namedPrefix begins the keys under which the store keeps outside ids.
const namedPrefix = "named:"

// named is the stored value of an outside id.
type named struct {
	Digest []byte          `json:"digest"`
	Note   json.RawMessage `json:"note,omitempty"`
}

// Name says durably that an id of a kind names this content, of which it keeps a digest, as long as keys of starts are
// kept. It gives the note of the first time. CodeConflict: the id names other content.
func (c *Conductor) Name(ctx context.Context, kind, id string, content []byte, note json.RawMessage) (json.RawMessage, error) {
	sum, err := c.o.Secrets.Digest(ctx, content)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(named{sum, note})
	if err != nil {
		return nil, err
	}
	raw, err := c.o.Store.KeepFirst(ctx, store.Signal{Key: namedPrefix + kind, ID: id, Body: body, At: c.o.Now()})
	if err != nil {
		return nil, fmt.Errorf("id of the %s: %w", kind, err)
	}
	var first named
	if err := json.Unmarshal(raw, &first); err != nil {
		return nil, &stepwell.Error{Code: stepwell.CodeInternal, Message: "what the id of the " + kind + " names cannot be read", Err: err}
	}
	if !bytes.Equal(first.Digest, sum) {
		return nil, &stepwell.Error{Code: stepwell.CodeConflict, Message: fmt.Sprintf("the id %q names another %s, with other content", id, kind),
			Hint: "give every " + kind + " an id of its own; one that is sent again has to be the same"}
	}
	return first.Note, nil
}
