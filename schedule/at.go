package schedule

import (
	"math"
	"time"
)

// instant fires once, in Unix seconds.
type instant int64

func (i instant) next(from int64) (int64, bool) { return int64(i), from <= int64(i) }

// wallTime is one time of the clock.
type wallTime int64

func (w wallTime) next(from int64) (int64, bool) { return int64(w), from <= int64(w) }

// localOnce fires at one time of the clock: once, or as often as the policies say when clocks change.
type localOnce struct{ *zoned }

func (l localOnce) next(from int64) (int64, bool) {
	at, _ := l.times.next(math.MinInt64)
	return l.zoned.next(max(from, at-2*shift))
}

// localLayouts are the layouts of At without a zone; Go also reads fractions of a second.
var localLayouts = []string{"2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04"}

// parseAt reads an instant or a time of the clock in the schedule's zone.
func (s *Schedule) parseAt(text string) (rule, *Error) {
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04:05Z07:00", "2006-01-02T15:04Z07:00", "2006-01-02 15:04Z07:00"} {
		if t, err := time.Parse(layout, text); err == nil {
			return instant(ceil(t)), s.checkAt(text, ceil(t))
		}
	}
	for _, layout := range localLayouts {
		if t, err := time.Parse(layout, text); err == nil {
			return localOnce{s.zoned(wallTime(ceil(t)), false)}, s.checkAt(text, ceil(t))
		}
	}
	hint := "write 2026-05-01T09:00 for a time in the schedule's zone, or 2026-05-01T09:00:00+02:00"
	if _, err := time.Parse(time.DateOnly, text); err == nil {
		hint = "add the time of the day, as in " + text + "T09:00"
	}
	return nil, &Error{Field: "at", Text: text, Message: "is not a time", Hint: hint}
}

func (s *Schedule) checkAt(text string, at int64) *Error {
	if at < firstSecond+shift || at > latestSecond-shift {
		return &Error{Field: "at", Text: text, Message: "is outside of the years 1 to 9999", Hint: "check the year"}
	}
	return nil
}
