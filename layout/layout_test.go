package layout_test

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/stepwell/stepwell/layout"
	"github.com/stepwell/stepwell/plan"
)

// graphs are those of the bounds, and random ones.
func graphs() map[string]layout.Graph {
	all := map[string]layout.Graph{"empty": {}, "chain": chain(3000), "fan": fan(5000), "layers": layers(50, 200, 2), "diamonds": diamonds(1000)}
	for i, n := range []int{1, 2, 7, 100, 4000} {
		all[[]string{"one", "two", "seven", "hundred", "many"}[i]] = random(uint64(n), n)
	}
	return all
}

func chain(n int) (g layout.Graph) {
	g.Add()
	for i := range int32(n - 1) {
		g.Add(i)
	}
	return g
}

func fan(n int) (g layout.Graph) {
	g.Add()
	for range n {
		g.Add(0)
	}
	all := make([]int32, n)
	for i := range all {
		all[i] = int32(i) + 1
	}
	g.Add(all...)
	return g
}

// layers has so many layers of a width, whose nodes depend on deps nodes of the layer before.
func layers(n, width, deps int) (g layout.Graph) {
	r := rand.New(rand.NewPCG(1, 2))
	for layer := range n {
		for range width {
			on := map[int32]bool{}
			for range deps {
				if layer > 0 {
					on[int32((layer-1)*width+r.IntN(width))] = true
				}
			}
			var list []int32
			for dep := range int32(width) {
				if dep += int32((layer - 1) * width); on[dep] {
					list = append(list, dep)
				}
			}
			g.Add(list...)
		}
	}
	return g
}

func diamonds(n int) (g layout.Graph) {
	for i := range int32(n) {
		g.Add()
		g.Add(4 * i)
		g.Add(4 * i)
		g.Add(4*i+1, 4*i+2)
	}
	return g
}

// random has edges to any other node; the order of the nodes is not one of dependencies.
func random(seed uint64, n int) (g layout.Graph) {
	r := rand.New(rand.NewPCG(seed, 3))
	order := r.Perm(n)
	rank := make([]int, n)
	for at, i := range order {
		rank[i] = at
	}
	for i := range n {
		var deps []int32
		for range r.IntN(4) {
			if rank[i] > 0 {
				deps = append(deps, int32(order[r.IntN(rank[i])]))
			}
		}
		g.Add(deps...)
	}
	return g
}

func TestEdgesGoToHigherLayers(t *testing.T) {
	for name, g := range graphs() {
		l := layout.Arrange(g)
		for i := range int32(l.Len()) {
			want := int32(0)
			for _, dep := range l.Deps(i) {
				want = max(want, l.Layer[dep]+1)
			}
			if l.Layer[i] != want {
				t.Fatalf("%s: node %d is in layer %d, want %d, one above the highest of its dependencies", name, i, l.Layer[i], want)
			}
		}
	}
}

func TestPositionsArePermutations(t *testing.T) {
	for name, g := range graphs() {
		l := layout.Arrange(g)
		taken := map[[2]int32]bool{}
		for i, pos := range l.Pos {
			place := [2]int32{l.Layer[i], pos}
			if pos < 0 || pos >= l.Width[l.Layer[i]] || taken[place] {
				t.Fatalf("%s: node %d has place %v of a layer of %d nodes", name, i, place, l.Width[l.Layer[i]])
			}
			taken[place] = true
		}
		if len(taken) != g.Len() {
			t.Errorf("%s: %d places for %d nodes", name, len(taken), g.Len())
		}
	}
}

func TestSameGraphSameLayout(t *testing.T) {
	for name, g := range graphs() {
		if !reflect.DeepEqual(layout.Arrange(g), layout.Arrange(g)) || !reflect.DeepEqual(layout.Arrange(g).Clusters(100), layout.Arrange(g).Clusters(100)) {
			t.Errorf("%s: two layouts differ", name)
		}
	}
}

