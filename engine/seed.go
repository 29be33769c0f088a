package engine

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/plan"
)

// Inside counts the steps inside a step that is taken over whole.
type Inside struct {
	Total     int   `json:"total"`
	Completed int   `json:"completed,omitempty"`
	Failed    int   `json:"failed,omitempty"`
	Skipped   int   `json:"skipped,omitempty"`
	Cancelled int   `json:"cancelled,omitempty"`
	Load      int64 `json:"load,omitempty"`
}

func (t *tally) carried() *Inside {
	if t == nil {
		return nil
	}
	return &Inside{Total: t.Total, Completed: t.Completed, Failed: t.Failed, Skipped: t.Skipped, Cancelled: t.Cancelled, Load: t.load.total}
}

// carry counts the inside of a step that is taken over, as if it had ended here.
func (r *Run) carry(p place, in *Inside) {
	if in == nil {
		return
	}
	r.expect(p, in.Total, in.Load)
	r.weigh(p, load{done: in.Load})
	r.countEnds(p, stepwell.StepCompleted, in.Completed)
	r.countEnds(p, stepwell.StepFailed, in.Failed)
	r.countEnds(p, stepwell.StepSkipped, in.Skipped)
	r.countEnds(p, stepwell.StepCancelled, in.Cancelled)
}

// remember lays seeds ready for the scopes that they belong to. Those of a for_each and of groups are taken up when
// these begin.
func (r *Run) remember(seeds []Seed) {
	for i := range seeds {
		if r.memory == nil {
			r.memory = map[string][]*Seed{}
		}
		r.memory[seeds[i].In] = append(r.memory[seeds[i].In], &seeds[i])
	}
}

// recall gives the seeds of a scope, once.
func (r *Run) recall(in string) []*Seed {
	seeds := r.memory[in]
	delete(r.memory, in)
	return seeds
}

// covers: the scope is that of the step, or further inside it.
func covers(step, scope string) bool {
	rest, ok := strings.CutPrefix(scope, step)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

func (r *Run) remembers(step string) bool {
	for in := range r.memory {
		if covers(step, in) {
			return true
		}
	}
	return false
}

// remembered lists the seeds inside a step.
func (r *Run) remembered(step string) []*Seed {
	var scopes []string
	for in := range r.memory {
		if covers(step, in) {
			scopes = append(scopes, in)
		}
	}
	slices.Sort(scopes)
	var out []*Seed
	for _, in := range scopes {
		out = append(out, r.memory[in]...)
	}
	return out
}

// forget drops the seeds inside a step.
func (r *Run) forget(step string) {
	for in := range r.memory {
		if in != "" && covers(step, in) {
			delete(r.memory, in)
		}
	}
}

// seed puts results taken over in place in a scope before anything in it starts: first the spawned steps, each after
// its spawner, then the results, in the order in which they came.
func (r *Run) seed(s *scope) {
	order := r.recall(s.memory())
	for _, x := range order {
		if x.Spawn == nil {
			continue
		}
		by, ok := s.index(x.By)
		if !ok || spawnable(s, x.Spawn, nil) != nil {
			continue // the definition has changed: it is spawned again if it is still wanted
		}
		if q, _ := r.adopt(place{s, by}, x.Spawn); q.s != nil {
			r.depend(q, place{s, by})
		}
	}
	slices.SortStableFunc(order, func(a, b *Seed) int { return int(a.Seq - b.Seq) })
	for _, x := range order {
		i, ok := s.index(strings.TrimPrefix(x.Key, s.inner()))
		if !ok {
			continue
		}
		p := place{s, i}
		if x.GoesOn {
			r.goOn(p, r.parent)
		}
		if x.Status.Terminal() && !p.node().status.Terminal() {
			r.putSeed(p, x)
		}
	}
}

// goOn has a segment repeat only the items that failed in an execution.
func (r *Run) goOn(lead place, execution string) {
	if r.goesOn == nil {
		r.goesOn = map[int32]string{}
	}
	r.goesOn[lead.idx()] = execution
}

// putSeed ends a step with the result of a seed.
func (r *Run) putSeed(p place, x *Seed) {
	r.carry(p, x.Inside)
	if x.Status == stepwell.StepSkipped {
		if x.Bars {
			p.node().flags |= upstream
		}
		r.end(p, stepwell.StepSkipped, x.Why)
		return
	}
	r.complete(p, &Event{Output: []byte(x.Output), Loaded: x.Loaded})
}

// memory is under which name the seeds of a scope are laid ready.
func (s *scope) memory() string {
	if s.owner.s == nil {
		return ""
	}
	return s.owner.key()
}

// localKey is the key of a step within its scope.
func (s *scope) localKey(i int32) string {
	if x := s.spawnedAt(i); x != nil {
		return x.spec.Key
	}
	return s.graph.Steps[i].ID
}

// local finds a step of the scope by its number.
func (s *scope) local(idx int32) (int32, bool) {
	n := int32(len(s.graph.Steps))
	if i := idx - s.base; i >= 0 && i < n {
		return i, true
	}
	at, ok := slices.BinarySearchFunc(s.extra, idx, func(x spawned, idx int32) int { return int(x.idx - idx) })
	return n + int32(at), ok
}

// keeps: a template reads the step's outputs.
func (r *Run) keeps(p place) bool {
	return p.step().Keep || p.s.spawnedAt(p.i) != nil && r.plan.ReadAll
}

func (e *each) key(loop string, i int32) string { return loop + "[" + strconv.Itoa(int(i)) + "]" }

// seed is an iteration that has ended and is taken over.
func (e *each) seed(loop string, i int32, read bool) Seed {
	out := Seed{In: loop, Key: e.key(loop, i), Status: stepwell.StepCompleted, Read: read, Inside: e.tallies[i].carried()}
	if why, skipped := e.skips[i]; skipped {
		out.Status, out.Why = stepwell.StepSkipped, why
	}
	return out
}

// digest is equal for two for_each with the same items.
func (e *each) digest() string {
	h := fnv.New64a()
	fmt.Fprint(h, e.n)
	for _, item := range e.items {
		raw, err := expr.Marshal(item)
		if err != nil {
			return "" // equal to none
		}
		_, _ = h.Write(raw)
		_, _ = h.Write([]byte{0})
	}
	return strconv.FormatUint(h.Sum64(), 36)
}

// seedEach puts the iterations in place that are taken over, if the items are those of the execution before.
func (r *Run) seedEach(p place, step *plan.Step, e *each) {
	key := p.key()
	seeds := r.recall(key)
	if len(seeds) == 0 {
		return
	}
	if head := seeds[0]; head.Key != key || head.Items == "" || head.Items != e.digest() {
		r.forget(key)
		return
	}
	e.kept = make(map[int32]bool, len(seeds)-1)
	for _, x := range seeds[1:] {
		i, rest, ok := iteration(strings.TrimPrefix(x.Key, key))
		if !ok || rest != "" || i < 0 || i >= e.n || e.kept[i] {
			continue
		}
		e.kept[i] = true
		e.ahead++
		s := r.iterate(p, step, e, i)
		r.putSeed(place{s, 0}, x)
	}
}
