package streamtest

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/stream"
)

// Source is a module that makes the given items, texts of JSON objects, with a mark behind every one.
func Source(name string, items ...string) stream.Module {
	return stream.Module{
		Spec: spec.Spec{Name: name, Summary: "Makes given items.", Stream: &spec.Stream{Role: spec.Source}},
		Open: func(_ context.Context, env *stream.Env, _ map[string]any) (any, error) {
			from := 0
			_, err := stream.State(env.Cursor, &from)
			return source{name, items, from}, err
		},
	}
}

type source struct {
	name  string
	items []string
	from  int
}

// Read implements stream.Source.
func (s source) Read(_ context.Context, _ iter.Seq[*stream.Item], out stream.Out) error {
	out.Expect(int64(len(s.items)))
	for i := s.from; i < len(s.items); i++ {
		if err := out.Item(stream.Lazy([]byte(s.items[i]), stream.Place{File: s.name, Line: int64(i + 1)})); err != nil {
			return err
		}
		if err := out.Mark(i + 1); err != nil {
			return err
		}
	}
	return nil
}

// Func makes a Modifier of a function.
type Func func(ctx context.Context, it *stream.Item) (*stream.Item, error)

// Modify implements stream.Modifier.
func (f Func) Modify(ctx context.Context, it *stream.Item) (*stream.Item, error) { return f(ctx, it) }

// Modifier is a module that applies f to every item.
func Modifier(name string, parallel bool, f Func) stream.Module {
	return stream.Module{
		Spec: spec.Spec{Name: name, Summary: "Does what a test wants.", Stream: &spec.Stream{Role: spec.Modifier, Parallel: parallel}},
		Open: func(context.Context, *stream.Env, map[string]any) (any, error) { return f, nil },
	}
}

// Collector is a sink that keeps the texts of items; the next one sees the committed texts.
type Collector struct {
	name string

	mu        sync.Mutex
	items     []string
	committed int
	closed    int
}

// Collect makes a Collector.
func Collect(name string) *Collector { return &Collector{name: name} }

// Items are the texts of the items that are durable, in order.
func (c *Collector) Items() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.items[:c.committed])
}

// Closed is how often the output was ended.
func (c *Collector) Closed() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// Module is the sink.
func (c *Collector) Module() stream.Module {
	return stream.Module{
		Spec: spec.Spec{Name: c.name, Summary: "Keeps items.", Stream: &spec.Stream{Role: spec.Sink}},
		Open: func(_ context.Context, env *stream.Env, _ map[string]any) (any, error) {
			from := 0
			if _, err := stream.State(env.State, &from); err != nil {
				return nil, err
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			if from > c.committed {
				return nil, fmt.Errorf("%d items where %d were left: %w", c.committed, from, stream.ErrStateGone)
			}
			c.items, c.committed = c.items[:from], from
			return &collecting{Collector: c, from: from}, nil
		},
	}
}

type collecting struct {
	*Collector
	from int
}

// Write implements stream.Sink.
func (c *collecting) Write(_ context.Context, batch []*stream.Item) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, it := range batch {
		c.items = append(c.items, string(it.Bytes()))
	}
	return nil
}

// Commit implements stream.Sink.
func (c *collecting) Commit(context.Context) (int64, any, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.committed = len(c.items)
	return int64(c.committed - c.from), c.committed, nil
}

// Close implements stream.Sink.
func (c *collecting) Close(ctx context.Context) (state, outputs any, err error) {
	n, state, err := c.Commit(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed++
	return state, map[string]any{"items_written": n}, err
}

// Abandon implements stream.Sink.
func (c *collecting) Abandon() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.items = c.items[:c.committed]
}
