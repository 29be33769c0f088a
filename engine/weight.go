package engine

import (
	"math/bits"

	"github.com/stepwell/stepwell/plan"
)

// tally counts ends inside a step.
type tally struct {
	Progress
	load
}

// load is total and done work, in shares of the progress: a step counts its weight or plan.WeightUnit. The weight of
// a group, for_each or sub-pipeline stands for its inside; without one the steps inside count themselves. Kept only
// for plans in which some step has a weight.
type load struct{ total, done int64 }

// part is the done share of a weight w that stands for all of the load.
func (l load) part(w int64) int64 {
	if l.total <= 0 || l.done <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(w), uint64(min(l.done, l.total)))
	q, _ := bits.Div64(hi, lo, uint64(l.total)) // at most w
	return int64(q)
}

// weigh adds to the load of every step around, and of the run.
func (r *Run) weigh(around place, more load) {
	if !r.plan.Weighted {
		return
	}
	for at := around; at.s != nil; at = at.s.around() {
		l := &at.node().ensure().within().load
		w := at.step().Policy.Weight
		before := l.part(w)
		l.total += more.total
		l.done += more.done
		if w > 0 {
			more = load{done: l.part(w) - before}
		}
	}
	r.load.total += more.total
	r.load.done += more.done
}

// rest is the work that a step's end still adds to the enclosing load.
func (p place) rest() int64 {
	w := p.step().Policy.Weight
	if in := p.node().info; w > 0 && in != nil && in.inside != nil {
		return w - in.inside.part(w)
	}
	return p.weight()
}

func (p place) weight() int64 {
	if w := p.step().Policy.Weight; w > 0 {
		return w
	}
	return plan.WeightUnit
}

// share is the load of a step, with its inside, as counted outside of it.
func (p place) share() load {
	out := load{total: p.weight()}
	if in := p.node().info; in != nil && in.inside != nil {
		if w := p.step().Policy.Weight; w > 0 {
			out.done = in.inside.part(w)
		} else {
			out.total, out.done = out.total+in.inside.total, in.inside.done
		}
	}
	if p.node().status.Terminal() {
		out.done += p.rest()
	}
	return out
}

func (r *Run) percent() float64 {
	ended, total := float64(r.counts.Completed+r.counts.Failed+r.counts.Skipped+r.counts.Cancelled), float64(r.counts.Total)
	if r.plan.Weighted {
		ended, total = float64(r.load.done), float64(r.load.total)
	}
	if total <= 0 {
		return 0
	}
	return min(100, 100*ended/total)
}
