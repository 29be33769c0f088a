package estimate

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// curve is how an execution went. Times are seconds after its start.
type curve struct {
	total int       // steps
	took  float64   // until its end
	ends  []float64 // when steps had ended, ascending; of more than 512 steps some, evenly. None: nothing but the duration is known
	// sizes are the totals while it ran: of the steps outside of every for_each, and after each for_each that began.
	sizes []int
}

func curveOf(x *store.Execution, steps []store.StepState) curve {
	c := curve{total: x.Progress.Total, took: x.Ended.Sub(x.Started).Seconds()}
	begin := x.Started.UnixMicro()
	type loop struct {
		steps int
		first int64
	}
	loops := map[string]*loop{}
	inside := 0
	for i := range steps {
		s := &steps[i]
		if s.Superseded || !s.Status.Terminal() {
			continue
		}
		c.ends = append(c.ends, min(c.took, max(0, float64(s.Ended-begin)/1e6)))
		name, _, is := strings.Cut(s.Key, "[")
		if !is {
			continue
		}
		inside++
		l := loops[name]
		if l == nil {
			l = &loop{first: math.MaxInt64}
			loops[name] = l
		}
		l.steps++
		l.first = min(l.first, cmp.Or(s.Queued, s.Started, s.Ended))
	}
	slices.Sort(c.ends)
	c.ends = thin(c.ends)
	c.sizes = []int{c.total - inside}
	begun := make([]*loop, 0, len(loops))
	for _, l := range loops {
		begun = append(begun, l)
	}
	slices.SortFunc(begun, func(a, b *loop) int { return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(a.steps, b.steps)) })
	for _, l := range begun {
		c.sizes = append(c.sizes, c.sizes[len(c.sizes)-1]+l.steps)
	}
	c.sizes = c.sizes[:min(len(c.sizes), points)]
	return c
}

// thin leaves 512 values of a sorted list, the last one among them.
func thin(all []float64) []float64 {
	if len(all) <= points {
		return all
	}
	out := make([]float64, points)
	for i := range out {
		out[i] = all[(i+1)*len(all)/points-1]
	}
	return out
}

// at is when so many of this curve's steps had ended; between two points it is on the line between them.
func (c *curve) at(ended float64) float64 {
	share := max(0, min(1, ended/float64(max(1, c.total))))
	if len(c.ends) == 0 {
		return share * c.took
	}
	n := share * float64(len(c.ends))
	i := min(int(n), len(c.ends))
	before, after := 0.0, c.took
	if i > 0 {
		before = c.ends[i-1]
	}
	if i < len(c.ends) {
		after = c.ends[i]
	}
	return before + (n-float64(i))*(after-before)
}

// size is how many steps an execution will have, which has so many now: each for_each adds its steps when it begins. As long as
// the number is one that this curve had too, it becomes what this curve's became.
func (c *curve) size(total int) int {
	if total <= c.total && (len(c.sizes) == 0 || total <= c.sizes[0] || slices.Contains(c.sizes, total)) {
		return c.total
	}
	return total
}

// pace is how much the own pace counts: wholly when many steps have ended, hardly when there were few. It is bounded, so that one
// step that hangs does not multiply what all others take.
const (
	trusted = 8
	slowest = 4.0
)

// remains is how long an execution still takes if it goes on like this one.
func (c *curve) remains(p *engine.Progress, elapsed float64) float64 {
	size := c.size(p.Total)
	scale := float64(size) / float64(max(1, c.total))
	ended := float64(p.Completed + p.Failed + p.Skipped + p.Cancelled)
	here := ended / scale // in steps of this curve
	from, to := scale*c.at(here), scale*c.at(min(float64(c.total), here+1/scale))
	all := scale * c.took
	switch {
	case elapsed < from:
		return (all - from) * math.Pow(max(elapsed/from, 1/slowest), ended/(ended+trusted))
	case elapsed > to && to > 0:
		return (all - to) * math.Pow(min(elapsed/to, slowest), ended/(ended+trusted))
	}
	return max(0, all-elapsed)
}
