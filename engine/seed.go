package engine

import (
	"fmt"
	"slices"

	"github.com/stepwell/stepwell"
)

// Seeds lists what a retry of this execution takes over: the completed steps that lie neither after
// from (empty: none) nor after a step that has to run anyway because it failed or did not get its
// turn, and the steps they have spawned. Outputs are left to the caller.
func (r *Run) Seeds(from string) ([]Seed, error) {
	again, err := r.retried(from)
	if err != nil {
		return nil, err
	}
	return r.seeds(r.main, again), nil
}

// PreviewRetry lists the keys of the steps that a retry of this execution would run again (see Seeds).
func (r *Run) PreviewRetry(from string) ([]string, error) {
	again, err := r.retried(from)
	if err != nil {
		return nil, err
	}
	var keys []string
	for i, yes := range again {
		if yes {
			keys = append(keys, r.main.key(int32(i)))
		}
	}
	return keys, nil
}

// retried marks the steps of the top level that a retry runs again.
func (r *Run) retried(from string) ([]bool, error) {
	m := r.main
	if m == nil || r.status == stepwell.ExecutionPending {
		return nil, &stepwell.Error{Code: stepwell.CodeConflict, Message: "the execution has not started"}
	}
	var roots []place
	if from != "" {
		p, ok := locate(m, from)
		if !ok {
			return nil, &stepwell.Error{Code: stepwell.CodeNotFound, Message: fmt.Sprintf("no step %q at the pipeline's top level", from)}
		}
		roots = append(roots, p)
	}
	for i := range m.nodes {
		if n := &m.nodes[i]; n.status != stepwell.StepCompleted && (n.status != stepwell.StepSkipped || n.flags&upstream != 0) {
			roots = append(roots, place{m, int32(i)})
		}
	}
	again := make([]bool, len(m.nodes))
	for _, i := range r.downstream(roots...) {
		again[i] = true
	}
	return again, nil
}

func (r *Run) seeds(s *scope, again []bool) []Seed {
	var out []Seed
	kept := make([]bool, len(s.nodes)) // its spawned steps go with it
	for i := range s.nodes {
		n, x := &s.nodes[i], s.spawnedAt(int32(i))
		seed := Seed{Key: s.key(int32(i))}
		if n.status == stepwell.StepCompleted && !again[i] {
			seed.Status, seed.Seq = stepwell.StepCompleted, n.seq
			kept[i] = true
		}
		switch {
		case x == nil && !kept[i]:
			continue
		case x != nil:
			by := r.spawner(x)
			if !kept[by] {
				kept[i] = false
				continue
			}
			seed.By, seed.Spawn = s.key(by), &x.spec
		}
		out = append(out, seed)
	}
	return out
}

// seed puts results taken over in place, before anything starts: first the spawned steps, each after
// its spawner, then the results, in the order in which they came.
func (r *Run) seed(seeds []Seed) {
	order := make([]*Seed, 0, len(seeds))
	for i := range seeds {
		s := &seeds[i]
		if s.Spawn != nil {
			by, ok := locate(r.main, s.By)
			if !ok || spawnable(r.main, s.Spawn, nil) != nil {
				continue // the definition has changed: it is spawned again if it is still wanted
			}
			if q, _ := r.adopt(by, s.Spawn); q.s != nil {
				r.depend(q, by)
			}
		}
		if s.Status == stepwell.StepCompleted {
			order = append(order, s)
		}
	}
	slices.SortStableFunc(order, func(a, b *Seed) int { return int(a.Seq - b.Seq) })
	for _, s := range order {
		if p, ok := locate(r.main, s.Key); ok && !p.node().status.Terminal() {
			r.complete(p, &Event{Output: []byte(s.Output), Loaded: s.Loaded})
		}
	}
}
