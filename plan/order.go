package plan

import "slices"

// Levels are the steps by distance from the start, for display only: the engine has no barriers. Dependents of a name
// come after its spawners, and takers of items after their givers.
func (g *Graph) Levels() [][]int32 {
	waiting := make([]int, len(g.Steps))
	after := g.afterSpawners()
	for _, waiters := range after {
		for _, i := range waiters {
			waiting[i]++
		}
	}
	takers := g.takers()
	for _, list := range takers {
		for _, i := range list {
			waiting[i]++
		}
	}
	var now []int32
	for i := range g.Steps {
		if waiting[i] += len(g.Steps[i].Deps); waiting[i] == 0 {
			now = append(now, int32(i))
		}
	}
	var out [][]int32
	for len(now) > 0 {
		out = append(out, now)
		var next []int32
		for _, i := range now {
			for _, children := range [][]int32{g.Steps[i].Children, after[i], takers[i]} {
				for _, child := range children {
					if waiting[child]--; waiting[child] == 0 {
						next = append(next, child)
					}
				}
			}
		}
		slices.Sort(next)
		now = next
	}
	return out
}

// takers lists, by stream step, the steps that take its items.
func (g *Graph) takers() map[int32][]int32 {
	var takers map[int32][]int32
	for i := range g.Steps {
		for _, from := range g.Steps[i].Inputs() {
			if takers == nil {
				takers = map[int32][]int32{}
			}
			takers[from] = append(takers[from], int32(i))
		}
	}
	return takers
}

// afterSpawners lists, by spawner, the steps that depend on names that it may spawn.
func (g *Graph) afterSpawners() map[int32][]int32 {
	if len(g.Spawners) == 0 {
		return nil
	}
	after := map[int32][]int32{}
	for i := range g.Steps {
		for _, name := range g.Steps[i].Names {
			for _, by := range g.spawnersOf(name) {
				after[by] = append(after[by], int32(i))
			}
		}
	}
	return after
}

func (g *Graph) spawnersOf(name string) []int32 {
	for i := range g.Spawners {
		if g.Spawners[i].Name == name {
			return g.Spawners[i].Steps
		}
	}
	return nil
}

// needs are the steps that have to end before step i can start.
func (g *Graph) needs(i int32) []int32 {
	s := &g.Steps[i]
	if len(s.Names)+len(s.Inputs()) == 0 {
		return s.Deps
	}
	needs := append(slices.Clone(s.Deps), s.Inputs()...)
	for _, name := range s.Names {
		needs = append(needs, g.spawnersOf(name)...)
	}
	return needs
}

// cycle finds a circle of dependencies and returns it as ids, first one repeated; nil if none.
func cycle(g *Graph) []string {
	seen := 0
	for _, l := range g.Levels() {
		seen += len(l)
	}
	if seen == len(g.Steps) {
		return nil
	}
	colour := make([]uint8, len(g.Steps))
	for start := range g.Steps {
		if path := walk(g, int32(start), colour); path != nil {
			return path
		}
	}
	return nil
}

// walk is a depth-first search with a stack of its own: graphs may be 100,000 steps deep.
func walk(g *Graph, start int32, colour []uint8) []string {
	const white, grey, black = 0, 1, 2
	if colour[start] != white {
		return nil
	}
	stack, next := []int32{start}, []int{0}
	colour[start] = grey
	for len(stack) > 0 {
		at := stack[len(stack)-1]
		deps := g.needs(at)
		if n := next[len(next)-1]; n < len(deps) {
			next[len(next)-1]++
			switch dep := deps[n]; colour[dep] {
			case white:
				colour[dep] = grey
				stack, next = append(stack, dep), append(next, 0)
			case grey:
				return circle(g, stack, dep)
			}
			continue
		}
		colour[at] = black
		stack, next = stack[:len(stack)-1], next[:len(next)-1]
	}
	return nil
}

func circle(g *Graph, stack []int32, from int32) []string {
	var path []string
	for _, i := range stack[slices.Index(stack, from):] {
		path = append(path, g.Steps[i].ID)
	}
	return append(path, g.Steps[from].ID)
}
