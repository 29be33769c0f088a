package stream

import (
	"context"

	"github.com/stepwell/stepwell/spec"
)

// A source that knows the Collection of its items sends it as a whole (semantics §8): through the modifiers, each of
// which may change it, to the sinks that want it. It is sent separately from the items.

// CollectionModifier is implemented by modifiers that change Collections.
type CollectionModifier interface {
	// ModifyCollection returns the Collection to pass on, usually c itself. It may be called at the same time as
	// Modify.
	ModifyCollection(ctx context.Context, c *Item) (*Item, error)
}

// CollectionSink is implemented by sinks that want the Collections of their items.
type CollectionSink interface {
	// TakeCollection takes a Collection over. It may be called at the same time as other methods, and again for a
	// Collection that has been taken; the last counts.
	TakeCollection(c *Item)
}

// wants reports whether a sink behind a source takes Collections.
func (s *segment) wants(n *node) bool {
	for _, end := range s.graph.ends {
		if _, ok := end.opened.(CollectionSink); ok && s.ahead(n, end) != nil {
			return true
		}
	}
	return false
}

// tellCollection passes a Collection of a source on to all sinks behind it that want it: to each by way of the modifiers
// between them, in the order of the graph.
func (s *segment) tellCollection(ctx context.Context, n *node, c *Item) (err error) {
	s.collections.Lock()
	defer s.collections.Unlock()
	defer s.rescue(n, &err)
	for _, end := range s.graph.ends {
		sink, ok := end.opened.(CollectionSink)
		between := s.ahead(n, end)
		if !ok || between == nil {
			continue
		}
		own := c.Clone()
		for _, m := range between {
			modifier, ok := m.opened.(CollectionModifier)
			if !ok {
				continue
			}
			if own, err = modifier.ModifyCollection(ctx, own); err != nil {
				return &member{m, err}
			}
		}
		sink.TakeCollection(own)
	}
	return nil
}

// ahead are the steps between a source and a sink, and the sink, in the order of the graph; nil when no items of the one
// come to the other.
func (s *segment) ahead(from, to *node) []*node {
	reaches := map[*node]bool{}
	var visit func(*node) bool
	visit = func(n *node) bool {
		if n == from {
			return true
		}
		if n.role() == spec.Source { // its output items are not its input items
			return false
		}
		for _, in := range n.inputs {
			reaches[n] = visit(in) || reaches[n]
		}
		return reaches[n]
	}
	if !visit(to) {
		return nil
	}
	var out []*node
	for _, n := range s.graph.nodes {
		if reaches[n] {
			out = append(out, n)
		}
	}
	return out
}
