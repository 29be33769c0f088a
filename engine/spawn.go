package engine

import (
	"bytes"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/plan"
)

// maxSpawn bounds one call of Spawn.
const maxSpawn = 10_000

// spawned is a step that is not in the graph.
type spawned struct {
	idx  int32
	by   int32
	step plan.Step
	spec Spawn
	// Its dependencies, as found when it was spawned: steps by number, and names or keys to come.
	exact []int32
	names []string
}

// spawner is the local index of the step that spawned x; they are in the same scope.
func (r *Run) spawner(x *spawned) int32 {
	p, _ := r.find(x.by)
	return p.i
}

// spawn adds steps (pipeline-steps, "Dynamic Step Spawning"): all of them or, with an error, none. In
// a scope that is being stopped they are accepted and skipped, so that a spawner does not fail
// because of its siblings.
func (r *Run) spawn(p place, ev *Event) (bool, error) {
	if len(ev.Spawns) > maxSpawn {
		return false, &stepwell.Error{Code: stepwell.CodeLimit, Message: fmt.Sprintf("%d steps spawned at once, the limit is %d", len(ev.Spawns), maxSpawn), Hint: "spawn them in parts"}
	}
	if int(r.next)+len(ev.Spawns) > MaxSteps {
		return false, tooMany()
	}
	fresh := map[string]*Spawn{}
	for i := range ev.Spawns {
		x := &ev.Spawns[i]
		if err := spawnable(p.s, x, fresh[x.Key]); err != nil {
			return false, err
		}
		fresh[x.Key] = x
	}
	changed := false
	added := make([]place, 0, len(ev.Spawns))
	for i := range ev.Spawns {
		q, woken := r.adopt(p, &ev.Spawns[i])
		if changed = changed || woken || q.s != nil; q.s != nil {
			added = append(added, q)
		}
	}
	for _, q := range added { // once all of the call are there: they may depend on each other
		r.depend(q, p)
	}
	return changed, nil
}

// spawnable refuses a spawn whose key is taken in the scope or by another spawn of the same call.
func spawnable(s *scope, x, other *Spawn) error {
	if x.Key == "" || x.Name == "" || !utf8.ValidString(x.Key) || !utf8.ValidString(x.Name) {
		return stepwell.Invalid("", "spawn %q: the name or the key is empty or not UTF-8", x.Key)
	}
	if !same(x, x) {
		return stepwell.Invalid("", "spawn %q: the params are not a JSON object", x.Key)
	}
	_, static := s.graph.Index(x.Key)
	if i, ok := s.keys[x.Key]; ok {
		other = &s.spawnedAt(i).spec
	}
	if static || other != nil && !same(x, other) {
		return stepwell.Errorf(stepwell.CodeConflict, "give the new step a key of its own", "step %q exists already with other params", x.Key)
	}
	return nil
}

// same reports whether two spawns of one key mean the same step: the same action with params that are
// equal as values.
func same(a, b *Spawn) bool {
	if a.Action != b.Action {
		return false
	}
	if a != b && bytes.Equal(a.Params, b.Params) {
		return true
	}
	x, err := normal(a.Params)
	if err != nil || a == b {
		return err == nil
	}
	y, err := normal(b.Params)
	return err == nil && bytes.Equal(x, y)
}

// normal is an object with its members in order.
func normal(raw []byte) ([]byte, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	v, err := expr.Decode(raw)
	if err != nil {
		return nil, err
	}
	if m, ok := v.(map[string]any); !ok {
		return nil, stepwell.Invalid("", "no object")
	} else if len(m) == 0 {
		return nil, nil
	}
	return expr.Marshal(v)
}

// adopt adds one step and returns it, or wakes the same step of before a restart.
func (r *Run) adopt(p place, x *Spawn) (added place, woken bool) {
	s := p.s
	if i, ok := s.keys[x.Key]; ok {
		n := &s.nodes[i]
		if n.flags&dormant == 0 || n.status.Terminal() {
			return place{}, false
		}
		n.flags &^= dormant
		s.instance(x, 1)
		for _, name := range s.spawnedAt(i).spec.Spawns {
			s.maySpawn(i, name)
		}
		if n.waiting == 0 {
			r.todo(place{s, i}, judgeStep)
		}
		return place{}, true
	}
	q := place{s, int32(len(s.nodes))}
	idx := r.next
	r.next++
	s.nodes = append(s.nodes, node{})
	family := s.graph.Family(x.Name)
	s.extra = append(s.extra, spawned{idx: idx, by: p.idx(), spec: *x, step: plan.Step{ID: x.Key, Name: x.Name, Action: x.Action,
		Keep: family >= 0 && s.graph.Families[family].Keep,
		Policy: &plan.Policy{Retry: x.Retry, Timeout: x.Timeout, Continue: x.Continue, NotIdempotent: x.NotIdempotent,
			Author: p.step().Policy.Author}}})
	if s.keys == nil {
		s.keys = map[string]int32{}
	}
	r.where[idx], s.keys[x.Key] = q, q.i
	s.open++
	r.expect(s.around(), 1, plan.WeightUnit)
	by := p.node().ensure()
	by.spawned = append(by.spawned, idx)
	s.maySpawn(p.i, x.Name)
	s.instance(x, 1)
	for _, name := range x.Spawns {
		s.maySpawn(q.i, name)
	}
	return q, false
}

// depend sets up a spawned step's dependencies: exact keys, or names with all their instances.
func (r *Run) depend(q, by place) {
	x := q.s.spawnedAt(q.i)
	for k, token := range x.spec.DependsOn {
		if slices.Contains(x.spec.DependsOn[:k], token) {
			continue
		}
		if d, ok := locate(q.s, token); ok && d != q {
			x.exact = append(x.exact, d.idx())
			r.await(q, d)
			continue
		}
		x.names = append(x.names, token)
		q.s.maySpawn(by.i, token)
		q.node().waiting++
		q.s.group(token).await(q.i)
	}
	r.row(q)
	if q.node().waiting == 0 || q.s.stop.level > 0 {
		r.todo(q, judgeStep)
	}
}

// await makes a step wait for another one without an edge in the plan.
func (r *Run) await(q, d place) {
	n, m := q.node(), d.node()
	if m.status.Terminal() {
		n.flags |= m.brings()
		return
	}
	n.waiting++
	r.dependent[d.idx()] = append(r.dependent[d.idx()], q.idx())
}

// locate finds a step by exact key as seen from a scope: a spawned one, or one of the graph, there or
// further out.
func locate(s *scope, key string) (place, bool) {
	for at := s; at != nil; at = at.outer() {
		if i, ok := at.keys[key]; ok {
			return place{at, i}, true
		}
		if i, ok := at.graph.Index(key); ok {
			return place{at, i}, true
		}
	}
	return place{}, false
}
