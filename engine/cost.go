package engine

import (
	"maps"
	"slices"

	"github.com/stepwell/stepwell"
)

// Charge is what the attempts of a step have cost since the execution began, or was last restarted after its end.
type Charge struct {
	Step     string // key without the numbers of iterations; "" for all beyond the first 200 steps of an execution
	Attempts int64  // that cost something
	Cost     int64  // in millionths of the unit of money
	// Repeated are those of Attempts that repeat something, and RepeatedCost what they cost: attempts after a step's first, and all of
	// an execution that retries another or was restarted.
	Repeated, RepeatedCost int64
}

// maxCharges is how many steps of an execution are charged by name.
const maxCharges = 200

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
	if s.Cost > 0 {
		r.charge(p, s.Cost)
	}
}

// charge adds the cost of an attempt to the charges.
func (r *Run) charge(p place, cost int64) {
	if r.charges == nil {
		r.charges = map[string]*Charge{}
	}
	name := stepwell.Unnumbered(p.key())
	c := r.charges[name]
	if c == nil && len(r.charges) >= maxCharges {
		name = ""
		c = r.charges[name]
	}
	if c == nil {
		c = &Charge{Step: name}
		r.charges[name] = c
	}
	c.Attempts++
	c.Cost = addUpTo(c.Cost, cost)
	if p.node().attempt > 1 || r.parent != "" || r.restarted {
		c.Repeated++
		c.RepeatedCost = addUpTo(c.RepeatedCost, cost)
	}
}

// addUpTo adds two costs; a sum stops at the greatest number.
func addUpTo(a, b int64) int64 {
	sum := stepwell.Spending{Cost: a}.Plus(stepwell.Spending{Cost: b})
	return sum.Cost
}

// Charges are what steps have cost since the execution began, or was last restarted after its end, in order of their keys. Steps that
// cost nothing are not among them.
func (r *Run) Charges() []Charge {
	out := make([]Charge, 0, len(r.charges))
	for _, name := range slices.Sorted(maps.Keys(r.charges)) {
		out = append(out, *r.charges[name])
	}
	return out
}

// Charged is the sum of the charges.
func (r *Run) Charged() (sum int64) {
	for _, c := range r.charges {
		sum = addUpTo(sum, c.Cost)
	}
	return sum
}

// Promise is the SLA of an execution that was admitted, and how long it took until its end, in µs; ok is false where nothing is
// promised, or the execution has not begun or not ended.
func (r *Run) Promise() (expected, maximum, took int64, ok bool) {
	sla := &r.plan.SLA
	if sla.Expected == 0 && sla.Maximum == 0 || r.arming == 0 || r.ended == 0 {
		return 0, 0, 0, false
	}
	return sla.Expected.Microseconds(), sla.Maximum.Microseconds(), max(0, r.ended-r.armed), true
}
