package schedule

import (
	"math/bits"
	"time"
)

// calendar is a compiled cron expression. Bit n of a set stands for the value n.
type calendar struct {
	seconds, minutes, hours, months uint64
	days                            days
}

// days are the two day fields of an expression.
type days struct {
	monthOpen, weekOpen bool   // the field begins with * or ?: a day has to fit both
	dates               uint32 // days of the month
	fromLast            uint32 // days before the last one
	nearest             uint32 // the weekday nearest to this date
	lastWeekday         bool
	weekdays            uint8
	nth                 [6]uint8 // the weekdays of which the 1st … 5th one of the month counts
	last                uint8    // the weekdays of which the last one of the month counts
}

// everyHour reports whether the expression runs in all hours of the day.
func (c *calendar) everyHour() bool { return c.hours == 1<<24-1 }

// next implements wallTimes. It looks at single days only in months that have one.
func (c *calendar) next(from int64) (int64, bool) {
	t := time.Unix(from, 0).UTC()
	year, month, day := t.Date()
	second := t.Hour()*3600 + t.Minute()*60 + t.Second()
	midnight := from - int64(second)
	first := midnight/daySeconds - int64(day-1) // days since 1970 of the first of the month
	length := monthLength(year, month)
	if c.has(month) && c.days.in(first, length)>>day&1 != 0 {
		if at, ok := c.timeOfDay(second); ok {
			return midnight + int64(at), true
		}
	}
	earliest, _ := c.timeOfDay(0)
	for day++; year-t.Year() <= 41; day = 1 {
		if c.has(month) {
			if left := c.days.in(first, length) >> day << day; left != 0 {
				found := first + int64(bits.TrailingZeros32(left)) - 1
				return found*daySeconds + int64(earliest), true
			}
		}
		first += int64(length)
		if month++; month > 12 {
			year, month = year+1, 1
		}
		length = monthLength(year, month)
	}
	return 0, false
}

func (c *calendar) has(month time.Month) bool { return c.months>>month&1 != 0 }

// timeOfDay is the first second of the day, at or after the given one, that fits.
func (c *calendar) timeOfDay(from int) (int, bool) {
	hour, minute, second := from/3600, from/60%60, from%60
	if c.hours>>hour&1 != 0 {
		if c.minutes>>minute&1 != 0 {
			if s := atOrAfter(c.seconds, second); s < 64 {
				return hour*3600 + minute*60 + s, true
			}
		}
		if m := atOrAfter(c.minutes, minute+1); m < 64 {
			return hour*3600 + m*60 + atOrAfter(c.seconds, 0), true
		}
	}
	h := atOrAfter(c.hours, hour+1)
	if h == 64 {
		return 0, false
	}
	return h*3600 + atOrAfter(c.minutes, 0)*60 + atOrAfter(c.seconds, 0), true
}

// atOrAfter is the smallest member that is at least n, 64 when there is none.
func atOrAfter(set uint64, n int) int { return bits.TrailingZeros64(set >> n << n) }

// in is the set of days of a month that fit, given its first day, in days since 1970, and length.
func (d *days) in(first int64, length int) uint32 {
	whole := uint32(1)<<(length+1) - 2
	weekday := int((first%7 + 4 + 7) % 7) // 1970 began on a Thursday
	date := d.dates
	for set := d.fromLast; set != 0; set &= set - 1 {
		if back := bits.TrailingZeros32(set); back < length {
			date |= 1 << (length - back)
		}
	}
	for set := d.nearest; set != 0; set &= set - 1 {
		date |= nearestWeekday(bits.TrailingZeros32(set), weekday, length)
	}
	if d.lastWeekday {
		date |= nearestWeekday(length, weekday, length)
	}
	week := spread(d.weekdays, weekday)
	for n := 1; n <= 5; n++ {
		week |= spread(d.nth[n], weekday) & (0x7f << (7*n - 6))
	}
	week |= spread(d.last, weekday) & (0x7f << (length - 6))
	if d.monthOpen || d.weekOpen {
		return date & week & whole
	}
	return (date | week) & whole
}

// spread is the set of days of a month that are one of the weekdays, given the weekday of the 1st.
func spread(weekdays uint8, first int) uint32 {
	if weekdays == 0 {
		return 0
	}
	w := uint32(weekdays)
	week := (w>>first | w<<(7-first)) & 0x7f // bit 0 is the 1st
	return (week | week<<7 | week<<14 | week<<21 | week<<28) << 1
}

// nearestWeekday is the day from Monday to Friday nearest to a date, in the same month; none when
// the month has no such date.
func nearestWeekday(date, first, length int) uint32 {
	if date > length {
		return 0
	}
	switch (first + date - 1) % 7 {
	case int(time.Saturday):
		if date == 1 {
			return 1 << 3
		}
		return 1 << (date - 1)
	case int(time.Sunday):
		if date == length {
			return 1 << (date - 2)
		}
		return 1 << (date + 1)
	}
	return 1 << date
}

func monthLength(year int, month time.Month) int {
	switch month {
	case time.February:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	case time.April, time.June, time.September, time.November:
		return 30
	}
	return 31
}
