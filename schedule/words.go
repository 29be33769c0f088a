package schedule

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// Words says when the schedule fires, in English: "at 09:00 on Monday to Friday, Europe/Berlin".
func (s *Schedule) Words() string {
	switch {
	case s.spec.Every != "":
		body := strings.Trim(s.spec.Every, blank)
		if rest, ok := strings.CutPrefix(strings.ToLower(body), "@every"); ok {
			body = strings.Trim(rest, blank)
		}
		return "every " + body
	case s.spec.At != "":
		return "once, at " + strings.Trim(s.spec.At, blank) + s.zoneWords()
	}
	z, ok := s.rule.(*zoned)
	if !ok {
		return "every " + strings.TrimPrefix(strings.ToLower(strings.Trim(s.spec.Cron, blank)), "@every ")
	}
	c, ok := z.times.(*calendar)
	if !ok {
		return s.spec.Cron
	}
	return c.timeWords() + c.dayWords() + s.zoneWords()
}

func (s *Schedule) zoneWords() string {
	if s.spec.Zone == "" {
		return ", UTC"
	}
	return ", " + s.spec.Zone
}

// timeWords says at which times of a day.
func (c *calendar) timeWords() string {
	minutes, hours := numbers(c.minutes), numbers(c.hours)
	allHours, allMinutes := len(hours) == 24, len(minutes) == 60
	within := ""
	if !allHours {
		within = " in " + plural("hour", hours)
	}
	if c.seconds != 1 {
		text := "every second"
		if list := numbers(c.seconds); len(list) < 60 {
			text = every("second", list, 60)
		}
		if !allMinutes {
			text += " of " + plural("minute", minutes)
		}
		return text + within
	}
	if len(minutes) == 1 && allHours {
		return fmt.Sprintf("every hour at minute %d", minutes[0])
	}
	if len(minutes) == 1 && len(hours) <= 6 {
		var times []string
		for _, h := range hours {
			times = append(times, fmt.Sprintf("%02d:%02d", h, minutes[0]))
		}
		return "at " + join(times, "and")
	}
	return every("minute", minutes, 60) + within
}

// every describes the numbers of a cycle: all, each third, or a list.
func every(unit string, list []int, cycle int) string {
	if len(list) == cycle {
		return "every " + unit
	}
	if len(list) > 1 {
		step := list[1] - list[0]
		regular := list[0] == 0 && step*len(list) == cycle
		for i := 1; i < len(list); i++ {
			regular = regular && list[i]-list[i-1] == step
		}
		if regular {
			return fmt.Sprintf("every %d %ss", step, unit)
		}
	}
	return "at " + plural(unit, list)
}

// dayWords says on which days.
func (c *calendar) dayWords() string {
	d := &c.days
	var dates, weekdays []string
	if list := numbers(uint64(d.dates)); len(list) > 0 && len(list) < 31 {
		dates = append(dates, plural("day", list)+" of the month")
	}
	for _, n := range numbers(uint64(d.fromLast)) {
		if n == 0 {
			dates = append(dates, "the last day of the month")
		} else {
			dates = append(dates, fmt.Sprintf("the day %d before the last one of the month", n))
		}
	}
	for _, n := range numbers(uint64(d.nearest)) {
		dates = append(dates, fmt.Sprintf("the weekday nearest to day %d of the month", n))
	}
	if d.lastWeekday {
		dates = append(dates, "the last weekday of the month")
	}
	if d.weekdays != 0 && d.weekdays&127 != 127 {
		weekdays = append(weekdays, spans(numbers(uint64(d.weekdays&127)), dayName))
	}
	for n, set := range d.nth {
		for _, day := range numbers(uint64(set)) {
			weekdays = append(weekdays, fmt.Sprintf("the %s %s of the month", []string{"", "first", "second", "third", "fourth", "fifth"}[n], dayName(day)))
		}
	}
	for _, day := range numbers(uint64(d.last)) {
		weekdays = append(weekdays, fmt.Sprintf("the last %s of the month", dayName(day)))
	}
	text := ""
	switch both := len(dates) > 0 && len(weekdays) > 0; {
	case both && (d.monthOpen || d.weekOpen):
		text = " on " + join(dates, "and") + ", if that is " + join(weekdays, "or")
	case both:
		text = " on " + join(dates, "and") + ", and on " + join(weekdays, "and")
	case len(dates)+len(weekdays) > 0:
		text = " on " + join(append(dates, weekdays...), "and")
	}
	if months := numbers(c.months); len(months) < 12 {
		text += " in " + spans(months, func(n int) string { return time.Month(n).String() })
	} else if text == "" && !c.everyHour() {
		text = " every day"
	}
	return text
}

func dayName(n int) string { return time.Weekday(n % 7).String() }

// numbers are the bits of a set.
func numbers(set uint64) []int {
	list := make([]int, 0, bits.OnesCount64(set))
	for ; set != 0; set &= set - 1 {
		list = append(list, bits.TrailingZeros64(set))
	}
	return list
}

func plural(unit string, list []int) string {
	if len(list) == 1 {
		return unit + " " + strconv.Itoa(list[0])
	}
	return unit + "s " + spans(list, strconv.Itoa)
}

// spans writes three or more in a row as "9 to 17".
func spans(list []int, name func(int) string) string {
	var words []string
	for at := 0; at < len(list); {
		end := at
		for end+1 < len(list) && list[end+1] == list[end]+1 {
			end++
		}
		if end-at < 2 {
			end = at
			words = append(words, name(list[at]))
		} else {
			words = append(words, name(list[at])+" to "+name(list[end]))
		}
		at = end + 1
	}
	return join(words, "and")
}

func join(words []string, last string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " " + last + " " + words[len(words)-1]
}
