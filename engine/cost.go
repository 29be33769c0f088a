package engine

import "math"

// spend adds the cost of an attempt to its step and to the run.
func (r *Run) spend(p place, cost int64) {
	if cost <= 0 {
		return
	}
	if r.costs == nil {
		r.costs = map[int32]int64{}
	}
	idx := p.idx()
	r.costs[idx] = addCost(r.costs[idx], cost)
	r.cost = addCost(r.cost, cost)
}

// addCost stops at the greatest number that there is.
func addCost(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
