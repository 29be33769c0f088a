package engine

import "github.com/stepwell/stepwell"

// readyStep is a step that may start. Higher priority first, then the order of becoming ready,
// in which ties are by definition order: runs are reproducible.
type readyStep struct {
	place
	priority int32
	seq      uint64
}

// readyHeap is a binary heap, written out because container/heap would allocate for every step.
type readyHeap []readyStep

func (s *readyStep) before(t *readyStep) bool {
	return s.priority > t.priority || s.priority == t.priority && s.seq < t.seq
}

func (h *readyHeap) push(x readyStep) {
	*h = append(*h, x)
	q := *h
	for i := len(q) - 1; i > 0; {
		parent := (i - 1) / 2
		if !q[i].before(&q[parent]) {
			return
		}
		q[i], q[parent] = q[parent], q[i]
		i = parent
	}
}

func (h *readyHeap) pop() readyStep {
	q := *h
	top, last := q[0], len(q)-1
	q[0], q[last] = q[last], readyStep{}
	q = q[:last]
	for i := 0; ; {
		best := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if q[child].before(&q[best]) {
				best = child
			}
		}
		if best == i {
			break
		}
		q[i], q[best] = q[best], q[i]
		i = best
	}
	if *h = q; last == 0 && cap(q) > maxIdle {
		*h = nil
	}
	return top
}

// frontRoom is the range reserved for numbers of steps that go before all others.
const frontRoom = 1 << 48

func (r *Run) makeReady(p place) {
	r.readySeq++
	r.queue(p, frontRoom+r.readySeq)
}

// makeReadyFirst is for steps that have had their turn already.
func (r *Run) makeReadyFirst(p place) {
	r.frontSeq++
	r.queue(p, r.frontSeq)
}

func (r *Run) queue(p place, seq uint64) {
	n := p.node()
	if p.s.stop.bars(n) {
		r.cutShort(p)
		return
	}
	n.flags |= inReady | judged
	r.ready.push(readyStep{place: p, priority: int32(p.step().Policy.Priority), seq: seq})
}

// dispatch fills the window with ready steps. It reports whether it set off more work.
func (r *Run) dispatch() bool {
	if r.status != stepwell.ExecutionRunning && r.status != stepwell.ExecutionCancelling {
		return false
	}
	limit := r.window
	if m := r.plan.Graph.MaxParallel; m > 0 {
		limit = min(limit, m)
	}
	for r.inflight < limit && len(r.ready) > 0 {
		next := r.ready.pop()
		if next.node().flags&inReady == 0 || next.s.closed {
			continue // ended or reset meanwhile
		}
		if full := r.full(next.s); full != nil {
			full.parked = append(full.parked, next.place)
			continue
		}
		r.start(next.place)
	}
	return len(r.work) > 0
}

// full finds a sub-pipeline around a scope that runs as many steps as it may.
func (r *Run) full(s *scope) *scope {
	for at := s; at != r.main && at != nil; at = at.up() {
		if m := at.graph.MaxParallel; m > 0 && int(at.running) >= m {
			return at
		}
	}
	return nil
}

// unpark makes one step ready that waited for room in a sub-pipeline.
func (r *Run) unpark(s *scope) {
	for len(s.parked) > 0 {
		p := s.parked[0]
		s.parked = s.parked[1:]
		if p.node().flags&inReady != 0 && !p.s.closed {
			r.makeReadyFirst(p)
			return
		}
	}
}

func (r *Run) start(p place) {
	n := p.node()
	n.status = stepwell.StepQueued
	n.epoch++
	if n.flags&keepTry == 0 || n.attempt == 0 {
		n.attempt++
		if n.info != nil {
			n.info.until = 0
		}
	}
	if n.info != nil {
		n.info.advanced = false
	}
	n.flags &^= keepTry | inReady
	n.queued = r.now
	r.inflight++
	for at := p.s; at != nil; at = at.up() {
		at.running++
	}
	r.fx.Tasks = append(r.fx.Tasks, r.task(p))
}

// task is all that a worker needs to know of a step's present attempt.
func (r *Run) task(p place) *Task {
	n, step := p.node(), p.step()
	t := &Task{Run: r.No, Execution: r.ID, Pipeline: r.plan.Name, Idx: p.idx(), Epoch: n.epoch,
		Attempt: int(n.attempt), Key: p.key(), Step: step, Priority: step.Policy.Priority + r.priority, Queue: step.Policy.Queue, Dir: r.Dir, Limits: r.limits(), About: r.about}
	if x := p.s.spawnedAt(p.i); x != nil {
		t.Params = x.spec.Params
	} else if step.Scoped {
		t.Scope = r.scope(p, step.Reads)
	}
	for _, m := range step.Members() {
		t.Members = append(t.Members, Member{Idx: p.s.idx(m.Step), ID: m.ID, Key: p.s.key(m.Step), LogLevel: m.LogLevel, Module: m.Module, Keep: p.s.step(m.Step).Keep})
	}
	if n.info != nil {
		t.State = n.info.state
	}
	t.GoesOn = r.goesOn[t.Idx]
	return t
}

// leave asks for the stop of work that a step has going on elsewhere, if there is any.
func (r *Run) leave(p place) {
	if in := p.node().info; in != nil && len(in.state) > 0 {
		r.fx.Cancels = append(r.fx.Cancels, r.task(p))
		in.state = nil
	}
}
