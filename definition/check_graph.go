package definition

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stepwell/stepwell/spec"
)

// order holds the facts about a scope's graph after a walk.
type order struct {
	deps    [][]int32 // indices of each step's dependencies
	level   []int32   // longest way from a root; nil when the graph has a cycle
	tin     []int32   // interval of a spanning forest (the dependency of the highest level is the parent):
	tout    []int32   // t is below s when s's interval contains t's
	mark    []int32   // visited by the search from step markFrom, plus one
	from    int32
	floor   int32
	pending []int32
}

// graph resolves a scope's dependencies, reports impossible ones, and cycles.
func (c *checker) graph(s *scope) {
	s.deps = make([][]int32, len(s.list))
	for i := range s.list {
		c.dependencies(s, i)
		c.families(s, i)
		c.rule(s, i)
	}
	topo := s.kahn()
	if len(topo) < len(s.list) {
		c.cycles(s, topo)
		return
	}
	s.intervals(topo)
	c.streams(s)
}

func (c *checker) dependencies(s *scope, i int) {
	step := &s.list[i]
	deps := make([]int32, 0, len(step.DependsOn)+1)
	var seen map[string]bool
	if len(step.DependsOn) > 8 {
		seen = make(map[string]bool, len(step.DependsOn))
	}
	for k, name := range step.DependsOn {
		twice := seen[name]
		if seen == nil {
			twice = slices.Contains(step.DependsOn[:k], name)
		} else {
			seen[name] = true
		}
		at := "depends_on/" + itoa(k)
		path := spec.ElementPath(spec.ElementPath(s.path, i)+".depends_on", k)
		j, known := s.index[name]
		family, _, _ := strings.Cut(name, ":") // of an exact key
		spawners := c.spawners(s, family)
		switch {
		case twice:
			c.Warn(posOf(step, at), path, fmt.Sprintf("%q depends on %q twice", step.ID, name), "")
		case name == step.ID:
			c.Fail(posOf(step, at), path, fmt.Sprintf("the step %q depends on itself", name), "")
		case known:
			deps = append(deps, int32(j))
		case len(spawners) > 0: // waits for every step of the name, and so for its spawners
			deps = append(deps, slices.DeleteFunc(spawners, func(j int32) bool { return int(j) == i })...)
		default:
			c.Fail(posOf(step, at), path, fmt.Sprintf("the step %q depends on %q, which does not exist%s", step.ID, name, c.elsewhere(s, name)), c.dependencyHint(s, name))
		}
	}
	if len(step.DependsOn) == 0 {
		deps = c.usual(s, i, deps)
	}
	deps = c.source(s, i, deps)
	if c.def.Settings.Sequential && i > 0 && !slices.Contains(deps, int32(i-1)) {
		deps = append(deps, int32(i-1))
	}
	s.deps[i] = deps
}

// rule warns of a trigger rule that waits for a failure after which settings.fail_fast starts nothing. Handlers are not
// subject to it; a dependency with on_failure: continue, or spawned later, may bring about what the rule waits for.
func (c *checker) rule(s *scope, i int) {
	step := &s.list[i]
	kind := c.def.Settings.FailFast
	if step.TriggerRule != "all_done" && step.TriggerRule != "one_failed" || kind == FailFastOff || len(s.deps[i]) == 0 || s.path == "on_failure" || s.path == "finally" {
		return
	}
	for _, name := range step.DependsOn {
		if _, known := s.index[name]; !known {
			return
		}
	}
	for _, j := range s.deps[i] {
		if s.list[j].OnFailure == "continue" {
			return
		}
	}
	shown := "true"
	if kind == FailFastCancel {
		shown = string(kind)
	}
	c.Warn(posOf(step, "trigger_rule"), spec.ElementPath(s.path, i)+".trigger_rule", fmt.Sprintf("%q does not start after a failure while settings.fail_fast is %s", step.ID, shown),
		"set fail_fast: false in settings, or move the step to finally")
}

