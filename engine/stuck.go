package engine

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stepwell/stepwell"
)

// stuck ends steps that can never start, in a run in which nothing runs, sleeps or can start (source-systems D8):
// those that wait for a step that no step will spawn, else some that wait for each other. It reports whether there
// were any.
func (r *Run) stuck() bool {
	if r.inflight > 0 || r.sleeping > 0 || len(r.ready) > 0 || r.status != stepwell.ExecutionRunning && r.status != stepwell.ExecutionCancelling {
		return false
	}
	var first place
	var blocked []place
	r.visit(func(p place) {
		if p.node().status != stepwell.StepPending {
			return
		}
		if first.s == nil {
			first = p
		}
		if r.orphan(p) {
			blocked = append(blocked, p)
		}
	})
	if len(blocked) == 0 && first.s != nil {
		blocked = r.circle(first)
	}
	if len(blocked) == 0 {
		r.finish(stepwell.ExecutionFailed, &Failure{Code: stepwell.CodeInternal, Message: "deadlock: no step can start and none is left"})
		return true
	}
	f := r.deadlock(blocked)
	for _, p := range blocked {
		if p.node().status.Terminal() {
			continue // ended with its spawner
		}
		p.node().flags |= upstream | stranded
		r.end(p, stepwell.StepSkipped, f)
		r.failScope(p, f)
	}
	return true
}

// deadlock names the blocked steps and their dependencies.
func (r *Run) deadlock(blocked []place) *Failure {
	var waits []string
	for _, p := range blocked[:min(len(blocked), 5)] {
		_, texts := r.missing(p)
		waits = append(waits, fmt.Sprintf("%s waits for %s", p.key(), strings.Join(texts, ", ")))
	}
	f := &Failure{Code: stepwell.CodeFailed, Message: fmt.Sprintf("deadlock: %d steps can never start: %s", len(blocked), strings.Join(waits, "; ")),
		Hint: "depend on the key of a step that exists, or on a name that a running step spawns"}
	if len(blocked) == 1 {
		f.Message = "deadlock: " + waits[0]
	}
	return f
}

// awaited calls f for each open dependency of a pending step: an existing step, or a token with its group.
func (r *Run) awaited(p place, f func(dep place, token string, g *group)) {
	for _, dep := range p.step().Deps {
		f(place{p.s, dep}, "", nil)
	}
	names := p.step().Names
	if x := p.s.spawnedAt(p.i); x != nil {
		names = x.names
		for _, idx := range x.exact {
			if dep, ok := r.find(idx); ok {
				f(dep, "", nil)
			}
		}
	}
	for _, name := range names {
		f(place{}, name, p.s.groups[name])
	}
}

// orphan reports whether a step waits for a step that can never exist.
func (r *Run) orphan(p place) (never bool) {
	r.awaited(p, func(dep place, _ string, g *group) {
		never = never || dep.s == nil && g.unsatisfiable()
	})
	return never
}

// unsatisfiable: there are waiters, but no step of the name or key is left and none could spawn one.
func (g *group) unsatisfiable() bool {
	return g == nil || g.open == 0 && len(g.spawners) == 0 && !g.satisfied()
}

// circle follows dependencies until they come back to a step, and returns the pending steps of the cycle.
func (r *Run) circle(p place) []place {
	seen := map[place]int{}
	var way []place
	for p.s != nil {
		if from, ok := seen[p]; ok {
			return slices.DeleteFunc(way[from:], func(q place) bool { return q.node().status != stepwell.StepPending })
		}
		seen[p] = len(way)
		way = append(way, p)
		p = r.waitsFor(p)
	}
	return nil
}

// waitsFor is a step that has not ended and that another one cannot end without.
func (r *Run) waitsFor(p place) (next place) {
	if p.node().status != stepwell.StepPending {
		return unended(p.node().info)
	}
	if x := p.s.spawnedAt(p.i); x != nil && p.node().flags&dormant != 0 {
		next, _ = r.find(x.by)
		return next
	}
	r.awaited(p, func(dep place, token string, g *group) {
		switch {
		case next.s != nil:
		case dep.s != nil && !dep.node().status.Terminal():
			next = dep
		case g != nil && g.open > 0:
			i := slices.IndexFunc(p.s.extra, func(x spawned) bool {
				n := &p.s.nodes[p.s.keys[x.spec.Key]]
				return (x.spec.Name == token || x.spec.Key == token) && !n.status.Terminal() && n.flags&dormant == 0
			})
			next = place{p.s, int32(len(p.s.graph.Steps) + i)}
		case g != nil && len(g.spawners) > 0:
			next = place{p.s, slices.Min(slices.Collect(maps.Keys(g.spawners)))}
		}
	})
	return next
}

// unended is a step inside a group, a for_each or a sub-pipeline that has not ended.
func unended(in *info) place {
	if in == nil {
		return place{}
	}
	var scopes []*scope
	if in.body != nil {
		if scopes = append(scopes, in.body); in.body.handlers != nil {
			scopes = append(scopes, in.body.handlers)
		}
	}
	if in.each != nil {
		scopes = append(scopes, in.each.live()...)
	}
	for _, s := range scopes {
		if i := slices.IndexFunc(s.nodes, func(n node) bool { return !n.status.Terminal() }); i >= 0 {
			return place{s, int32(i)}
		}
	}
	return place{}
}

// missing lists the open dependencies of a pending step: keys and names, and how messages name them.
func (r *Run) missing(p place) (names, texts []string) {
	r.awaited(p, func(dep place, token string, g *group) {
		text := fmt.Sprintf("%q", token)
		switch {
		case dep.s != nil && dep.node().status.Terminal():
			return
		case dep.s != nil:
			token = dep.key()
			text = token
		case g.unsatisfiable():
			text += ", which nothing spawns"
		case g.satisfied():
			return
		}
		names, texts = append(names, token), append(texts, text)
	})
	return names, texts
}
