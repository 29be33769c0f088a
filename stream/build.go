package stream

import (
	"slices"

	"github.com/stepwell/stepwell/spec"
)

// build makes and connects the stages: behind every source one that parses its items, and one for adjacent Parallel
// modifiers.
func (s *segment) build() []stage {
	var stages []stage
	tails := map[*node]*outlet{} // where the items of a step come out
	flows := map[*node]*flow{}   // the last stage that a step is in
	for _, n := range s.graph.nodes {
		if !n.works() {
			continue
		}
		switch n.role() {
		case spec.Source:
			src, look := s.source(n, tails)
			stages = append(stages, stage{n, src.run}, stage{n, look.run})
			flows[n], tails[n] = look, &look.out
		case spec.Modifier:
			f := s.fused(n, flows)
			if f == nil {
				f = &flow{seg: s, in: s.inbox(n, tails), many: n.module.Spec.Stream.Parallel}
				stages = append(stages, stage{n, f.run})
			}
			f.nodes = append(f.nodes, n)
			f.out = outlet{seg: s, node: n}
			flows[n], tails[n] = f, &f.out
		case spec.Sink:
			d := &drain{seg: s, node: n, in: s.inbox(n, tails)}
			stages = append(stages, stage{n, d.run})
		}
	}
	s.measureRooms(flows)
	for n, f := range flows {
		if n.counts.lanes = 1; f.many {
			n.counts.lanes = int32(s.settings.Workers)
		}
	}
	return stages
}

// measureRooms says how many items each stage lets wait in front of it: the batches of its inbox, one in the hands of each goroutine that
// passes them on there, and one that several goroutines behind are about to share.
func (s *segment) measureRooms(flows map[*node]*flow) {
	for _, n := range s.graph.nodes {
		if len(n.inputs) != 1 || n.role() == spec.Source || !n.works() {
			continue
		}
		before, batches := flows[n.inputs[0]], buffered+1
		if before == nil || before == flows[n] {
			continue // no buffer is between steps of one stage
		}
		if before.many && !s.settings.Ordered {
			batches += s.settings.Workers - 1
		}
		if f := flows[n]; f != nil && f.many && s.settings.Workers > 1 {
			batches++
		}
		n.counts.room.Store(int64(batches) * int64(s.settings.Batch))
	}
}

// fused gives the stage in which a parallel modifier can come behind the one before it.
func (s *segment) fused(n *node, flows map[*node]*flow) *flow {
	if !n.module.Spec.Stream.Parallel || len(n.inputs) != 1 || len(n.inputs[0].outs) != 1 {
		return nil
	}
	if f := flows[n.inputs[0]]; f.many && !(f.out.skips && s.resumes) {
		return f
	}
	return nil
}

// inbox connects a step with those before it.
func (s *segment) inbox(n *node, tails map[*node]*outlet) *inbox {
	in := newInbox(n, len(s.graph.roots))
	ends := n.ends
	if n.role() == spec.Source {
		ends = 0 // a source's output items are not its input items
	}
	for i, from := range n.inputs {
		tails[from].edges = append(tails[from].edges, edge{to: in, from: i, ends: ends})
	}
	if n.meeting == nil {
		return in
	}
	in.join = newJoiner(s, n)
	for i := len(n.inputs); i < len(n.meeting.parts); i++ {
		e := edge{to: in, from: i, ends: ends, only: make([]bool, len(s.graph.roots))}
		for r, parts := range n.meeting.needs {
			e.only[r] = slices.Contains(parts, i)
		}
		tail := tails[n.meeting.parts[i]]
		tail.edges = slices.Insert(tail.edges, 0, e) // the last edge takes the items themselves: an edge that all items pass
	}
	return in
}

// source makes the stage of a source and the one behind it.
func (s *segment) source(n *node, tails map[*node]*outlet) (*intake, *flow) {
	src := &intake{seg: s, node: n, root: n.root, out: outlet{seg: s, node: n}}
	if len(n.inputs) > 0 {
		src.in = s.inbox(n, tails)
	}
	between := &inbox{ch: make(chan message, buffered), inputs: 1, need: make([]int, len(s.graph.roots))}
	between.need[n.root.index] = 1
	src.out.edges = []edge{{to: between, ends: n.ends}}
	return src, &flow{seg: s, in: between, out: outlet{seg: s, node: n, skips: true}, intake: n, many: true}
}