// crossings counts the pairs of edges between neighbouring layers that cross.
func crossings(l *layout.Layout) (n int) {
	type edge struct{ from, to int32 }
	by := map[int32][]edge{}
	for i := range int32(l.Len()) {
		for _, dep := range l.Deps(i) {
			if l.Layer[dep]+1 == l.Layer[i] {
				by[l.Layer[i]] = append(by[l.Layer[i]], edge{l.Pos[dep], l.Pos[i]})
			}
		}
	}
	for _, edges := range by {
		for i, a := range edges {
			for _, b := range edges[:i] {
				if (a.from-b.from)*(a.to-b.to) < 0 {
					n++
				}
			}
		}
	}
	return n
}

// TestFewCrossings: rows of steps that follow each other in an order of their own are laid out without a crossing.
func TestFewCrossings(t *testing.T) {
	const rows = 50
	r := rand.New(rand.NewPCG(4, 5))
	var g layout.Graph
	before := make([]int32, rows)
	for range rows {
		g.Add()
	}
	for i := range before {
		before[i] = int32(i)
	}
	for layer := 1; layer < 5; layer++ {
		after := make([]int32, rows)
		for _, row := range r.Perm(rows) {
			after[row] = int32(g.Len())
			g.Add(before[row])
		}
		before = after
	}
	if n := crossings(layout.Arrange(g)); n != 0 {
		t.Errorf("%d edges cross, none has to", n)
	}
}

func TestClusters(t *testing.T) {
	for name, g := range graphs() {
		l := layout.Arrange(g)
		for _, most := range []int{2, 10, 2000} {
			c := l.Clusters(most)
			size := make([]int32, c.Len())
			for i, k := range c.Of {
				size[k]++
				for _, dep := range l.Deps(int32(i)) {
					if on := c.Of[dep]; c.Layer[on] > c.Layer[k] {
						t.Fatalf("%s: %d clusters: node %d is in layer %d, its dependency in layer %d", name, most, i, c.Layer[k], c.Layer[on])
					}
				}
			}
			if c.Len() > most || !reflect.DeepEqual(size, append([]int32{}, c.Size...)) {
				t.Errorf("%s: %d clusters, at most %d were asked for; their sizes are %v", name, c.Len(), most, c.Size)
			}
			for k := range int32(c.Len()) {
				for _, on := range c.Deps(k) {
					if c.Layer[on] >= c.Layer[k] {
						t.Fatalf("%s: cluster %d depends on %d, which is not below it", name, k, on)
					}
				}
			}
		}
	}
}

// TestHostileGraphs: cycles, dependencies on oneself and on nodes that do not exist are survived.
func TestHostileGraphs(t *testing.T) {
	var g layout.Graph
	g.Add(1)
	g.Add(0)
	g.Add(2)
	g.Add(7, -3, 0)
	l := layout.Arrange(g)
	if l.Clusters(2).Len() == 0 || len(l.Width) == 0 {
		t.Errorf("the layout is %+v", l)
	}
}

func TestGraphOfPlan(t *testing.T) {
	p := &plan.Graph{Spawners: []plan.Spawner{{Name: "child", Steps: []int32{1}}},
		Steps: []plan.Step{{ID: "a"}, {ID: "b", Deps: []int32{0}}, {ID: "c", Names: []string{"child"}}, {ID: "d", Deps: []int32{0}, Stream: &plan.Stream{Inputs: []int32{0, 2}}}}}
	l := layout.Of(p)
	if want := []int32{0, 1, 2, 3}; !reflect.DeepEqual(l.Layer, want) {
		t.Errorf("layers %v, want %v: a spawned step comes after its spawner, a stream step after its sources", l.Layer, want)
	}
	if want := []int32{0, 2}; !reflect.DeepEqual(l.Deps(3), want) {
		t.Errorf("the stream step depends on %v, want %v", l.Deps(3), want)
	}
}

// BenchmarkArrange is 100,000 nodes with nearly 200,000 edges in 500 layers: go test -bench Arrange ./layout
func BenchmarkArrange(b *testing.B) {
	g := layers(500, 200, 2)
	for b.Loop() {
		layout.Arrange(g)
	}
	b.ReportMetric(float64(len(g.Edges)), "edges")
}
