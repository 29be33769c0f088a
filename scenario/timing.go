package scenario

import (
	"fmt"
	"time"

	"github.com/stepwell/stepwell/schedule"
	"github.com/stepwell/stepwell/sim"
)

// checkTiming compares when a schedule fires with what was expected.
func (r *run) checkTiming() {
	t := r.t.timing
	at := r.t.At
	if at.IsZero() {
		at = sim.Start
	}
	var got []time.Time
	if t.down.IsZero() {
		for after := at.Add(-time.Nanosecond); len(got) < len(t.fires); {
			next, ok := t.Next(after)
			if !ok {
				break
			}
			got, after = append(got, next), next
		}
	} else {
		got = t.Due(at, t.down, schedule.Catchup{Misfire: t.misfire})
	}
	for i, f := range t.fires {
		switch {
		case i >= len(got):
			r.add(f.pos, fmt.Sprintf("fires: expected %s, it does not fire any more", stamp(f.at, t)), "")
			return
		case !f.at.Equal(got[i]):
			r.add(f.pos, fmt.Sprintf("fires: expected %s, it fires at %s", stamp(f.at, t), stamp(got[i], t)), "")
			return
		}
	}
	if len(got) > len(t.fires) {
		r.add(t.pos, fmt.Sprintf("fires: expected %d firings, there are %d; the next is %s", len(t.fires), len(got), stamp(got[len(t.fires)], t)), "")
	}
}

func stamp(at time.Time, t *timing) string { return at.In(t.Zone()).Format(time.RFC3339) }
