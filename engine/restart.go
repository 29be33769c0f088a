package engine

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/plan"
)

// restart resets a step and everything after it, spawned children too, in place; earlier records stay (semantics §3).
// Steps that a stop kept from running are reset too. It visits every step of the pipeline's top level.
func (r *Run) restart(ev *Event) (bool, error) {
	p, err := r.restartable(ev.Step)
	if err != nil {
		return false, err
	}
	if ev.Fine {
		p.i = p.s.unit(p.i)
	}
	var e *each
	if ev.FailedOnly {
		if e, err = r.redo(p, ev); err != nil {
			return false, err
		}
	}
	because := r.downstream(p)
	again := make([]bool, len(because))
	for i, by := range because {
		again[i] = by != untouched && (e == nil || int32(i) != p.i)
	}
	r.reopen()
	for i, yes := range again {
		if yes {
			q := place{r.main, int32(i)}
			x := r.main.spawnedAt(q.i)
			r.reset(q, x != nil && again[r.spawner(x)])
		}
	}
	r.remember(ev.Seeds)
	switch {
	case e != nil:
		r.redrive(p, e, ev.Fine)
	case ev.FailedOnly && len(p.step().Members()) > 0:
		r.goOn(p, r.ID)
	}
	r.forgetEdges(again)
	r.main.regroup(func(i int32) bool { return again[i] })
	for i, yes := range again {
		if yes {
			r.rewire(place{r.main, int32(i)})
		}
	}
	r.recount()
	return true, nil
}

// redo checks whether only the failed parts of a step can be repeated. It returns the for_each whose iterations stay
// in place, nil for a group or a sub-pipeline, which begins anew with its kept results.
func (r *Run) redo(p place, ev *Event) (*each, error) {
	if !ev.Fine {
		if e := r.repeatable(p); e != nil {
			return e, nil
		}
		return nil, stepwell.Invalid("", "step %q is not a for_each that ended with iterations left to repeat", ev.Step)
	}
	n := p.node()
	switch {
	case n.epoch != ev.Epoch:
		return nil, &stepwell.Error{Code: stepwell.CodeConflict, Message: fmt.Sprintf("step %q has changed meanwhile", ev.Step), Hint: "look at it, and restart it again if that is still wanted"}
	case !n.status.Terminal() || !n.lost() || p.step().Body == nil && len(p.step().Members()) == 0:
		return nil, notRedoable(ev.Step)
	case n.info != nil:
		return n.info.each, nil
	}
	return nil, nil
}

func (r *Run) restartable(key string) (place, error) {
	m := r.main
	if m == nil || r.Held() {
		return place{}, notStarted()
	}
	p, ok := locate(m, key)
	switch {
	case !ok:
		return p, noStep(key)
	case r.status == stepwell.ExecutionCancelling || m.phase == phaseOnFailure || m.phase == phaseFinally:
		return p, stepwell.Errorf(stepwell.CodeConflict, "try again when it has ended", "the execution is ending")
	}
	return p, nil
}

// downstream marks the steps of the top level that a restart resets: root for the step itself and for steps that a
// stop kept from running, else the number of the step they depend on or were spawned by.
func (r *Run) downstream(p place) []int32 {
	because := make([]int32, len(r.main.nodes))
	roots := []int32{p.i}
	for i := range because {
		if because[i] = untouched; int32(i) != p.i && r.main.nodes[i].flags&(halted|revoking) != 0 {
			roots = append(roots, int32(i))
		}
	}
	for _, i := range roots {
		because[i] = root
	}
	r.spread(r.main, roots, func(from, i int32) bool {
		fresh := because[i] == untouched
		if fresh {
			because[i] = from
		}
		return fresh
	})
	return because
}

// spread goes from some steps of a scope to all that depend on them or were spawned by them. reach says whether it
// goes on from there.
func (r *Run) spread(s *scope, roots []int32, reach func(from, i int32) bool) {
	todo := slices.Clone(roots)
	exact := s.exactEdges()
	for at := 0; at < len(todo); at++ {
		i := todo[at]
		add := func(list ...int32) {
			for _, j := range list {
				if reach(i, j) {
					todo = append(todo, j)
				}
			}
		}
		if int(i) < len(s.graph.Steps) {
			if lead, led := s.graph.Steps[i].Lead(); led { // a segment runs as one
				add(lead)
			}
			add(s.graph.Steps[i].Children...)
		}
		add(exact[i]...)
		s.afterSpawning(i, add)
	}
}

// afterSpawning adds the steps a step has spawned, and the waiters for its name or for names that it may spawn.
func (s *scope) afterSpawning(i int32, add func(...int32)) {
	if in := s.nodes[i].info; in != nil {
		for _, idx := range in.spawned {
			if j, ok := s.local(idx); ok {
				add(j)
			}
		}
		for _, name := range in.names {
			add(s.group(name).all...)
		}
	}
	if x := s.spawnedAt(i); x != nil {
		for _, g := range s.groupsOf(&x.spec) {
			if g != nil {
				add(g.all...)
			}
		}
	}
}

// exactEdges are the dependencies of spawned steps on exact keys, turned round.
func (s *scope) exactEdges() map[int32][]int32 {
	if len(s.extra) == 0 {
		return nil
	}
	edges := map[int32][]int32{}
	for k := range s.extra {
		for _, idx := range s.extra[k].exact {
			if d, ok := s.local(idx); ok {
				edges[d] = append(edges[d], int32(len(s.graph.Steps)+k))
			}
		}
	}
	return edges
}

