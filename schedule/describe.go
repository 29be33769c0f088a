package schedule

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// Describe says in plain English when the schedule fires: "at 02:30 on weekdays, Europe/Berlin". It
// is for people; its wording may change.
func (s *Schedule) Describe() string {
	var text string
	switch rule := s.rule.(type) {
	case interval:
		text = "every " + rule.String()
	case instant:
		text = "once at " + time.Unix(int64(rule), 0).In(s.zone).Format("2006-01-02 15:04:05 -07:00")
	case localOnce:
		at, _ := rule.times.next(firstSecond)
		text = "once at " + time.Unix(at, 0).UTC().Format("2006-01-02 15:04:05")
	case *zoned:
		text = rule.times.(*calendar).describe()
	}
	text += ", " + s.zone.String()
	if !s.spec.NotBefore.IsZero() {
		text += ", from " + s.spec.NotBefore.In(s.zone).Format(time.RFC3339)
	}
	if !s.spec.NotAfter.IsZero() {
		text += ", until " + s.spec.NotAfter.In(s.zone).Format(time.RFC3339)
	}
	if s.spec.MaxRuns > 0 {
		text += ", at most " + plural(s.spec.MaxRuns, "time")
	}
	return text
}

func (c *calendar) describe() string {
	text, daily := c.describeTime()
	days := c.days.describe()
	if days == "" && daily {
		days = " every day"
	}
	text += days
	if c.months != 0x1ffe {
		text += " in " + spans(c.months, 13, func(m int) string { return time.Month(m).String() })
	}
	return text
}

const (
	allSixty = 1<<60 - 1
	allHours = 1<<24 - 1
)

// describeTime describes the time of the day; daily is false when it names an hourly or faster pace.
func (c *calendar) describeTime() (text string, daily bool) {
	if n := bits.OnesCount64(c.hours) * bits.OnesCount64(c.minutes) * bits.OnesCount64(c.seconds); n <= 4 {
		var times []string
		for at, ok := c.timeOfDay(0); ok && len(times) < n; at, ok = c.timeOfDay(at + 1) {
			times = append(times, clockText(time.Unix(int64(at), 0).UTC()))
			if at == daySeconds-1 {
				break
			}
		}
		return "at " + list(times, "and"), true
	}
	if c.seconds != 1 {
		return c.describeSeconds(), false
	}
	minutes, minuteStep := pace(c.minutes, 60, "minute")
	hours, hourStep := pace(c.hours, 24, "hour")
	oneMinute := bits.OnesCount64(c.minutes) == 1
	switch {
	case c.hours == allHours && minuteStep:
		return minutes, false
	case c.minutes == 1 && hourStep:
		return hours, false
	case oneMinute && hourStep:
		return hours + " at minute " + numbers(c.minutes, 60), false
	case minuteStep:
		return minutes + " in " + hourSpans(c.hours), false
	case c.minutes == 1:
		return "on the hour in " + hourSpans(c.hours), false
	case hourStep:
		return "at minutes " + numbers(c.minutes, 60) + " of " + strings.Replace(hours, "every hour", "each hour", 1), false
	}
	return "at minute" + some(c.minutes) + " " + numbers(c.minutes, 60) + " in " + hourSpans(c.hours), false
}

func (c *calendar) describeSeconds() string {
	text, even := pace(c.seconds, 60, "second")
	if !even {
		text = "at second" + some(c.seconds) + " " + numbers(c.seconds, 60)
	}
	switch minutes, steps := pace(c.minutes, 60, "minute"); {
	case c.minutes == allSixty && even:
	case c.minutes == allSixty:
		text += " of every minute"
	case steps:
		text += " of " + minutes
	default:
		text += " of minute" + some(c.minutes) + " " + numbers(c.minutes, 60)
	}
	if c.hours != allHours {
		return text + " in " + hourSpans(c.hours)
	}
	if _, steps := pace(c.minutes, 60, "minute"); !steps {
		text += " of every hour"
	}
	return text
}

// pace says "every 15 minutes" of a set that divides its whole evenly, from 0 on.
func pace(set uint64, whole int, unit string) (string, bool) {
	if set == 1<<whole-1 {
		return "every " + unit, true
	}
	step := whole / max(bits.OnesCount64(set), 1)
	if step*bits.OnesCount64(set) != whole || step == whole {
		return "", false
	}
	for v := 0; v < whole; v += step {
		if set>>v&1 == 0 {
			return "", false
		}
	}
	return fmt.Sprintf("every %d %ss", step, unit), true
}

// hourSpans says "hour 9", "hours 9 to 17 and 20".
func hourSpans(set uint64) string {
	if set == allHours {
		return "every hour"
	}
	return "hour" + some(set) + " " + numbers(set, 24)
}

func numbers(set uint64, end int) string { return spans(set, end, strconv.Itoa) }

// some is the s of a plural.
func some(set uint64) string {
	if bits.OnesCount64(set) == 1 {
		return ""
	}
	return "s"
}

// spans lists the members of a set, three or more in a row as "a to b".
func spans(set uint64, end int, name func(int) string) string {
	var parts []string
	for v := 0; v < end; v++ {
		if set>>v&1 == 0 {
			continue
		}
		last := v
		for last+1 < end && set>>(last+1)&1 != 0 {
			last++
		}
		if last < v+2 {
			parts = append(parts, name(v))
			continue
		}
		parts = append(parts, name(v)+" to "+name(last))
		v = last
	}
	return list(parts, "and")
}

// list joins parts as English does.
func list(parts []string, word string) string {
	if len(parts) < 2 {
		return strings.Join(parts, "")
	}
	last := len(parts) - 1
	return strings.Join(parts[:last], ", ") + " " + word + " " + parts[last]
}

func plural(n int, unit string) string {
	if n == 1 {
		return "1 " + unit
	}
	return fmt.Sprintf("%d %ss", n, unit)
}
