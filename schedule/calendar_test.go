package schedule

import (
	"testing"
	"time"
)

// TestDays puts every day of many years to a plain reading of each expression, with a common and a
// missing leap day (2100) among them.
func TestDays(t *testing.T) {
	end := func(d time.Time) int { return time.Date(d.Year(), d.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day() }
	work := func(d time.Time) bool { return d.Weekday() != time.Saturday && d.Weekday() != time.Sunday }
	nearest := func(d time.Time, target int) bool { // by trying the days around the target in order of distance
		if target > end(d) {
			return false
		}
		for _, by := range []int{0, -1, 1, -2, 2} {
			day := time.Date(d.Year(), d.Month(), target+by, 0, 0, 0, 0, time.UTC)
			if work(day) && day.Month() == d.Month() {
				return day.Equal(d)
			}
		}
		return false
	}
	for cron, fits := range map[string]func(d time.Time) bool{
		"0 0 31 * *":        func(d time.Time) bool { return d.Day() == 31 },
		"0 0 29 2 *":        func(d time.Time) bool { return d.Month() == 2 && d.Day() == 29 },
		"0 0 30,31 */2 *":   func(d time.Time) bool { return d.Month()%2 == 1 && d.Day() >= 30 },
		"0 0 L * *":         func(d time.Time) bool { return d.Day() == end(d) },
		"0 0 L-3 * *":       func(d time.Time) bool { return d.Day() == end(d)-3 },
		"0 0 L-30,L-28 * *": func(d time.Time) bool { return d.Day() == end(d)-30 || d.Day() == end(d)-28 },
		"0 0 1W * *":        func(d time.Time) bool { return nearest(d, 1) },
		"0 0 15W,31W * *":   func(d time.Time) bool { return nearest(d, 15) || nearest(d, 31) },
		"0 0 29W 2 *":       func(d time.Time) bool { return d.Month() == 2 && nearest(d, 29) },
		"0 0 LW * *":        func(d time.Time) bool { return nearest(d, end(d)) },
		"0 0 * * 5L":        func(d time.Time) bool { return d.Weekday() == 5 && d.Day() > end(d)-7 },
		"0 0 * * MON#2":     func(d time.Time) bool { return d.Weekday() == 1 && (d.Day()+6)/7 == 2 },
		"0 0 * * 1#5,SUNL": func(d time.Time) bool {
			return d.Weekday() == 1 && d.Day() >= 29 || d.Weekday() == 0 && d.Day() > end(d)-7
		},
		"0 0 * 2 TUE#5":   func(d time.Time) bool { return d.Month() == 2 && d.Weekday() == 2 && d.Day() == 29 },
		"0 0 13 * FRI":    func(d time.Time) bool { return d.Day() == 13 || d.Weekday() == 5 }, // either
		"0 0 */13 * FRI":  func(d time.Time) bool { return d.Day()%13 == 1 && d.Weekday() == 5 },
		"0 0 1-7 * */6":   func(d time.Time) bool { return d.Day() <= 7 && d.Weekday()%6 == 0 },
		"0 0 L * MON-FRI": func(d time.Time) bool { return d.Day() == end(d) || work(d) },
		"0 0 ? * SAT,SUN": func(d time.Time) bool { return !work(d) },
		"0 0 * * *":       func(d time.Time) bool { return true },
		"0 0 1 1 *":       func(d time.Time) bool { return d.YearDay() == 1 },
	} {
		// In a zone with changes the same days have to come out, Cairo's without midnights among them.
		for _, spec := range []Spec{{}, {Zone: "Europe/Berlin"}, {Zone: "Africa/Cairo"}, {Zone: "America/Santiago", Repeated: Second}} {
			spec.Cron = cron
			checkDays(t, spec, fits)
		}
	}
}

func checkDays(t *testing.T, spec Spec, fits func(d time.Time) bool) {
	t.Helper()
	s := parse(t, spec)
	at, ok := s.Next(time.Date(2023, 12, 31, 12, 0, 0, 0, s.Zone()))
	for day := date(2024, 1, 1); day.Year() < 2112; day = day.AddDate(0, 0, 1) {
		if !fits(day) {
			continue
		}
		if y, m, d := at.Date(); !ok || date(y, int(m), d) != day || at.Hour() > 1 {
			t.Errorf("%+v: %v, want %v", spec, at, day)
			return
		}
		at, ok = s.Next(at)
	}
}

// TestSeconds walks over two hours of seconds around both changes of clocks.
func TestSeconds(t *testing.T) {
	berlin := mustZone(t, "Europe/Berlin")
	for _, change := range []time.Time{time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC), time.Date(2026, 10, 25, 1, 0, 0, 0, time.UTC)} {
		for cron, fits := range map[string]func(c time.Time) bool{
			"*/7 * * * * *":         func(c time.Time) bool { return c.Second()%7 == 0 },
			"59 59,0 * * * *":       func(c time.Time) bool { return c.Second() == 59 && (c.Minute() == 59 || c.Minute() == 0) },
			"30-32 */10 0-23 * * *": func(c time.Time) bool { return c.Second() >= 30 && c.Second() <= 32 && c.Minute()%10 == 0 },
		} {
			s := parse(t, Spec{Cron: cron, Zone: "Europe/Berlin"})
			next, _ := s.Next(change.Add(-2 * time.Hour).Add(-1))
			for at := change.Add(-2 * time.Hour); at.Before(change.Add(2 * time.Hour)); at = at.Add(time.Second) {
				if !fits(at.In(berlin)) {
					continue
				}
				if !next.Equal(at) {
					t.Fatalf("%s: %v, want %v", cron, next, at.In(berlin))
				}
				next, _ = s.Next(next)
			}
		}
	}
}

// TestNeverEndsQuickly: an expression without a day, one whose only time is always in the gap, and a
// range of time without any.
func TestNeverEndsQuickly(t *testing.T) {
	for _, spec := range []Spec{
		{Cron: "0 0 31 2 *"}, {Cron: "0 0 30 2 *", Zone: "Europe/Berlin"}, {Cron: "* * * 31 4,6,9,11 *"}, {Cron: "0 0 31W 2,4 *"},
		{Cron: "30 2 * 3 SUNL", Zone: "Europe/Berlin", Skipped: SkipMissing},
		{At: "2026-03-29T02:30", Zone: "Europe/Berlin", Skipped: SkipMissing},
		{At: "2026-03-29T02:30", NotBefore: date(2027, 1, 1)},
		{Cron: "0 0 1 1 *", NotBefore: date(2026, 2, 1), NotAfter: date(2026, 12, 1)},
	} {
		s := parse(t, spec)
		const calls = 100
		begin := time.Now()
		for range calls {
			if next, ok := s.Next(date(2026, 1, 1)); ok {
				t.Errorf("%+v fires at %v", spec, next)
			}
		}
		if d := time.Since(begin); d > 20*time.Second { // typically 5 to 100 µs a call; an endless search would not end
			t.Errorf("%+v: %d calls took %v", spec, calls, d)
		}
		if w := s.Warnings(date(2026, 1, 1)); len(w) != 1 || w[0].Kind != WarnNever {
			t.Errorf("%+v: warnings %v", spec, w)
		}
	}
}
