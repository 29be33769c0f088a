package schedule

import (
	"fmt"
	"math"
	"time"
)

// Warning is a property of a schedule that its author may not have meant.
type Warning struct {
	Kind    WarningKind
	Message string
	Hint    string
}

// WarningKind is the subject of a Warning.
type WarningKind string

// The kinds of warnings.
const (
	WarnNever   WarningKind = "never"   // it does not fire at all
	WarnSkipped WarningKind = "skipped" // a firing falls into a gap when clocks go forward
	WarnTwice   WarningKind = "twice"   // a firing comes twice when clocks go back
)

// Warnings checks the year and a month after a moment: does the schedule ever fire again, and how do changes of
// clocks affect it? Each kind comes at most once, with the first occasion. A zero from means 2026, for callers
// without a clock.
func (s *Schedule) Warnings(from time.Time) []Warning {
	sample := from.IsZero()
	if sample {
		from = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	if never, ok := s.neverFires(from, sample); ok {
		return []Warning{never}
	}
	var z *zoned
	switch rule := s.rule.(type) {
	case *zoned:
		z = rule
	case localOnce:
		z = rule.zoned
		if sample {
			at, _ := z.times.next(math.MinInt64)
			from = time.Unix(at-3*shift, 0)
		}
	default:
		return nil
	}
	var warnings []Warning
	seen := map[WarningKind]bool{}
	for u, until := max(from.Unix(), s.first), from.AddDate(1, 1, 0).Unix(); u < until; {
		offset, start, end := z.stretch(u)
		begin, _ := z.start(u, start, offset)
		end, after := z.end(u, end, offset)
		if end >= min(until, s.latest) {
			break
		}
		if w, ok := z.warn(begin, end, offset, after); ok && !seen[w.Kind] {
			seen[w.Kind] = true
			warnings = append(warnings, w)
		}
		u = end
	}
	return warnings
}

func (s *Schedule) neverFires(from time.Time, sample bool) (Warning, bool) {
	const hint = "check the expression, not_before and not_after"
	if z, ok := s.rule.(*zoned); ok {
		if c, ok := z.times.(*calendar); ok {
			if _, ok := c.next(from.Unix()); !ok {
				return Warning{WarnNever, "never fires: no month that it names has such a day",
					"April, June, September and November have 30 days, February 28 or 29"}, true
			}
		}
	}
	if sample {
		from = time.Time{}
	}
	_, ok := s.Next(from)
	switch {
	case ok:
		return Warning{}, false
	case sample:
		return Warning{WarnNever, "never fires", hint}, true
	}
	return Warning{WarnNever, "does not fire after " + from.In(s.zone).Format(time.RFC3339), hint}, true
}

// warn describes the effect on firings of a change from one offset to another.
func (z *zoned) warn(begin, end, offset, after int64) (Warning, bool) {
	low, high := end+min(offset, after), end+max(offset, after)
	at, ok := z.times.next(low)
	if !ok || at >= high || at < begin+offset {
		return Warning{}, false
	}
	clock, change := time.Unix(at, 0).UTC(), time.Unix(end, 0).In(z.zone)
	day := clock.Format("2006-01-02")
	c, isCron := z.times.(*calendar)
	switch paced := isCron && c.everyHour(); {
	case offset > after && z.repeated == Both && !paced:
		return Warning{WarnTwice, fmt.Sprintf("fires twice on %s: clocks go back, and %s comes twice", day, clockText(clock)),
			"choose repeated: first or second"}, true
	case offset < after && z.skipped == RunAfter:
		return Warning{WarnSkipped, fmt.Sprintf("on %s clocks go forward and there is no %s: fires at %s instead", day, clockText(clock), clockText(change)),
			"choose a time outside of the change, or another zone, if that matters"}, true
	case offset < after && !paced:
		return Warning{WarnSkipped, fmt.Sprintf("does not fire at %s on %s: clocks go forward, and there is no such time", clockText(clock), day),
			"choose skipped: run_after to have it run right after the change"}, true
	}
	return Warning{}, false
}

// clockText leaves out seconds that are 0.
func clockText(t time.Time) string {
	if t.Second() == 0 {
		return t.Format("15:04")
	}
	return t.Format("15:04:05")
}