// usual adds the default dependencies of an action's steps when the document names none.
func (c *checker) usual(s *scope, i int, deps []int32) []int32 {
	a, err := c.actionNamed(s.list[i].Action)
	if a == nil || err != nil {
		return deps
	}
	for _, name := range a.spec.DependsOn {
		if j, ok := s.index[name]; ok && j != i {
			deps = append(deps, int32(j))
		}
	}
	return deps
}

// spawners are the steps of a scope that may add steps of the name while they run.
func (c *checker) spawners(s *scope, name string) []int32 {
	if s.spawned == nil {
		s.spawned = map[string][]int32{}
		for i := range s.list {
			for _, spawned := range Families(&s.list[i], c.cat) {
				s.spawned[spawned] = append(s.spawned[spawned], int32(i))
			}
		}
	}
	return slices.Clone(s.spawned[name])
}

// elsewhere explains a dependency on a step that exists, but not here.
func (c *checker) elsewhere(s *scope, name string) string {
	if _, ok := c.ids[name]; !ok {
		return ""
	}
	return " among the steps of its own list"
}

func (c *checker) dependencyHint(s *scope, name string) string {
	where, ok := c.ids[name]
	if !ok && c.suggestions == 0 {
		return ""
	}
	if !ok {
		if id, _, isKey := strings.Cut(name, ":"); isKey {
			if _, known := s.index[id]; known {
				return "did you mean " + id + "?"
			}
		}
		return c.didYouMean(name, append(slices.Sorted(maps.Keys(s.spawned)), idsOf(s.list)...), "depends_on lists ids of steps")
	}
	for outer := s; outer != nil; outer = outer.outer {
		if outer.outer == where.scope && outer.at >= 0 {
			return "write the dependency at the group " + where.scope.list[outer.at].ID
		}
	}
	if where.scope.outer == s && where.scope.at >= 0 {
		return "depend on the group " + s.list[where.scope.at].ID
	}
	return "a step can depend on steps beside it only"
}

// kahn is a topological order; it lacks the steps of cycles and their dependents.
func (s *scope) kahn() []int32 {
	n := len(s.list)
	waiting := make([]int32, n)
	start := make([]int32, n+1) // children of i: child[start[i]:start[i+1]]
	for i, deps := range s.deps {
		waiting[i] = int32(len(deps))
		for _, d := range deps {
			start[d+1]++
		}
	}
	for i := range n {
		start[i+1] += start[i]
	}
	child := make([]int32, start[n])
	next := slices.Clone(start)
	for i, deps := range s.deps {
		for _, d := range deps {
			child[next[d]] = int32(i)
			next[d]++
		}
	}
	topo := make([]int32, 0, n)
	for i := range n {
		if waiting[i] == 0 {
			topo = append(topo, int32(i))
		}
	}
	for k := 0; k < len(topo); k++ {
		i := topo[k]
		for _, d := range child[start[i]:start[i+1]] {
			if waiting[d]--; waiting[d] == 0 {
				topo = append(topo, d)
			}
		}
	}
	return topo
}

// cycles reports every cycle that one meets by following, from each step that is never ready, its
// first dependency that is never ready either.
func (c *checker) cycles(s *scope, topo []int32) {
	ready := make([]bool, len(s.list))
	for _, i := range topo {
		ready[i] = true
	}
	next := func(i int32) int32 {
		return s.deps[i][slices.IndexFunc(s.deps[i], func(d int32) bool { return !ready[d] })]
	}
	visit := make([]int32, len(s.list)) // the walk that came by, counted from 1
	for i := range s.list {
		if ready[i] || visit[i] != 0 {
			continue
		}
		at := int32(i)
		for ; visit[at] == 0; at = next(at) {
			visit[at] = int32(i) + 1
		}
		if visit[at] != int32(i)+1 {
			continue // led into a cycle that another walk has reported
		}
		cycle := []int32{at}
		for k := next(at); k != at; k = next(k) {
			cycle = append(cycle, k)
		}
		c.cycle(s, cycle)
	}
}

