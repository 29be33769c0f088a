package engine

import (
	"slices"

	"github.com/stepwell/stepwell"
)

// group counts the instances of a name of spawned steps, for the steps that depend on the name: on
// every instance, present and still to come while a spawner of it is alive. A group may also stand for
// an exact key that does not exist yet. A dormant step is no instance until it is spawned again.
type group struct {
	instances int32
	open      int32
	spawners  map[int32]struct{} // alive, by local index
	declared  bool               // the definition names its spawner: no instance at all is fine
	waiters   []int32            // local indexes of steps that wait
	all       []int32            // all that ever waited
	flags     flags              // the effect of the instances and the spawners on a waiter
	seen      *family            // the templates' view of it; nil: not made yet
	bytes     int                // of the outputs that are kept for templates
	over      bool               // they are more than is kept
}

func (s *scope) group(name string) *group {
	g := s.groups[name]
	if g == nil {
		if s.groups == nil {
			s.groups = map[string]*group{}
		}
		g = &group{spawners: map[int32]struct{}{}}
		s.groups[name] = g
	}
	return g
}

// satisfied: every instance has ended and no more can come; a name that nobody declared needs at
// least one instance.
func (g *group) satisfied() bool {
	return g.open == 0 && len(g.spawners) == 0 && (g.declared || g.instances > 0)
}

func (g *group) await(i int32) {
	g.waiters = append(g.waiters, i)
	g.all = append(g.all, i)
}

// maySpawn notes that more instances of a name may come while the step is alive.
func (s *scope) maySpawn(i int32, name string) {
	g := s.group(name)
	s.awaitAgain(g)
	g.spawners[i] = struct{}{}
	if in := s.nodes[i].ensure(); !slices.Contains(in.names, name) {
		in.names = append(in.names, name)
	}
}

// instance counts a spawned step with its name and its key; by is 1 or, at its end, −1.
func (s *scope) instance(x *Spawn, by int32) {
	for _, g := range s.groupsOf(x) {
		if g == nil {
			continue
		}
		if by > 0 {
			s.awaitAgain(g)
		}
		g.open += by
		g.instances += max(by, 0)
		g.seen = nil
	}
}

// awaitAgain: more instances may come, from an unexpected spawner, after the name seemed to be over. Waiters that
// have not started wait for them too.
func (s *scope) awaitAgain(g *group) {
	if !g.satisfied() || len(g.waiters) > 0 {
		return
	}
	for _, i := range g.all {
		if n := &s.nodes[i]; n.status == stepwell.StepPending && n.flags&judged == 0 {
			n.waiting++
			g.waiters = append(g.waiters, i)
		}
	}
}

// groupsOf are the groups that a spawned step is an instance of: that of its name, and that of its key
// if somebody waits for it. Either may be nil.
func (s *scope) groupsOf(x *Spawn) [2]*group {
	if x.Key == x.Name {
		return [2]*group{s.group(x.Name), nil}
	}
	return [2]*group{s.group(x.Name), s.groups[x.Key]}
}

// instanceEnded counts the end of a spawned step for the waiters of its name or its key.
func (r *Run) instanceEnded(s *scope, x *spawned, bring flags) {
	s.instance(&x.spec, -1)
	for i, g := range s.groupsOf(&x.spec) {
		if g == nil {
			continue
		}
		if g.flags |= bring; i == 1 {
			clear(g.spawners) // an exact key has one instance
		}
		r.maySatisfy(s, g)
	}
}

// spawnerEnded: no more instances come from this step. Its failure stands for the missing ones.
func (r *Run) spawnerEnded(p place, bring flags) {
	in := p.node().info
	for _, name := range in.names {
		if g := p.s.groups[name]; g != nil {
			if _, alive := g.spawners[p.i]; alive {
				delete(g.spawners, p.i)
				g.flags |= bring &^ depCompleted
				r.maySatisfy(p.s, g)
			}
		}
	}
	for _, child := range in.spawned {
		q, ok := r.find(child)
		if !ok || q.node().flags&dormant == 0 || q.node().status.Terminal() {
			continue
		}
		q.node().flags &^= dormant
		q.s.instance(&q.s.spawnedAt(q.i).spec, 1)
		r.end(q, stepwell.StepSkipped, &Failure{Code: stepwell.CodeSkipped, Message: "its spawner did not spawn it again after the restart"})
	}
}

// maySatisfy frees the waiters of a name, once.
func (r *Run) maySatisfy(s *scope, g *group) {
	if !g.satisfied() {
		return
	}
	waiters := g.waiters
	g.waiters = nil
	for _, i := range waiters {
		r.freed(place{s, i}, g.flags)
	}
}

// regroup counts the groups of a scope again, after a restart has reset some of its steps.
func (s *scope) regroup(reset func(i int32) bool) {
	for _, g := range s.groups {
		g.instances, g.open, g.flags, g.seen, g.bytes = 0, 0, 0, nil, 0
		clear(g.spawners)
		g.waiters = slices.DeleteFunc(g.waiters, reset)
	}
	for i := range s.nodes {
		n := &s.nodes[i]
		if n.info == nil || n.flags&dormant != 0 {
			continue
		}
		for _, name := range n.info.names {
			if n.status.Terminal() {
				s.group(name).flags |= n.brings() &^ depCompleted
			} else {
				s.group(name).spawners[int32(i)] = struct{}{}
			}
		}
	}
	for i := range s.extra {
		x, n := &s.extra[i].spec, &s.nodes[len(s.graph.Steps)+i]
		if n.flags&dormant != 0 {
			continue
		}
		for k, g := range s.groupsOf(x) {
			switch {
			case g == nil:
				continue
			case n.status.Terminal():
				if g.flags |= n.brings(); k == 1 {
					clear(g.spawners)
				}
			default:
				g.open++
			}
			g.instances++
			if in := n.info; k == 0 && in != nil && s.extra[i].step.Keep {
				g.bytes += len(in.output)
			}
		}
	}
	for _, g := range s.groups {
		g.over = g.over && g.instances > 0
	}
}
