package engine

import "github.com/stepwell/stepwell"

// spend adds what an attempt has used and cost to its step, to the run and to the batch.
func (r *Run) spend(p place, ev *Event) {
	s := stepwell.Spending{Cost: ev.Cost, Usage: ev.Usage}
	if s.None() {
		return
	}
	if r.costs == nil {
		r.costs = map[int32]stepwell.Spending{}
	}
	r.costs[p.idx()] = r.costs[p.idx()].Plus(s)
	r.cost, r.fx.Spent = r.cost.Plus(s), r.fx.Spent.Plus(s)
}
