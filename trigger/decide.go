package trigger

import (
	"slices"
	"time"

	"github.com/stepwell/stepwell/schedule"
)

// decide applies the due times: it returns the state to write before any start. Times without catch-up are dropped.
// Times before this process began were missed, however short the gap. The result shares nothing mutable with the entry.
func (e *entry) decide(now, begun time.Time, grace time.Duration, backlog int) state {
	st := e.state
	st.Pending = slices.Clone(st.Pending)
	first := e.next(now)
	if first.IsZero() || len(st.Pending) >= backlog {
		return st
	}
	jitter := e.plan.Jitter(e.ID, first)
	if first.Add(jitter).After(now) {
		return st
	}
	last := time.Unix(st.Last, 0)
	due := e.plan.Due(last, now, schedule.Catchup{Misfire: e.Misfire, Window: e.catchUp(), Grace: grace + jitter, Limit: backlog - len(st.Pending), Runs: st.Fired})
	if len(due) == 0 { // no catch-up runs
		e.skip(&st, last, now, DropMisfire, now)
		st.Last = now.Unix()
		return st
	}
	e.skip(&st, last, due[0].Add(-1), DropMisfire, now)
	st.Last = max(st.Last, due[0].Unix()-1)
	late := now.Add(-grace - jitter)
	for i, at := range due {
		meant := at.Add(e.plan.Jitter(e.ID, at))
		if meant.After(now) {
			break
		}
		st.Last = at.Unix()
		missed := !at.After(late) || e.Misfire == schedule.RunAll && (!meant.After(begun) || i+1 < len(due))
		if st.admit(e.Overlap, firing{At: at.Unix(), Late: missed}, now) {
			st.Fired++
		}
	}
	return st
}

// skip drops the times after one moment up to and including another.
func (e *entry) skip(st *state, after, until time.Time, reason string, now time.Time) {
	if until.After(after) {
		n, first, last := e.plan.Count(after, until)
		st.drop(reason, n, first, last, now)
	}
}

// admit queues a firing behind the pending ones, or drops it (false) because an execution runs. Catch-up firings are
// never dropped.
func (s *state) admit(overlap schedule.Overlap, f firing, now time.Time) bool {
	busy := len(s.Active) > 0 || len(s.Pending) > 0
	f.Held = busy && overlap != schedule.OverlapAllow
	if f.Held && !f.Late {
		switch overlap {
		case schedule.OverlapSkip:
			s.Dropped++
			s.end(f, row{Status: FiringDropped, Reason: DropOverlap}, now)
			return false
		case schedule.OverlapQueueOne, schedule.OverlapCancelRunning:
			s.replace(now)
		}
	}
	s.Pending = append(s.Pending, f)
	return true
}

// replace drops the pending firings, for a newer one.
func (s *state) replace(now time.Time) {
	s.Pending = slices.DeleteFunc(s.Pending, func(f firing) bool {
		if !f.Held || f.Late {
			return false
		}
		s.Dropped++
		s.end(f, row{Status: FiringDropped, Reason: DropOverlap}, now)
		if f.From == "" {
			s.Fired--
		}
		return true
	})
}

// startable is how many of the waiting firings may be started now.
func (e *entry) startable() int {
	switch {
	case len(e.state.Pending) == 0 || !e.enabled():
		return 0
	case e.Overlap == schedule.OverlapAllow:
		return min(len(e.state.Pending), maxAtOnce)
	case len(e.state.Active) > 0:
		return 0
	}
	return 1
}

// maxAtOnce is how many firings of one job are started before others have their turn.
const maxAtOnce = 64

// schedule says when the loop has to look at an entry again. The caller holds the lock.
func (s *Schedules) schedule(e *entry, now time.Time) {
	if e.gone || s.only != nil && !slices.Contains(s.only, e) {
		return
	}
	e.nominal = e.next(now)
	e.due = time.Time{}
	soonest := func(at time.Time) {
		if e.due.IsZero() || at.Before(e.due) {
			e.due = at
		}
	}
	switch {
	case e.startable() > 0 || e.dirty:
		soonest(later(now, e.retry))
	case len(e.state.Pending) > 0 && e.enabled():
		soonest(later(later(now, e.recheck), e.retry))
	}
	if !e.nominal.IsZero() && s.only == nil && len(e.state.Pending) < s.o.Backlog {
		soonest(later(e.nominal.Add(e.plan.Jitter(e.ID, e.nominal)), e.retry))
	}
	s.heap.place(e)
	if e.pos == 0 {
		s.wake()
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// wake makes the loop look.
func (s *Schedules) wake() {
	select {
	case s.ring <- struct{}{}:
	default: // it will
	}
}
