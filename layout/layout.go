// Package layout arranges the steps of a graph for drawing: every step gets a layer, above all that it depends on, and a
// position within its layer that keeps edges short. Time and memory are linear in steps and edges. Pure.
package layout

import "github.com/stepwell/stepwell/plan"

// Graph is nodes with what each of them depends on, as one list: node i depends on Edges[First[i]:First[i+1]].
type Graph struct {
	First []int32 // one more than there are nodes
	Edges []int32
}

// Len is the number of nodes.
func (g *Graph) Len() int { return max(0, len(g.First)-1) }

// Deps are the nodes that a node depends on. The caller must not change them.
func (g *Graph) Deps(i int32) []int32 { return g.Edges[g.First[i]:g.First[i+1]] }

// Add appends a node. Nodes that do not exist are left out of its dependencies when the graph is arranged.
func (g *Graph) Add(deps ...int32) {
	if len(g.First) == 0 {
		g.First = append(g.First, 0)
	}
	g.Edges = append(g.Edges, deps...)
	g.First = append(g.First, int32(len(g.Edges)))
}

// GraphOf is the graph of a plan's steps: their task edges, the sources of their items, and for a dependency on spawned steps
// the steps that may spawn them.
func GraphOf(p *plan.Graph) Graph {
	n := 0
	for i := range p.Steps {
		n += len(p.Steps[i].Deps) + len(p.Steps[i].Inputs()) + len(p.Steps[i].Names)
	}
	g := Graph{First: make([]int32, 1, len(p.Steps)+1), Edges: make([]int32, 0, n)}
	for i := range p.Steps {
		step := &p.Steps[i]
		from := len(g.Edges)
		g.Add(step.Deps...)
		for _, source := range step.Inputs() {
			g.again(from, source)
		}
		for _, name := range step.Names {
			for j := range p.Spawners {
				if p.Spawners[j].Name == name {
					for _, spawner := range p.Spawners[j].Steps {
						g.again(from, spawner)
					}
				}
			}
		}
	}
	return g
}

// again adds a dependency to the last node, whose dependencies begin at from, unless it has it.
func (g *Graph) again(from int, dep int32) {
	if int(dep) == g.Len()-1 {
		return
	}
	for _, known := range g.Edges[from:] {
		if known == dep {
			return
		}
	}
	g.Edges = append(g.Edges, dep)
	g.First[len(g.First)-1]++
}

// Layout is where the nodes of a graph are.
type Layout struct {
	Graph
	Layer []int32 // of a node: above those of its dependencies
	Pos   []int32 // of a node within its layer, from 0 without gaps
	Width []int32 // of a layer: how many nodes it has
}

// sweeps is how often the layers are ordered by their neighbours: downwards and upwards in turns.
const sweeps = 4

// Arrange places the nodes of a graph. Nodes of a cycle, which a checked definition does not have, keep the layer that they
// have without the edges of the cycle. The same graph always gives the same layout.
func Arrange(g Graph) *Layout {
	n := g.Len()
	l := &Layout{Graph: g, Layer: make([]int32, n), Pos: make([]int32, n)}
	users := g.reversed()
	l.layers(&users)
	order := l.initial()
	buckets := []int32(nil)
	for sweep := range sweeps {
		if sweep%2 == 0 {
			for layer := 1; layer < len(l.Width); layer++ {
				buckets = l.sort(order[layer], &l.Graph, buckets)
			}
		} else {
			for layer := len(l.Width) - 2; layer >= 0; layer-- {
				buckets = l.sort(order[layer], &users, buckets)
			}
		}
	}
	return l
}

// Of arranges the steps of a plan's graph.
func Of(p *plan.Graph) *Layout { return Arrange(GraphOf(p)) }

// reversed has the users of each node instead of its dependencies.
func (g *Graph) reversed() Graph {
	n := g.Len()
	r := Graph{First: make([]int32, n+1)}
	for _, dep := range g.Edges {
		if g.has(dep) {
			r.First[dep+1]++
		}
	}
	for i := range n {
		r.First[i+1] += r.First[i]
	}
	r.Edges = make([]int32, r.First[n])
	next := make([]int32, n)
	copy(next, r.First)
	for i := range int32(n) {
		for _, dep := range g.Deps(i) {
			if g.has(dep) {
				r.Edges[next[dep]] = i
				next[dep]++
			}
		}
	}
	return r
}

func (g *Graph) has(i int32) bool { return i >= 0 && int(i) < g.Len() }

// layers gives every node the length of the longest path to it.
func (l *Layout) layers(users *Graph) {
	n := l.Len()
	open, ready := make([]int32, n), make([]int32, 0, n)
	for i := range int32(n) {
		for _, dep := range l.Deps(i) {
			if l.has(dep) {
				open[i]++
			}
		}
		if open[i] == 0 {
			ready = append(ready, i)
		}
	}
	for at := 0; at < len(ready); at++ {
		for _, user := range users.Deps(ready[at]) {
			l.Layer[user] = max(l.Layer[user], l.Layer[ready[at]]+1)
			if open[user]--; open[user] == 0 {
				ready = append(ready, user)
			}
		}
	}
}

// initial orders each layer by index.
func (l *Layout) initial() [][]int32 {
	layers := int32(0)
	for _, layer := range l.Layer {
		layers = max(layers, layer+1)
	}
	l.Width = make([]int32, layers)
	for i, layer := range l.Layer {
		l.Pos[i] = l.Width[layer]
		l.Width[layer]++
	}
	all, order := make([]int32, l.Len()), make([][]int32, layers)
	for layer, width := range l.Width {
		order[layer], all = all[:width:width], all[width:]
	}
	for i, layer := range l.Layer {
		order[layer][l.Pos[i]] = int32(i)
	}
	return order
}

// perPlace is how many buckets there are for one position: nodes whose neighbours' mean positions are nearer than that keep
// their order.
const perPlace = 4

// sort orders a layer by the mean position of each node's neighbours, as a share of the width of their layers. A node without
// neighbours keeps its place. It is a counting sort, which is linear and stable; buckets is memory that it uses again.
func (l *Layout) sort(layer []int32, neighbours *Graph, buckets []int32) []int32 {
	n := len(layer)
	if n < 2 {
		return buckets
	}
	most := n * perPlace
	if need := most + 2 + 2*n; cap(buckets) < need {
		buckets = make([]int32, need)
	}
	count, keys, sorted := buckets[:most+2], buckets[most+2:most+2+n], buckets[most+2+n:most+2+2*n]
	clear(count)
	for at, i := range layer {
		sum, of := 0.0, 0
		for _, near := range neighbours.Deps(i) {
			if l.has(near) && l.Layer[near] != l.Layer[i] {
				sum += (float64(l.Pos[near]) + 0.5) / float64(l.Width[l.Layer[near]])
				of++
			}
		}
		share := (float64(at) + 0.5) / float64(n)
		if of > 0 {
			share = sum / float64(of)
		}
		keys[at] = min(int32(share*float64(most)), int32(most)-1)
		count[keys[at]+1]++
	}
	for key := range most {
		count[key+1] += count[key]
	}
	for at, i := range layer {
		sorted[count[keys[at]]] = i
		count[keys[at]]++
	}
	for at, i := range sorted {
		layer[at], l.Pos[i] = i, int32(at)
	}
	return buckets
}
