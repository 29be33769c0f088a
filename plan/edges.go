package plan

import (
	"slices"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/spec"
)

// dependencies resolves a step's dependencies: steps of its graph, and names of spawned steps.
func (c *compiler) dependencies(g *Graph, i int, s *definition.Step, d *definition.Definition, about *spec.Spec) error {
	out := &g.Steps[i]
	if len(s.DependsOn) > 0 {
		out.Deps = make([]int32, 0, len(s.DependsOn))
	}
	for _, id := range s.DependsOn {
		dep, ok := g.index[id]
		switch {
		case ok && int(dep) == i:
			return stepwell.Invalid("", "depends on itself")
		case ok:
			out.Deps = append(out.Deps, dep)
		case !slices.Contains(out.Names, id):
			out.Names = append(out.Names, id)
		}
	}
	if len(s.DependsOn) == 0 && about != nil {
		for _, id := range about.DependsOn {
			if dep, ok := g.index[id]; ok && int(dep) != i {
				out.Deps = append(out.Deps, dep)
			}
		}
	}
	if dep, ok := g.index[s.Source]; ok && s.Source != definition.SourceMedia {
		out.Deps = append(out.Deps, dep)
	}
	if d.Settings.Sequential && i > 0 {
		out.Deps = append(out.Deps, int32(i-1))
	}
	slices.Sort(out.Deps)
	out.Deps = slices.Compact(out.Deps)
	return nil
}

// children turns the dependencies round, in one piece of memory.
func children(g *Graph) {
	count := make([]int32, len(g.Steps))
	total := 0
	for i := range g.Steps {
		for _, dep := range g.Steps[i].Deps {
			count[dep]++
			total++
		}
	}
	all := make([]int32, total)
	for i, n := range count {
		if n > 0 {
			g.Steps[i].Children, all = all[:0:n], all[n:]
		}
	}
	for i := range g.Steps {
		for _, dep := range g.Steps[i].Deps {
			g.Steps[dep].Children = append(g.Steps[dep].Children, int32(i))
		}
	}
}

// spawners finds the possible spawners of each name that steps depend on and that is no step.
func (c *compiler) spawners(g *Graph, steps []definition.Step) error {
	seen := map[string]bool{}
	for i := range g.Steps {
		for _, token := range g.Steps[i].Names {
			if seen[token] {
				continue
			}
			seen[token] = true
			name, _, exact := strings.Cut(token, ":")
			var from []int32
			found := false
			for j := range steps {
				if !c.maySpawn(&steps[j], name) {
					continue
				}
				// Do not wait for a spawner that itself waits for the name: its own come after.
				if found = true; !slices.Contains(g.Steps[j].Names, token) {
					from = append(from, int32(j))
				}
			}
			if !found {
				return stepwell.Invalid("", "step %s depends on %q, which is not a step and which no step spawns", g.Steps[i].ID, token)
			}
			g.Spawners = append(g.Spawners, Spawner{Name: token, Steps: from, Exact: exact})
		}
	}
	slices.SortFunc(g.Spawners, func(a, b Spawner) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

// families are the names of the steps that may be added to a graph.
func (c *compiler) families(g *Graph, steps []definition.Step) {
	for i := range steps {
		if steps[i].ForEach != nil {
			continue // they are added to its iterations
		}
		for _, name := range definition.Families(&steps[i], c.cat) {
			if _, step := g.index[name]; !step && g.Family(name) < 0 {
				g.Families = append(g.Families, Family{Name: name})
			}
		}
	}
}

// maySpawn reports whether steps of a name can come from a step: from its action, from steps that it spawns, or from
// a step inside.
func (c *compiler) maySpawn(s *definition.Step, name string) bool {
	if slices.Contains(definition.Families(s, c.cat), name) {
		return true
	}
	seen := map[string]bool{} // includes names declared by actions: a name that the step has replaced never comes
	todo := []string{s.Action}
	for len(todo) > 0 {
		action := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		about, ok := c.cat.Spec(action)
		if !ok || seen[action] {
			continue
		}
		seen[action] = true
		if slices.Contains(about.Spawns, name) {
			return true
		}
		todo = append(todo, about.Spawns...) // a spawned step's action is its name, unless it says otherwise
	}
	return slices.ContainsFunc(s.Steps, func(inner definition.Step) bool { return c.maySpawn(&inner, name) })
}
