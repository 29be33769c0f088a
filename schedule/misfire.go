package schedule

import "time"

// Misfire is the policy for firings missed during downtime.
type Misfire string

// Policies for missed firings.
const (
	RunOnce    Misfire = "run_once" // the latest of them is made up for, unless one is on time anyway; the default
	SkipMissed Misfire = "skip"     // none is made up for
	RunAll     Misfire = "run_all"  // all are made up for, oldest first
)

// ParseMisfire reads the name of a policy; "" is run_once.
func ParseMisfire(name string) (Misfire, error) {
	return choice("misfire", Misfire(name), RunOnce, SkipMissed, RunAll)
}

// Overlap is the policy for a firing while the execution of an earlier one still runs. This package only knows the
// names.
type Overlap string

// Policies for a firing that would overlap.
const (
	OverlapSkip          Overlap = "skip"           // it is dropped; the default
	OverlapQueueOne      Overlap = "queue_one"      // it waits, in place of an earlier waiting one
	OverlapQueueAll      Overlap = "queue_all"      // it waits behind all that wait already
	OverlapCancelRunning Overlap = "cancel_running" // the earlier one is cancelled
	OverlapAllow         Overlap = "allow"          // both run
)

// ParseOverlap reads the name of a policy; "" is skip.
func ParseOverlap(name string) (Overlap, error) {
	return choice("overlap", Overlap(name), OverlapSkip, OverlapQueueOne, OverlapQueueAll, OverlapCancelRunning, OverlapAllow)
}

// choice is value when it is one of the choices, and the first of them when it is "".
func choice[T ~string](field string, value T, choices ...T) (T, error) {
	if problem := oneOf(field, value, choices...); problem != nil {
		return "", problem.invalid()
	}
	if value == "" {
		return choices[0], nil
	}
	return value, nil
}

// Catchup says how Due treats firings that are late.
type Catchup struct {
	Misfire Misfire       // Defaults to run_once
	Window  time.Duration // older firings are not made up for. Defaults to no limit
	Grace   time.Duration // a firing no later than this is on time for any Misfire. Defaults to one minute
	Limit   int           // the most firings to return. Defaults to 1,000
	Runs    int           // how often the schedule has fired, for MaxRuns. Defaults to 0
}

// Due lists the firings due now, oldest first, after last, the latest one dealt with. A zero last means that none
// was missed; for a new or a resumed schedule, last is the moment at which it began.
//
// The newest firing returned is the next last: none comes again, and those cut off by Limit come then. The work is
// bounded by Limit, not by the time that has gone by.
func (s *Schedule) Due(last, now time.Time, c Catchup) []time.Time {
	limit := c.limit(s.spec.MaxRuns)
	if limit <= 0 || !last.Before(now) {
		return nil
	}
	grace := c.Grace
	if grace <= 0 {
		grace = time.Minute
	}
	late := now.Add(-grace).Add(-1) // later firings are on time
	if last.IsZero() || last.After(late) {
		return s.collect(later(last, late), now, limit)
	}
	oldest := last
	if c.Window > 0 {
		oldest = later(last, now.Add(-c.Window).Add(-1))
	}
	if c.Misfire == RunAll {
		return s.collect(earlier(oldest, late), now, limit)
	}
	due := s.collect(late, now, limit)
	if len(due) > 0 || c.Misfire == SkipMissed {
		return due
	}
	if missed, ok := s.Prev(late); ok && missed.After(oldest) {
		return []time.Time{missed}
	}
	return nil
}

func (c Catchup) limit(maxRuns int) int {
	limit := c.Limit
	if limit <= 0 {
		limit = 1000
	}
	if maxRuns > 0 {
		limit = min(limit, maxRuns-c.Runs)
	}
	return limit
}

// collect gives the firings after one moment up to and including another.
func (s *Schedule) collect(after, until time.Time, limit int) []time.Time {
	var found []time.Time
	for len(found) < limit {
		at, ok := s.Next(after)
		if !ok || at.After(until) {
			break
		}
		found = append(found, at)
		after = at
	}
	return found
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
