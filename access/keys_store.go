package access

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/store"
)

// useBody is when a key was used.
type useBody struct {
	At time.Time `json:"at"`
}

// load reads all keys, unless that was done a moment ago.
func (k *Keys) load(ctx context.Context, anew bool) error {
	k.mu.Lock()
	known := !k.read.IsZero()
	if known && !anew && time.Since(k.read) < keysFor {
		k.mu.Unlock()
		return nil
	}
	if known {
		k.read = time.Now() // concurrent callers use the old keys
	}
	before := k.changes
	k.mu.Unlock()
	at := time.Now()
	byID := map[string]*kept{}
	err := k.each(ctx, func(o *store.Object, b *keyBody) { byID[o.ID] = &kept{key: b.key(o), hash: b.Hash} })
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case err != nil && known:
		k.read = at.Add(-keysFor) // the next one tries again
		return err
	case err != nil:
		return err
	case k.changes != before && known: // it may have been read before the change
		k.read = at.Add(-keysFor)
		return nil
	}
	k.read, k.byID = at, byID
	return nil
}

// Refresh reads the keys again if there is one among the objects that another process has changed or deleted.
func (k *Keys) Refresh(ctx context.Context, changed []store.Object) error {
	if slices.ContainsFunc(changed, func(o store.Object) bool { return o.Kind == ObjectKey }) {
		return k.load(ctx, true)
	}
	return nil
}

// seek reads all keys again when one is asked for that is not known: another process may have created it. Made-up keys cost
// one reading a second.
func (k *Keys) seek(ctx context.Context, id string) error {
	known := func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.byID[id] != nil
	}
	if known() {
		return nil
	}
	k.seeking.Lock() // concurrent callers wait for the reload
	defer k.seeking.Unlock()
	if known() || time.Since(k.sought) < seekFor {
		return nil
	}
	k.sought = time.Now()
	return k.load(ctx, true)
}

// each goes through all keys.
func (k *Keys) each(ctx context.Context, do func(*store.Object, *keyBody)) error {
	return resource.Each(ctx, k.store, ObjectKey, func(o *store.Object) error {
		var b keyBody
		if err := json.Unmarshal(o.Body, &b); err != nil {
			return fmt.Errorf("API key %s: %w", o.ID, err)
		}
		do(o, &b)
		return nil
	})
}

// uses are the times at which keys were used last.
func (k *Keys) uses(ctx context.Context) (map[string]time.Time, error) {
	out := map[string]time.Time{}
	err := resource.Each(ctx, k.store, objectUse, func(o *store.Object) error {
		var b useBody
		if err := json.Unmarshal(o.Body, &b); err != nil {
			return fmt.Errorf("use of API key %s: %w", o.ID, err)
		}
		out[o.ID] = b.At
		return nil
	})
	k.mu.Lock()
	defer k.mu.Unlock()
	for id, at := range k.used {
		if at.After(out[id]) {
			out[id] = at.UTC()
		}
	}
	return out, err
}

// Run notes once a minute which keys were used, until ctx ends, and then once more.
func (k *Keys) Run(ctx context.Context) error {
	tick := time.NewTicker(usesFor)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			end, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordEnd)
			defer cancel()
			return k.note(end)
		case <-tick.C:
			if err := k.note(ctx); err != nil && ctx.Err() == nil {
				k.log.Error("the last use of API keys could not be written; it will be retried", "error", err)
			}
		}
	}
}

// note writes which keys were used since it was called last.
func (k *Keys) note(ctx context.Context) error {
	k.mu.Lock()
	used := maps.Clone(k.used)
	k.mu.Unlock()
	if len(used) == 0 {
		return nil
	}
	objects := make([]store.Object, 0, len(used))
	for id, at := range used {
		raw, err := json.Marshal(useBody{At: at.UTC().Truncate(time.Second)})
		if err != nil {
			return err
		}
		objects = append(objects, store.Object{Kind: objectUse, ID: id, Revision: store.AnyRevision, Body: raw})
	}
	if _, err := k.store.PutObjects(ctx, objects...); err != nil {
		return fmt.Errorf("uses of API keys: %w", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for id, at := range used {
		if k.used[id].Equal(at) {
			delete(k.used, id)
		}
	}
	return nil
}
