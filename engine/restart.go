package engine

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/plan"
)

// restart resets a step and everything after it, spawned children too, in place; what ran before
// stays (semantics §3). Steps that a stop kept from running are reset with them. It looks at every
// step of the pipeline's top level.
func (r *Run) restart(ev *Event) (bool, error) {
	p, err := r.restartable(ev.Step)
	if err != nil {
		return false, err
	}
	var e *each
	if ev.FailedOnly {
		if e = r.repeatable(p); e == nil {
			return false, &stepwell.Error{Code: stepwell.CodeInvalid, Message: fmt.Sprintf("step %q is no for_each that ended with iterations left to repeat", ev.Step)}
		}
	}
	set := r.downstream(p)
	if e != nil {
		set = slices.DeleteFunc(set, func(i int32) bool { return i == p.i })
	}
	again := make([]bool, len(r.main.nodes))
	for _, i := range set {
		again[i] = true
	}
	r.reopen()
	for _, i := range set {
		q := place{r.main, i}
		x := r.main.spawnedAt(i)
		r.reset(q, x != nil && again[r.spawner(x)])
	}
	if e != nil {
		r.redrive(p, e)
	}
	r.forgetEdges(again)
	r.main.regroup(func(i int32) bool { return again[i] })
	for _, i := range set {
		r.rewire(place{r.main, i})
	}
	r.recount()
	return true, nil
}

func (r *Run) restartable(key string) (place, error) {
	m := r.main
	if m == nil || r.status == stepwell.ExecutionPending {
		return place{}, &stepwell.Error{Code: stepwell.CodeConflict, Message: "the execution has not started"}
	}
	p, ok := locate(m, key)
	switch {
	case !ok:
		return p, &stepwell.Error{Code: stepwell.CodeNotFound, Message: fmt.Sprintf("no step %q at the pipeline's top level", key),
			Hint: "a step inside a group or for_each is restarted with the step around it"}
	case r.status == stepwell.ExecutionCancelling || m.phase == phaseOnFailure || m.phase == phaseFinally:
		return p, &stepwell.Error{Code: stepwell.CodeConflict, Message: "the execution is ending", Hint: "try again when it has ended"}
	}
	return p, nil
}

// PreviewRestart lists the keys of the steps that a restart would run again.
func (r *Run) PreviewRestart(key string) ([]string, error) {
	p, err := r.restartable(key)
	if err != nil {
		return nil, err
	}
	var keys []string
	for _, i := range r.downstream(p) {
		keys = append(keys, r.main.key(i))
	}
	return keys, nil
}

// downstream is the given steps with all that depends on them or was spawned by them, and what a stop
// has kept from running, in order.
func (r *Run) downstream(from ...place) []int32 {
	m := r.main
	seen := make([]bool, len(m.nodes))
	var todo []int32
	add := func(list ...int32) {
		for _, i := range list {
			if !seen[i] {
				seen[i] = true
				todo = append(todo, i)
			}
		}
	}
	for _, p := range from {
		add(p.i)
	}
	for i := range m.nodes {
		if m.nodes[i].flags&(halted|revoking) != 0 {
			add(int32(i))
		}
	}
	exact := r.exactEdges(m)
	for at := 0; at < len(todo); at++ {
		i := todo[at]
		if int(i) < len(m.graph.Steps) {
			if lead, led := m.graph.Steps[i].Lead(); led { // a segment runs as one
				add(lead)
			}
			add(m.graph.Steps[i].Children...)
		}
		add(exact[i]...)
		r.afterSpawning(i, add)
	}
	slices.Sort(todo)
	return todo
}

// afterSpawning adds what a step of the top level has spawned, and who waits for its name or for names
// that it may spawn.
func (r *Run) afterSpawning(i int32, add func(...int32)) {
	m := r.main
	if in := m.nodes[i].info; in != nil {
		for _, idx := range in.spawned {
			if q, ok := r.find(idx); ok && q.s == m {
				add(q.i)
			}
		}
		for _, name := range in.names {
			add(m.group(name).all...)
		}
	}
	if x := m.spawnedAt(i); x != nil {
		for _, g := range m.groupsOf(&x.spec) {
			if g != nil {
				add(g.all...)
			}
		}
	}
}

// exactEdges are the dependencies of spawned steps on exact keys, turned round.
func (r *Run) exactEdges(s *scope) map[int32][]int32 {
	if len(s.extra) == 0 {
		return nil
	}
	edges := map[int32][]int32{}
	for k := range s.extra {
		for _, idx := range s.extra[k].exact {
			if d, ok := r.find(idx); ok && d.s == s {
				edges[d.i] = append(edges[d.i], int32(len(s.graph.Steps)+k))
			}
		}
	}
	return edges
}

// reopen takes the run back to where its steps run.
func (r *Run) reopen() {
	m := r.main
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
	r.fx.Forget = append(r.fx.Forget, p.idx())
	old := n.info
	*n = node{epoch: n.epoch + 1, status: stepwell.StepPending, flags: restarted}
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

// supersede takes back the keys of what ran inside a step, or inside the part of it with the suffix.
func (r *Run) supersede(p place, suffix string, self bool) {
	if p.step().Body != nil && p.node().epoch > 0 {
		r.fx.Superseded = append(r.fx.Superseded, Superseded{Key: p.key() + suffix, Self: self, Below: r.next})
	}
}

// withdraw takes back what a step has in flight, its inside included.
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
	if e := n.info.each; len(e.redo)+int(e.unbegun) > 0 {
		return e
	}
	return nil
}

// redrive repeats the failed iterations of a for_each that has ended, and those that a stop has cut
// short or kept from beginning.
func (r *Run) redrive(p place, e *each) {
	n := p.node()
	p.s.open++
	*n = node{epoch: n.epoch + 1, attempt: n.attempt, queued: n.queued, status: stepwell.StepRunning, flags: judged | restarted, info: n.info}
	in := n.info
	in.err, in.last, in.started = nil, nil, r.now
	in.inside.add(stepwell.StepSkipped, -int(e.unbegun))
	if r.plan.Weighted {
		in.inside.done -= int64(int(e.unbegun)+len(e.redo)) * plan.WeightUnit
	}
	slices.SortFunc(e.redo, func(a, b redo) int { return int(a.iter - b.iter) })
	again := make([]int32, 0, len(e.redo)+len(e.again))
	for _, it := range e.redo {
		r.supersede(p, "["+strconv.Itoa(int(it.iter))+"]", true)
		in.inside.add(it.status, -1)
		again = append(again, it.iter)
	}
	e.again = append(again, e.again...)
	slices.Sort(e.again)
	e.redo, e.why, e.failed, e.cut, e.unbegun, e.stopped = nil, nil, 0, 0, 0, false
	r.row(p)
	r.todo(p, moreItems)
}
