package stream

import (
	"fmt"
	"math/big"
	"slices"
)

// Where branches part. A join compares what its inputs bring with the item where they parted: at the last step that the
// ways of both have in common. In the graph
//
//	a ─▶ b ─▶ c ─▶ join
//	│    └──▶ d ───▶ │
//	└──▶ e ────────▶ │
//
// c and d parted at b, both of them and e at a. Two inputs may have several such steps, when both come behind the same
// two joined branches; then they parted at what joining those gives.

// meeting is a planned join: its inputs, and how the items of each root are merged.
type meeting struct {
	parts []*node      // its inputs, then steps where branches parted that are none of them
	roots []*mergePlan // by root; nil: the root's items come from one input only, and pass
	needs [][]int      // by root: which of the parts bring its batches
}

// mergePlan says how several parts are merged.
type mergePlan struct {
	parts []int
	forks []fork  // where they parted
	at    [][]int // the number of the fork of two of the parts; nil: 0 for all
	// between are the steps that only some parts have been through, each with the first such part.
	between map[*node]int
}

// fork is where branches parted: at the items of a part, or at the merge of several parts.
type fork struct {
	part   int
	merged *mergePlan
}

const (
	maxBranches = 256    // of a join
	maxJoined   = 10_000 // steps of a segment that has a join
	maxMerges   = 256    // of forks, before a join merges its branches
)

// meet plans the join of a step with several inputs.
func (g *graph) meet(n *node, known map[*root]*ancestry) error {
	if len(n.inputs) > maxBranches {
		return topology("step %s joins %d steps; %d are allowed", n.step.ID, len(n.inputs), maxBranches)
	}
	if len(g.nodes) > maxJoined {
		return topology("step %s joins branches of a stream of %d steps; %d are allowed", n.step.ID, len(g.nodes), maxJoined)
	}
	m := &meeting{parts: slices.Clone(n.inputs), roots: make([]*mergePlan, len(g.roots)), needs: make([][]int, len(g.roots))}
	for _, r := range g.roots {
		var bring []int
		for i, in := range n.inputs {
			if slices.Contains(in.roots, r) {
				bring = append(bring, i)
			}
		}
		m.needs[r.index] = bring
		if len(bring) < 2 {
			continue
		}
		if known[r] == nil {
			known[r] = g.ancestry(r)
		}
		p := planner{ancestry: known[r], meeting: m, root: r, merges: map[string]*mergePlan{}}
		var steps []int
		for _, i := range bring {
			steps = append(steps, p.number[n.inputs[i]])
		}
		m.roots[r.index] = p.merge(steps)
		if len(p.merges) > maxMerges {
			return topology("step %s joins branches that part and join in too many ways", n.step.ID)
		}
		m.roots[r.index].between = p.between(steps)
	}
	n.meeting = m
	return nil
}

// ancestry knows which steps the items of one root have been through at each step.
type ancestry struct {
	nodes  []*node // that carry the root, in the order of the graph
	number map[*node]int
	before []*big.Int // for each of nodes: the set of itself and all that are before it, one bit for each
}

func (g *graph) ancestry(r *root) *ancestry {
	a := &ancestry{number: map[*node]int{}}
	for _, n := range g.nodes {
		if slices.Contains(n.roots, r) {
			a.number[n] = len(a.nodes)
			a.nodes = append(a.nodes, n)
		}
	}
	for i, n := range a.nodes {
		set := new(big.Int).SetBit(new(big.Int), i, 1)
		if n != r.node {
			for _, in := range n.inputs {
				if from, ok := a.number[in]; ok {
					set.Or(set, a.before[from])
				}
			}
		}
		a.before = append(a.before, set)
	}
	return a
}

// parted are the last steps that the ways to two steps have in common, in the order of the graph.
func (a *ancestry) parted(i, j int) []int {
	common := new(big.Int).And(a.before[i], a.before[j])
	var out []int
	for common.BitLen() > 0 {
		at := common.BitLen() - 1
		out = append(out, at)
		common.AndNot(common, a.before[at])
	}
	slices.Reverse(out)
	return out
}

// planner plans the merges of one root at one join.
type planner struct {
	*ancestry
	meeting *meeting
	root    *root
	merges  map[string]*mergePlan // of several forks, by their numbers
}

// merge plans how the items of several steps are merged.
func (p *planner) merge(steps []int) *mergePlan {
	m := &mergePlan{}
	for _, s := range steps {
		m.parts = append(m.parts, p.part(s))
		m.at = append(m.at, make([]int, len(steps)))
	}
	known := map[string]int{}
	for i := range steps {
		for j := range i {
			forks := p.parted(steps[i], steps[j])
			name := fmt.Sprint(forks)
			at, ok := known[name]
			if !ok {
				at = len(m.forks)
				m.forks = append(m.forks, p.fork(forks, name))
				known[name] = at
			}
			m.at[i][j], m.at[j][i] = at, at
		}
	}
	if len(m.forks) == 1 {
		m.at = nil
	}
	return m
}

// between are the steps that some of the given ones have been through, and not all, with the first part that has.
func (p *planner) between(steps []int) map[*node]int {
	common := new(big.Int).Set(p.before[steps[0]])
	for _, s := range steps {
		common.And(common, p.before[s])
	}
	out := map[*node]int{}
	for _, s := range slices.Backward(steps) {
		for i, n := range p.nodes {
			if p.before[s].Bit(i) == 1 && common.Bit(i) == 0 {
				out[n] = p.part(s)
			}
		}
	}
	return out
}

func (p *planner) fork(steps []int, name string) fork {
	if len(steps) == 1 {
		return fork{part: p.part(steps[0])}
	}
	if p.merges[name] == nil && len(p.merges) <= maxMerges {
		p.merges[name] = &mergePlan{} // counts while it is made
		*p.merges[name] = *p.merge(steps)
	}
	return fork{merged: p.merges[name]}
}

// part is the number of a step among the parts of the join, which it becomes if it is none.
func (p *planner) part(step int) int {
	n := p.nodes[step]
	at := slices.Index(p.meeting.parts, n)
	if at < 0 {
		at = len(p.meeting.parts)
		p.meeting.parts = append(p.meeting.parts, n)
	}
	if needs := &p.meeting.needs[p.root.index]; !slices.Contains(*needs, at) {
		*needs = append(*needs, at)
	}
	return at
}
