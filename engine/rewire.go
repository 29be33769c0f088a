package engine

import (
	"slices"

	"github.com/stepwell/stepwell"
)

// forgetEdges drops the edges to spawned steps that are about to be set up again.
func (r *Run) forgetEdges(again []bool) {
	for d, list := range r.dependent {
		list = slices.DeleteFunc(list, func(idx int32) bool {
			q, ok := r.find(idx)
			return !ok || q.s == r.main && again[q.i]
		})
		if r.dependent[d] = list; len(list) == 0 {
			delete(r.dependent, d)
		}
	}
}

// rewire recounts the dependencies of a reset step.
func (r *Run) rewire(p place) {
	n := p.node()
	for _, dep := range p.step().Deps {
		if m := &p.s.nodes[dep]; m.status.Terminal() {
			n.flags |= m.brings()
		} else {
			n.waiting++
		}
	}
	for _, name := range p.step().Names {
		r.awaitGroup(p, name)
	}
	if x := p.s.spawnedAt(p.i); x != nil {
		for _, idx := range x.exact {
			if d, ok := r.find(idx); ok {
				r.await(p, d)
			}
		}
		for _, name := range x.names {
			r.awaitGroup(p, name)
		}
	}
	if n.flags&dormant == 0 && ripe(p.step().Policy.Rule, n) {
		r.todo(p, judgeStep)
	}
}

func (r *Run) awaitGroup(p place, name string) {
	n, g := p.node(), p.s.group(name)
	if g.satisfied() {
		n.flags |= g.flags
		return
	}
	n.waiting++
	g.waiters = append(g.waiters, p.i)
}

// recount derives the counters from the steps, after a restart has changed many of them.
func (r *Run) recount() {
	m := r.main
	r.counts, r.load, r.tolerated, m.lost = Progress{}, load{}, false, false
	for i := range m.nodes {
		n := &m.nodes[i]
		r.counts.Total++
		if r.plan.Weighted {
			share := place{m, int32(i)}.share()
			r.load.total += share.total
			r.load.done += share.done
		}
		r.counts.add(n.status, 1)
		r.tolerated = r.tolerated || n.flags&tolerated != 0
		if n.info != nil && n.info.inside != nil {
			in := n.info.inside
			r.counts.addAll(&in.Progress, 1)
			if r.revision < 2 {
				r.tolerated = r.tolerated || n.status == stepwell.StepCompleted && in.Failed > 0
			}
		}
		m.lost = m.lost || n.status.Terminal() && n.lost()
		if (n.failed() || r.revision >= 2 && n.flags&stranded != 0) && m.err == nil {
			m.err = &Failure{Code: stepwell.CodeFailed, Message: "failed"}
			if n.info != nil && n.info.err != nil {
				*m.err = *n.info.err
			}
			if m.err.Step == "" {
				m.err.Step = m.key(int32(i))
			}
		}
	}
}
