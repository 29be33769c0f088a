package schedule

import (
	"cmp"
	"math"
	"strings"
	"time"
)

// horizon is how far ahead anything is looked for, in seconds: 41 years.
const horizon = 41 * 366 * daySeconds

const (
	daySeconds = 24 * 60 * 60
	// shift is more than clocks have ever been moved at once, or differ from UTC.
	shift = 2 * daySeconds
	never = math.MaxInt64
)

// wallTimes are times of the clock, counted in seconds as if the clock showed UTC.
type wallTimes interface {
	// next is the first one at or after from, false when there is none within the horizon.
	next(from int64) (int64, bool)
}

// zoned fires at times of the clock in a zone.
type zoned struct {
	times    wallTimes
	zone     *time.Location
	skipped  Skipped  // never empty
	repeated Repeated // never empty
}

// zoned puts times of the clock into the schedule's zone, with its policies or the defaults.
func (s *Schedule) zoned(times wallTimes, everyHour bool) *zoned {
	skipped, repeated := RunAfter, First
	if everyHour {
		skipped, repeated = SkipMissing, Both
	}
	return &zoned{times: times, zone: s.zone, skipped: cmp.Or(s.spec.Skipped, skipped), repeated: cmp.Or(s.spec.Repeated, repeated)}
}

// next walks over the stretches of time with a constant offset. In each the clock covers a range without holes; times
// in two neighbours' ranges were shown twice, and times between the ranges never. It is one loop because the parts
// share all of their state.
func (z *zoned) next(from int64) (int64, bool) {
	for u, begin := from, true; u-from < horizon && u <= latestSecond; begin = false {
		offset, start, end := z.stretch(u)
		before := offset
		if u-start < shift {
			start, before = z.start(u, start, offset)
		}
		if u == start && z.skipped == RunAfter && before < offset {
			if w, ok := z.times.next(start + before); ok && w < start+offset {
				return start, true
			}
		}
		wall := u + offset
		if z.repeated == First && before > offset {
			wall = max(wall, start+before)
		}
		w, ok := z.times.next(wall)
		if ok && z.repeated != Second && w < end+offset {
			return w - offset, true
		}
		after := offset
		if end, after = z.end(u, end, offset); end == never {
			return w - offset, ok
		}
		to := end + offset
		if z.repeated == Second {
			to = min(to, end+after)
		}
		switch {
		case ok && w < to:
			return w - offset, true
		case begin: // earlier times of the clock may come again behind the end
			u = end
		case !ok:
			return 0, false
		default: // nothing of this stretch matches, nor anything before w
			u = max(end, w-shift)
		}
	}
	return 0, false
}

// stretch is the offset from UTC at u and the bounds that the zone's table gives for it. They may
// be narrower than the time for which the offset holds: where only the zone's name changes, and at
// every turn of the year in the part of a table that is written as a rule.
func (z *zoned) stretch(u int64) (offset, start, end int64) {
	t := time.Unix(u, 0).In(z.zone)
	from, to := t.ZoneBounds()
	_, seconds := t.Zone()
	start, end = math.MinInt64/2, never/2 // halves, so that adding an offset does not overflow
	if !from.IsZero() {
		start = from.Unix()
	}
	if !to.IsZero() {
		end = to.Unix()
	}
	return int64(seconds), start, end
}

// start moves a bound back to where the offset began, as long as that is near u, and gives the
// offset before it.
func (z *zoned) start(u, start, offset int64) (begin, before int64) {
	for {
		var earlier int64
		before, earlier, _ = z.stretch(start - 1)
		if before != offset || u-start >= shift || earlier >= start {
			return start, before
		}
		start = earlier
	}
}

// end moves a bound forward to where the offset ends, and gives the offset behind it. A bound that lies
// beyond the horizon may stay where it is.
func (z *zoned) end(u, end, offset int64) (last, after int64) {
	for limit := u + horizon; end < never/2; {
		if end <= u { // the rules at the end of a table lose the last day of leap years
			end = u + daySeconds
		}
		var next int64
		after, _, next = z.stretch(end)
		if after != offset {
			return z.boundary(u, end, offset), after
		}
		if end > limit {
			return end, after
		}
		u, end = end, next
	}
	return never, offset
}

// boundary is the first instant behind u, at most at end, with another offset.
func (z *zoned) boundary(u, end, offset int64) int64 {
	if o, _, _ := z.stretch(end - 1); o == offset {
		return end
	}
	for end-u > 1 {
		middle := u + (end-u)/2
		if o, _, _ := z.stretch(middle); o == offset {
			u = middle
		} else {
			end = middle
		}
	}
	return end
}

// loadZone finds a zone by its IANA name.
func loadZone(name string) (*time.Location, *Error) {
	switch {
	case name == "":
		return time.UTC, nil
	case strings.EqualFold(name, "local") || strings.EqualFold(name, "localtime"):
		return nil, &Error{Field: "zone", Text: name, Message: "is another on every machine",
			Hint: "name the zone, such as Europe/Berlin"}
	case len(name) > 64:
		return nil, &Error{Field: "zone", Text: name, Message: "is too long for the name of a zone",
			Hint: "write it as Area/City, such as Europe/Berlin"}
	}
	if zone, err := time.LoadLocation(name); err == nil {
		return zone, nil
	}
	hint := "write it as Area/City, such as Europe/Berlin"
	if strings.ContainsAny(name, "+0123456789") {
		hint = "name a place, such as Europe/Berlin; a fixed offset of two hours east is Etc/GMT-2"
	}
	for _, spelling := range []string{title(name), strings.ToUpper(name)} {
		if _, err := time.LoadLocation(spelling); err == nil && spelling != name {
			hint = "did you mean " + spelling + "?"
			break
		}
	}
	return nil, &Error{Field: "zone", Text: name, Message: "is not a known time zone", Hint: hint}
}

// title is a name as the IANA list spells most of them: Area/City_Name.
func title(name string) string {
	letters := []byte(strings.ToLower(strings.ReplaceAll(name, " ", "_")))
	for i := range letters {
		if c := letters[i]; c >= 'a' && c <= 'z' && (i == 0 || strings.IndexByte("/_-", letters[i-1]) >= 0) {
			letters[i] = c - 'a' + 'A'
		}
	}
	return string(letters)
}
