package stream

import "fmt"

// joiner puts together what several branches of one root bring (semantics §6: a diamond).
type joiner struct {
	seg  *segment
	node *node
}

// branch is one input's batch of the number that is joined.
type branch struct {
	*batch
	at   int // how far meet has come
	from *node
}

// join makes one batch of those that carry the same number, by input, nil where an input does not bring it.
// An item that one of them does not have was dropped or has failed there, and is dropped. The others are merged in depth
// over the first, in the order of depends_on.
func (j *joiner) join(parts []*batch) *batch {
	all := make([]branch, 0, len(parts))
	for i, p := range parts {
		if p != nil {
			all = append(all, branch{batch: p, from: j.node.inputs[i]})
		}
	}
	first := all[0].batch
	kept := first.items[:0]
	for _, it := range first.items {
		if meet(all[1:], it.origin.seq) && j.merge(it, all) {
			kept = append(kept, it)
		}
	}
	clear(first.items[len(kept):])
	first.items = kept
	for _, p := range all[1:] {
		j.seg.batches.give(p.batch)
	}
	return first
}

// meet moves forward in all branches up to the item of the given number, and reports whether all have it.
// Within a batch items keep their order.
func meet(branches []branch, seq int64) bool {
	for i := range branches {
		b := &branches[i]
		for b.at < len(b.items) && b.items[b.at].origin.seq < seq {
			b.at++
		}
		if b.at == len(b.items) || b.items[b.at].origin.seq != seq {
			return false
		}
	}
	return true
}

func (j *joiner) merge(it *Item, all []branch) bool {
	id, collection := it.ID(), it.Collection()
	for _, b := range all[1:] {
		other := b.items[b.at]
		if other.ID() != id || other.Collection() != collection {
			j.seg.failItem(j.node, it, fmt.Errorf("cannot join: %s brings the item as %s, %s as %s", all[0].from.step.ID,
				label(id, collection), b.from.step.ID, label(other.ID(), other.Collection())))
			return false
		}
	}
	for _, b := range all[1:] {
		it.Merge(b.items[b.at].Value)
	}
	return true
}

func label(id, collection string) string {
	if collection == "" {
		return fmt.Sprintf("%q", id)
	}
	return fmt.Sprintf("%q of collection %q", id, collection)
}
