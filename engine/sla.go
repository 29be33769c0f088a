package engine

// Values of Progress.Breached.
const (
	BreachedExpected = "expected" // longer than settings.sla.expected_seconds
	BreachedMaximum  = "maximum"  // longer than settings.sla.max_seconds
)

// The numbers of the run's own timers.
const (
	timeoutTimer  = -1
	expectedTimer = -2
	maximumTimer  = -3
)

// breach notes that the execution takes longer than its settings promise. That is all it does.
func (r *Run) breach(timer int32) bool {
	switch sla := &r.plan.SLA; {
	case r.status.Terminal():
		return false
	case timer == expectedTimer && sla.Expected > 0 && r.breached == "":
		r.breached = BreachedExpected
	case timer == maximumTimer && sla.Maximum > 0 && r.breached != BreachedMaximum:
		r.breached = BreachedMaximum
	default:
		return false
	}
	r.fx.Changed = true
	return true
}

// late records at the end any breach whose timer has not fired.
func (r *Run) late() {
	took, sla := r.now-r.armed, &r.plan.SLA
	switch {
	case r.arming == 0: // never admitted
	case sla.Maximum > 0 && took >= sla.Maximum.Microseconds():
		r.breached = BreachedMaximum
	case sla.Expected > 0 && took >= sla.Expected.Microseconds() && r.breached == "":
		r.breached = BreachedExpected
	}
}

// own lists the timers of the run itself that are still to come.
func (r *Run) own() []Timer {
	var out []Timer
	if d := r.plan.Timeout; d > 0 && r.cause == 0 {
		out = append(out, Timer{At: r.armed + d.Microseconds(), Idx: timeoutTimer, Epoch: r.arming})
	}
	if d := r.plan.SLA.Expected; d > 0 && r.breached == "" {
		out = append(out, Timer{At: r.armed + d.Microseconds(), Idx: expectedTimer, Epoch: r.arming})
	}
	if d := r.plan.SLA.Maximum; d > 0 && r.breached != BreachedMaximum {
		out = append(out, Timer{At: r.armed + d.Microseconds(), Idx: maximumTimer, Epoch: r.arming})
	}
	return out
}
