package output

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/stream"
)

// perCollection in a path stands for the collection of an item.
const perCollection = "{collection_id}"

// maxEach bounds the collections that get a place of their own in one stream.
const maxEach = 500

// each writes every collection to a place of its own: paths with {collection_id}. Each has a sink of its own, which is
// as one for that path alone.
type each struct {
	env    *stream.Env
	config config
	open   func(ctx context.Context, env *stream.Env, c config) (stream.Sink, error)
	sinks  map[string]stream.Sink
	taken  int64
	mu     sync.Mutex
	known  map[string]*stream.Item

	refused int64
}

// eachState are the states of the sinks, by collection.
type eachState map[string]any

// places are the fields of a config that may hold {collection_id}.
func (c *config) places() []*string {
	return []*string{&c.BaseDir, &c.OutputPath, &c.BaseURL, &c.Rejects}
}

// usesCollection reports whether a path of the config holds {collection_id}.
func (c config) usesCollection() bool {
	return strings.Contains(c.BaseDir+c.OutputPath, perCollection)
}

func openEach(ctx context.Context, env *stream.Env, c config, open func(context.Context, *stream.Env, config) (stream.Sink, error)) (*each, error) {
	e := &each{env: env, config: c, open: open, sinks: map[string]stream.Sink{}, known: map[string]*stream.Item{}}
	var states map[string]json.RawMessage
	if _, err := stream.State(env.State, &states); err != nil {
		return nil, fmt.Errorf("%w: %w", stream.ErrStateGone, err)
	}
	for _, id := range slices.Sorted(maps.Keys(states)) {
		if _, err := e.sink(ctx, id, states[id]); err != nil {
			e.Abandon()
			return nil, err
		}
	}
	return e, nil
}

// sink is the one for a collection.
func (e *each) sink(ctx context.Context, id string, state json.RawMessage) (stream.Sink, error) {
	if s := e.sinks[id]; s != nil {
		return s, nil
	}
	if len(e.sinks) == maxEach {
		return nil, &stepwell.Error{Code: stepwell.CodeLimit, Message: fmt.Sprintf("more than %d collections, each with a place of its own", maxEach),
			Hint: "write them into one place, which organize_by: collection arranges"}
	}
	env, c := *e.env, e.config
	env.Data, env.State, env.Past = filepath.Join(e.env.Data, fileName(id)), state, nil
	if err := os.MkdirAll(env.Data, 0o755); err != nil {
		return nil, err
	}
	for _, place := range c.places() {
		*place = strings.ReplaceAll(*place, perCollection, fileName(id))
	}
	s, err := e.open(ctx, &env, c)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	known := e.known[id]
	e.mu.Unlock()
	if taker, ok := s.(stream.CollectionSink); ok && known != nil {
		taker.TakeCollection(known)
	}
	e.sinks[id] = s
	return s, nil
}

// Write implements stream.Sink.
func (e *each) Write(ctx context.Context, batch []*stream.Item) error {
	e.taken += int64(len(batch))
	parts := map[string][]*stream.Item{}
	for _, it := range batch {
		id := it.Collection()
		if id == "" {
			id = e.config.CollectionID
		}
		if id == "" {
			id, _ = e.env.Collection["id"].(string)
		}
		if id == "" {
			e.refused++
			if err := e.env.Refuse(it, stepwell.Invalid("collection_id gives the collection of such items", "the item names no collection, which the path needs")); err != nil {
				return err
			}
			continue
		}
		parts[id] = append(parts[id], it)
	}
	for _, id := range slices.Sorted(maps.Keys(parts)) {
		s, err := e.sink(ctx, id, nil)
		if err == nil {
			err = s.Write(ctx, parts[id])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// TakeCollection implements stream.CollectionSink. Collections come before their items.
func (e *each) TakeCollection(c *stream.Item) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if id := c.ID(); id != "" && len(e.known) < maxEach {
		e.known[id] = c
	}
}

// Commit implements stream.Sink: all sinks make durable all that they have.
func (e *each) Commit(ctx context.Context) (int64, any, error) {
	states := eachState{}
	for id, s := range e.sinks {
		_, state, err := s.Commit(ctx)
		if err != nil {
			return 0, nil, err
		}
		states[id] = state
	}
	return e.taken, states, nil
}

// Close implements stream.Sink.
func (e *each) Close(ctx context.Context) (state, outputs any, err error) {
	states, sum := eachState{}, map[string]any{"items_refused": e.refused}
	manifests := map[string]any{}
	for _, id := range slices.Sorted(maps.Keys(e.sinks)) {
		s, out, err := e.sinks[id].Close(ctx)
		if err != nil {
			return nil, nil, err
		}
		delete(e.sinks, id)
		states[id] = s
		one, _ := out.(map[string]any)
		for key, v := range one {
			switch v := v.(type) {
			case int64:
				n, _ := sum[key].(int64)
				sum[key] = n + v
			case []string:
				list, _ := sum[key].([]string)
				sum[key] = append(list, v[:min(len(v), maxListed-len(list))]...)
			case string:
				manifests[id] = v
			}
		}
	}
	sum["manifest_paths"] = manifests
	return states, sum, nil
}

// Abandon implements stream.Sink.
func (e *each) Abandon() {
	for _, s := range e.sinks {
		s.Abandon()
	}
}
