package schedule

import (
	"fmt"
	"math/bits"
	"strconv"
	"time"
)

const (
	allDates    = 1<<32 - 2
	allWeekdays = 1<<7 - 1
	workdays    = 1<<6 - 2
	weekend     = 1<<6 | 1
)

// describe says on which days, with a blank before it, or "" when on all.
func (d *days) describe() string {
	dates, week := d.describeDates(), d.describeWeek()
	switch {
	case dates == "" && week == "":
		return ""
	case dates == "" && d.monthOpen:
		return " on " + week
	case week == "" && d.weekOpen:
		return " on " + dates
	case dates == "" || week == "": // one of them lists every day
		return ""
	case d.monthOpen || d.weekOpen:
		return " on " + dates + ", if also on " + week
	}
	return " on " + dates + " and also on " + week
}

// describeDates describes the days of the month, "" for all.
func (d *days) describeDates() string {
	if d.dates == allDates {
		return ""
	}
	var parts []string
	if d.dates != 0 {
		parts = append(parts, "the "+spans(uint64(d.dates), 32, ordinal))
	}
	for set := d.nearest; set != 0; set &= set - 1 {
		parts = append(parts, "the weekday nearest the "+ordinal(bits.TrailingZeros32(set)))
	}
	for set := d.fromLast; set != 0; set &= set - 1 {
		text := "the last day of the month"
		if n := bits.TrailingZeros32(set); n > 0 {
			text = "the day " + plural(n, "day") + " before the last of the month"
		}
		parts = append(parts, text)
	}
	if d.lastWeekday {
		parts = append(parts, "the last weekday of the month")
	}
	return list(parts, "and")
}

// describeWeek describes the days of the week, "" for all.
func (d *days) describeWeek() string {
	var parts []string
	switch d.weekdays {
	case allWeekdays:
		return ""
	case workdays:
		parts = append(parts, "weekdays")
	case weekend:
		parts = append(parts, "weekends")
	case 0:
	default: // a week begins on Monday, Sunday is its seventh day
		parts = append(parts, spans(uint64(d.weekdays)&^1|uint64(d.weekdays&1)<<7, 8, weekdayName))
	}
	for n, which := range []string{"", "first", "second", "third", "fourth", "fifth"} {
		if d.nth[n] != 0 {
			parts = append(parts, fmt.Sprintf("the %s %s of the month", which, spans(uint64(d.nth[n]), 7, weekdayName)))
		}
	}
	if d.last != 0 {
		parts = append(parts, fmt.Sprintf("the last %s of the month", spans(uint64(d.last), 7, weekdayName)))
	}
	return list(parts, "and")
}

func weekdayName(n int) string { return time.Weekday(n % 7).String() }

// ordinal is 1st, 2nd, 3rd …
func ordinal(n int) string {
	suffix := "th"
	if n/10 != 1 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return strconv.Itoa(n) + suffix
}