// reopen takes the run back to where its steps run.
func (r *Run) reopen() {
	m := r.main
	if r.restarted = true; r.ended != 0 {
		r.charges = nil // that end has counted them
	}
	if m.phase != phaseMain {
		for _, handlers := range []string{"on_failure", "finally"} {
			r.fx.Superseded = append(r.fx.Superseded, Superseded{Key: handlers, Below: r.next})
		}
	}
	m.phase, m.handlerErr, m.err, m.stop, m.cut, m.ended = phaseMain, nil, nil, stop{}, false, false
	r.cause, r.failure, r.outputs, r.ended, r.breached = 0, nil, nil, 0, ""
	r.arm()
	if r.status != stepwell.ExecutionPaused {
		r.setStatus(stepwell.ExecutionRunning)
	}
}

// reset makes a step as if it had never run. A report of its former attempts finds another epoch.
func (r *Run) reset(p place, spawnedAgain bool) {
	n := p.node()
	r.withdraw(p)
	if n.status.Terminal() {
		p.s.open++
	}
	r.supersede(p, "", false)
	r.forget(p.key())
	delete(r.goesOn, p.idx())
	r.fx.Forget = append(r.fx.Forget, Forgotten{p.idx(), n.epoch + 1})
	old := n.info
	*n = node{epoch: n.epoch + 1, status: stepwell.StepPending, flags: restarted | n.flags&hasRow}
	if old != nil {
		// Names that it waits for itself are left out: it must not wait for itself.
		names := slices.DeleteFunc(old.names, func(name string) bool { return slices.Contains(p.s.group(name).all, p.i) })
		n.info = &info{spawned: old.spawned, names: names}
	}
	if spawnedAgain {
		n.flags |= dormant
	}
	r.row(p)
}

// supersede takes back the keys of steps inside a step, or inside the part of it with the suffix.
func (r *Run) supersede(p place, suffix string, self bool) {
	if p.step().Body != nil && p.node().epoch > 0 {
		r.fx.Superseded = append(r.fx.Superseded, Superseded{Key: p.key() + suffix, Self: self, Below: r.next})
	}
}

// withdraw takes back a step's work in flight, its inside included.
func (r *Run) withdraw(p place) {
	n := p.node()
	in := n.info
	switch n.status {
	case stepwell.StepRetrying, stepwell.StepWaiting:
		r.sleeping--
	case stepwell.StepQueued, stepwell.StepRunning:
		if p.step().Body == nil {
			if n.flags&revoking == 0 {
				r.fx.Revokes = append(r.fx.Revokes, Revoke{Idx: p.idx(), Epoch: n.epoch})
			}
			r.landed(p)
		}
	}
	if in == nil {
		return
	}
	r.leave(p)
	if in.body != nil {
		r.discard(in.body)
	}
	if in.each != nil {
		for _, s := range in.each.live() {
			r.discard(s)
		}
		r.collected -= in.each.bytes
		in.each.bytes = 0
	}
}

// discard gives up the inside of a step.
func (r *Run) discard(s *scope) {
	s.closed = true // first: nothing in it becomes ready again
	for i := range s.nodes {
		p := place{s, int32(i)}
		r.withdraw(p)
		if n := p.node(); !n.status.Terminal() && (n.attempt > 0 || s.spawnedAt(p.i) != nil) {
			r.supersededRow(p)
		}
	}
	if s.handlers != nil {
		r.discard(s.handlers)
	}
	r.close(s)
}

// repeatable is a for_each that has ended and left iterations to repeat, else nil.
func (r *Run) repeatable(p place) *each {
	n := p.node()
	if n.info == nil || n.info.each == nil || !n.status.Terminal() {
		return nil
	}
	if e := n.info.each; int(e.unbegun) > 0 || slices.ContainsFunc(e.redo, func(it redo) bool { return !it.partly }) {
		return e
	}
	return nil
}

// redrive repeats the failed iterations of an ended for_each, and those that a stop cut short or kept from beginning;
// fine: also completed iterations in which something did not complete.
func (r *Run) redrive(p place, e *each, fine bool) {
	n := p.node()
	p.s.open++
	*n = node{epoch: n.epoch + 1, attempt: n.attempt, queued: n.queued, status: stepwell.StepRunning, flags: judged | restarted | n.flags&hasRow, info: n.info}
	in := n.info
	in.err, in.last, in.started = nil, nil, r.now
	in.inside.add(stepwell.StepSkipped, -int(e.unbegun))
	if r.plan.Weighted {
		in.inside.done -= int64(e.unbegun) * plan.WeightUnit
	}
	slices.SortFunc(e.redo, func(a, b redo) int { return int(a.iter - b.iter) })
	var left []redo
	for _, it := range e.redo {
		if it.partly && !fine {
			left = append(left, it)
			continue
		}
		if it.partly {
			e.completed--
		}
		r.supersede(p, "["+strconv.Itoa(int(it.iter))+"]", true)
		in.inside.uncount(it, r.plan.Weighted)
		e.again = append(e.again, it.iter)
		delete(e.past, it.iter)
	}
	slices.Sort(e.again)
	e.redo, e.why, e.failed, e.cut, e.unbegun, e.stopped = left, nil, 0, 0, 0, false
	r.row(p)
	r.todo(p, moreItems)
}

// uncount takes back an iteration that is repeated.
func (t *tally) uncount(it redo, weighted bool) {
	t.add(it.status, -1)
	if weighted {
		t.done -= plan.WeightUnit
	}
	if in := it.inside; in != nil {
		t.addAll(&in.Progress, -1)
		t.load.total -= in.load.total
		t.load.done -= in.load.done
	}
}
