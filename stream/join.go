package stream

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/item"
	"github.com/stepwell/stepwell/item/merge"
)

// joiner merges the items that several branches derived from one root (semantics §8: joins of item streams).
type joiner struct {
	seg     *segment
	node    *node
	mergers map[*mergePlan]*merge.Merger
	derive  [][]derivation // by root
}

// Deriver is implemented by modifiers that compute members of an item from others of it, such as bbox from geometry. A
// join recomputes them when another branch has changed their inputs.
type Deriver interface {
	// Derived is called with an item that has been through the modifier, before it is merged. It returns a function
	// that recomputes the members in the merged item and leaves correct ones alone; nil: nothing to compute. The item
	// is read-only and not kept. Safe for concurrent use.
	Derived(it *Item) func(merged *Item) error
}

// derivation is a Deriver on the way to a part.
type derivation struct {
	by   Deriver
	part int
}

func newJoiner(s *segment, n *node) *joiner {
	j := &joiner{seg: s, node: n, mergers: map[*mergePlan]*merge.Merger{}, derive: make([][]derivation, len(n.meeting.roots))}
	prefer := map[string]merge.Prefer{"first": merge.First, "last": merge.Last}[n.step.Merge]
	for r, plan := range n.meeting.roots {
		if plan == nil {
			continue
		}
		j.prepare(plan, prefer)
		for _, on := range s.graph.nodes {
			part, between := plan.between[on]
			if d, ok := on.opened.(Deriver); ok && between {
				j.derive[r] = append(j.derive[r], derivation{d, part})
			}
		}
	}
	return j
}

// prepare makes the mergers of a plan and of its forks.
func (j *joiner) prepare(plan *mergePlan, prefer merge.Prefer) {
	m := &merge.Merger{Prefer: prefer, Resolve: latestUpdate}
	if plan.at != nil {
		m.Base = func(a, b int) int { return plan.at[a][b] }
	}
	j.mergers[plan] = m
	for _, f := range plan.forks {
		if f.merged != nil && j.mergers[f.merged] == nil {
			j.prepare(f.merged, merge.First)
		}
	}
}

// latestUpdate settles properties.updated, which several branches may set: the latest time wins.
func latestUpdate(path item.Path, values []*item.Value) (*item.Value, bool) {
	if len(path) != 2 || path[0].Key != "properties" || path[1].Key != "updated" {
		return nil, false
	}
	var latest *item.Value
	var at time.Time
	for _, v := range values {
		text, _ := v.Str()
		t, err := time.Parse(time.RFC3339, text)
		switch {
		case v == nil:
		case latest == nil, err == nil && t.After(at):
			latest, at = v, t
		}
	}
	return latest, true
}

// join merges the parts of a batch. An item that a branch does not have was dropped or has failed there, and is dropped.
func (j *joiner) join(b *batch) error {
	root := b.ticket.root
	plan, needs := j.node.meeting.roots[root.index], j.node.meeting.needs[root.index]
	parts := b.parts
	cursors := make([]cursor, len(parts))
	for _, i := range needs {
		cursors[i].items = parts[i].items
	}
	at := make([]*Item, len(parts))
	kept := b.items[:0]
	for _, it := range b.items {
		have := true
		for _, i := range needs {
			if at[i] = cursors[i].find(it.origin.seq); at[i] == nil {
				have = false
				break
			}
		}
		if !have {
			j.node.counts.dropped.Add(1)
			continue
		}
		ok, err := j.merge(plan, it, at)
		if err != nil {
			return err
		}
		if ok {
			kept = append(kept, it)
		}
	}
	clear(b.items[len(kept):])
	b.items, b.parts = kept, nil
	for _, i := range needs {
		if parts[i] != b {
			j.seg.batches.returnBatch(parts[i])
		}
	}
	return nil
}

// cursor moves forward in the items of a part, which keep their order.
type cursor struct {
	items []*Item
	at    int
}

func (c *cursor) find(seq int64) *Item {
	for c.at < len(c.items) && c.items[c.at].origin.seq < seq {
		c.at++
	}
	if c.at == len(c.items) || c.items[c.at].origin.seq != seq {
		return nil
	}
	return c.items[c.at]
}

// merge merges one item into it, which is that of the first branch. It reports false when the item has failed; the error
// is not nil when too many have.
func (j *joiner) merge(plan *mergePlan, it *Item, at []*Item) (bool, error) {
	values := make([]*item.Value, 0, 2*len(at))
	for _, p := range plan.parts {
		values = append(values, at[p].Value)
	}
	var done map[*mergePlan]*item.Value
	if plan.at != nil || plan.forks[0].merged != nil {
		done = map[*mergePlan]*item.Value{}
	}
	var again []func(*Item) error
	for _, d := range j.derive[it.origin.root.index] {
		if f := d.by.Derived(at[d.part]); f != nil {
			again = append(again, f)
		}
	}
	forks := j.forks(plan, at, done)
	if conflicts := j.mergers[plan].Merge(values, forks); len(conflicts) > 0 {
		return false, j.seg.failItem(j.node, it, j.conflict(plan, conflicts))
	}
	for _, derive := range again {
		if err := derive(it); err != nil {
			return false, j.seg.failItem(j.node, it, err)
		}
	}
	return true, nil
}

// forks are the values that branches are compared with.
func (j *joiner) forks(plan *mergePlan, at []*Item, done map[*mergePlan]*item.Value) []*item.Value {
	out := make([]*item.Value, 0, len(plan.forks))
	for _, f := range plan.forks {
		if f.merged == nil {
			out = append(out, at[f.part].Value)
			continue
		}
		if done[f.merged] == nil {
			var branches []*item.Value
			for _, p := range f.merged.parts {
				branches = append(branches, at[p].Clone().Value)
			}
			j.mergers[f.merged].Merge(branches, j.forks(f.merged, at, done))
			done[f.merged] = branches[0]
		}
		out = append(out, done[f.merged])
	}
	return out
}

// conflict is the failure of an item whose branches set paths to different values.
func (j *joiner) conflict(plan *mergePlan, conflicts []merge.Conflict) error {
	const most = 3
	var b strings.Builder
	for i, c := range conflicts[:min(len(conflicts), most)] {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString("conflict at " + cmp.Or(c.Path.String(), "the item") + ": ")
		for k, branch := range c.Branches {
			if k > 0 {
				b.WriteString(", ")
			}
			b.WriteString(j.node.meeting.parts[plan.parts[branch]].step.ID)
			if v := c.Values[k]; v == nil {
				b.WriteString(" removes it")
			} else {
				b.WriteString(" sets it to " + stepwell.Clip(v.Bytes(), 60))
			}
		}
	}
	if more := len(conflicts) - most; more > 0 {
		fmt.Fprintf(&b, "; and %d more", more)
	}
	const cure = "write `merge: first` or `merge: last` at the step that joins the branches, or put one step after the other"
	b.WriteString(". Cure: " + cure)
	err := &stepwell.Error{Code: stepwell.CodeConflict, Message: b.String(), Hint: cure}
	return &Error{Type: Conflict, Err: err, Context: Context{Field: conflicts[0].Path.String()}}
}
