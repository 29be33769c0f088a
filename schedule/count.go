package schedule

import (
	"math/bits"
	"time"
)

// Count is how many firings lie after one moment up to and including another, with the first and the last of them. Its
// work grows with the days of the range, not with the firings in it.
func (s *Schedule) Count(after, until time.Time) (n int, first, last time.Time) {
	first, ok := s.Next(after)
	if !ok || first.After(until) {
		return 0, time.Time{}, time.Time{}
	}
	if last, ok = s.Prev(until); !ok {
		last = first
	}
	if grid, is := s.rule.(interval); is {
		return int((last.Unix()-first.Unix())/grid.step) + 1, first, last
	}
	z, is := s.rule.(*zoned)
	if !is {
		return s.countEach(first, last), first, last
	}
	daily, is := z.times.(*calendar)
	if !is {
		return s.countEach(first, last), first, last
	}
	return s.countDays(daily, first, last), first, last
}

// countEach counts from one firing to another, both included, one by one.
func (s *Schedule) countEach(first, last time.Time) int {
	n := 0
	for at, ok := first, true; ok && !at.After(last); at, ok = s.Next(at) {
		n++
	}
	return n
}

// countDays counts from one firing to another, both included: whole days on which clocks do not change at once.
func (s *Schedule) countDays(c *calendar, first, last time.Time) int {
	each := bits.OnesCount64(c.hours) * bits.OnesCount64(c.minutes) * bits.OnesCount64(c.seconds)
	n := 0
	for at := first; !at.After(last); {
		begin := midnight(at, 0)
		end := midnight(at, 1)
		_, offset := begin.Zone()
		_, then := end.Zone()
		if !at.Equal(begin) && !s.firstOf(at, begin) || end.After(last) || end.Sub(begin) != 24*time.Hour || offset != then {
			stop := end.Add(-1)
			if !end.After(at) || stop.After(last) {
				stop = last
			}
			n += s.countEach(at, stop)
		} else if c.on(begin) {
			n += each
		}
		next, ok := s.Next(later(end, at).Add(-1))
		if !end.After(at) {
			next, ok = s.Next(last)
		}
		if !ok {
			break
		}
		at = next
	}
	return n
}

// firstOf reports whether a firing is the first of the day that begins then.
func (s *Schedule) firstOf(at, begin time.Time) bool {
	first, ok := s.Next(begin.Add(-1))
	return ok && first.Equal(at)
}

// midnight begins the day of a moment, or one so many days later.
func midnight(at time.Time, days int) time.Time {
	year, month, day := at.Date()
	return time.Date(year, month, day+days, 0, 0, 0, 0, at.Location())
}

// on reports whether the expression runs on the day of a moment.
func (c *calendar) on(at time.Time) bool {
	year, month, day := at.Date()
	if !c.has(month) {
		return false
	}
	first := time.Date(year, month, 1, 0, 0, 0, 0, time.UTC).Unix() / daySeconds // exact: it is a midnight
	return c.days.in(first, monthLength(year, month))>>day&1 != 0
}