func (c *checker) cycle(s *scope, cycle []int32) {
	first := slices.Index(cycle, slices.Min(cycle))
	cycle = slices.Concat(cycle[first:], cycle[:first])
	names := make([]string, 0, len(cycle)+1)
	for _, i := range cycle {
		names = append(names, s.list[i].ID)
	}
	names = append(names, names[0])
	const most = 12
	if len(names) > most {
		left := fmt.Sprintf("… %d more …", len(names)-most)
		names = slices.Concat(names[:most-2], []string{left}, names[len(names)-2:])
	}
	step := &s.list[cycle[0]]
	pos := posOf(step, "depends_on")
	if len(cycle) > 1 {
		if k := slices.Index(step.DependsOn, s.list[cycle[1]].ID); k >= 0 {
			pos = posOf(step, "depends_on/"+itoa(k))
		} else if step.Source == s.list[cycle[1]].ID {
			pos = posOf(step, "source")
		}
	}
	hint := "each of these steps waits for the next"
	if c.def.Settings.Sequential {
		hint += "; settings.sequential makes every step wait for the one before it"
	}
	for k, i := range cycle {
		on := s.list[cycle[(k+1)%len(cycle)]].ID
		if slices.Contains(s.list[i].chosenBy, on) {
			hint += fmt.Sprintf("; %s is the target_step of a branch of %s", s.list[i].ID, on)
			break
		}
	}
	c.Fail(pos, spec.ElementPath(s.path, int(cycle[0]))+".depends_on", "the dependencies form a cycle: "+strings.Join(names, " → "), hint)
}

// intervals prepares ancestor: levels, and a spanning forest whose intervals answer most questions at once.
func (s *scope) intervals(topo []int32) {
	n := len(s.list)
	s.level, s.tin, s.tout = make([]int32, n), make([]int32, n), make([]int32, n)
	size, parents := make([]int32, n), make([]int32, n)
	for _, i := range topo {
		parents[i] = -1
		for _, d := range s.deps[i] {
			if s.level[d] >= s.level[i] {
				s.level[i], parents[i] = s.level[d]+1, d
			}
		}
	}
	for _, i := range slices.Backward(topo) {
		size[i]++
		if parent := parents[i]; parent >= 0 {
			size[parent] += size[i]
		}
	}
	var roots int32
	free := make([]int32, n) // where the next child's interval begins
	for _, i := range topo {
		if parent := parents[i]; parent < 0 {
			s.tin[i] = roots
			roots += size[i]
		} else {
			s.tin[i] = free[parent]
			free[parent] += size[i]
		}
		s.tout[i] = s.tin[i] + size[i]
		free[i] = s.tin[i] + 1
	}
}

// ancestor reports whether step a must have ended before step b starts. A search beyond the budget counts as
// verified.
func (c *checker) ancestor(s *scope, a, b int) bool {
	if s.level == nil { // a cycle: reported already
		return true
	}
	if s.level[a] >= s.level[b] {
		return false
	}
	if s.tin[a] <= s.tin[b] && s.tin[b] < s.tout[a] {
		return true
	}
	return c.search(s, int32(a), int32(b))
}

// search walks up from b, no higher than a's level. The marks of the last search are used again.
func (c *checker) search(s *scope, a, b int32) bool {
	if s.mark == nil {
		s.mark = make([]int32, len(s.list))
		s.from = -1
	}
	if s.from == b && s.floor <= s.level[a] {
		return s.mark[a] == b+1
	}
	if s.from == b { // lower than before: forget the visited steps
		for i := range s.mark {
			if s.mark[i] == b+1 {
				s.mark[i] = 0
			}
		}
		c.visits -= len(s.mark)
	}
	s.from, s.floor = b, s.level[a]
	s.pending = append(s.pending[:0], b)
	for len(s.pending) > 0 {
		i := s.pending[len(s.pending)-1]
		s.pending = s.pending[:len(s.pending)-1]
		c.visits -= len(s.deps[i]) + 1
		if c.visits < 0 {
			c.unverified++
			s.from = -1
			clear(s.mark)
			return true
		}
		for _, d := range s.deps[i] {
			if s.level[d] >= s.floor && s.mark[d] != b+1 {
				s.mark[d] = b + 1
				s.pending = append(s.pending, d)
			}
		}
	}
	return s.mark[a] == b+1
}
