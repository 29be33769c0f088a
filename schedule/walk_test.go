package schedule

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the walk must not depend on the machine's zones
)

// zoneNames are all names in the IANA list that Go ships (lib/time/zoneinfo.zip).
//
//go:embed testdata/zones.txt
var zoneNames string

// walked are expressions with their meaning, stated without the parser. The walk calls the function for every minute;
// nothing of the package's code takes part.
var walked = []struct {
	cron  string
	paced bool // in every hour of the day
	fits  func(y, mo, d, h, mi int, w time.Weekday) bool
}{
	{"* * * * *", true, func(y, mo, d, h, mi int, w time.Weekday) bool { return true }},
	{"*/15 * * * *", true, func(y, mo, d, h, mi int, w time.Weekday) bool { return mi%15 == 0 }},
	{"30 * * * *", true, func(y, mo, d, h, mi int, w time.Weekday) bool { return mi == 30 }},
	{"0 * * * 0,5", true, func(y, mo, d, h, mi int, w time.Weekday) bool { return mi == 0 && w%5 == 0 }},
	{"30 2 * * *", false, func(y, mo, d, h, mi int, w time.Weekday) bool { return h == 2 && mi == 30 }},
	{"0 0 * * *", false, func(y, mo, d, h, mi int, w time.Weekday) bool { return h == 0 && mi == 0 }},
	{"0 0 * * FRI", false, func(y, mo, d, h, mi int, w time.Weekday) bool { return h == 0 && mi == 0 && w == 5 }},
	{"59 23 * * SAT", false, func(y, mo, d, h, mi int, w time.Weekday) bool { return h == 23 && mi == 59 && w == 6 }},
	{"*/20 1-3 * * *", false, func(y, mo, d, h, mi int, w time.Weekday) bool { return h >= 1 && h <= 3 && mi%20 == 0 }},
	{"0 */2 * * *", false, func(y, mo, d, h, mi int, w time.Weekday) bool { return h%2 == 0 && mi == 0 }},
	{"45 0-22 * * *", false, func(y, mo, d, h, mi int, w time.Weekday) bool { return h < 23 && mi == 45 }},
	{"* 1,2 * * 7", false, func(y, mo, d, h, mi int, w time.Weekday) bool { return (h == 1 || h == 2) && w == 0 }},
	{"10 2 * * SUNL", false, func(y, mo, d, h, mi int, w time.Weekday) bool {
		return h == 2 && mi == 10 && w == 0 && time.Date(y, time.Month(mo), d+7, 0, 0, 0, 0, time.UTC).Month() != time.Month(mo)
	}},
	{"5 1 1-7 * SUN", false, func(y, mo, d, h, mi int, w time.Weekday) bool { return h == 1 && mi == 5 && (d <= 7 || w == 0) }},
	{"15 2 * * SUN#2", false, func(y, mo, d, h, mi int, w time.Weekday) bool {
		return h == 2 && mi == 15 && w == 0 && d >= 8 && d <= 14
	}},
	{"30 1 L 3,4,10 *", false, func(y, mo, d, h, mi int, w time.Weekday) bool {
		return h == 1 && mi == 30 && (mo == 3 || mo == 4 || mo == 10) && time.Date(y, time.Month(mo), d+1, 0, 0, 0, 0, time.UTC).Day() == 1
	}},
}

var policies = []struct {
	skipped  Skipped
	repeated Repeated
}{{"", ""}, {RunAfter, First}, {RunAfter, Second}, {RunAfter, Both}, {SkipMissing, First}, {SkipMissing, Second}, {SkipMissing, Both}}

// TestWalkEveryTransition compares Next with a walk over every minute around every change of
// clocks in every zone, 2025 to 2027, for all policies.
func TestWalkEveryTransition(t *testing.T) {
	seen, zones, changes := map[string]bool{}, 0, 0
	for name := range strings.Lines(zoneNames) {
		zone, err := time.LoadLocation(strings.TrimSpace(name))
		if err != nil {
			t.Fatal(err)
		}
		zones++
		for _, at := range transitions(zone, time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2028, 1, 1, 0, 0, 0, 0, time.UTC)) {
			_, before := at.Add(-1).Zone()
			_, after := at.Zone()
			if key := fmt.Sprint(at.Unix(), before, after); !seen[key] { // most names share their rules with others
				seen[key] = true
				changes++
				walk(t, zone, at)
			}
		}
	}
	t.Logf("%d zones, %d changes that differ", zones, changes)
	if zones < 590 || changes < 60 {
		t.Errorf("%d zones with %d changes: the list is not whole", zones, changes)
	}
}

// TestWalkFarAhead walks where tables of zones end and their rules go on, with the last days of
// leap years, which those rules get wrong, and around changes of unusual sizes in the past.
func TestWalkFarAhead(t *testing.T) {
	for _, name := range []string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Santiago", "Africa/Cairo", "Antarctica/Troll", "Asia/Kolkata"} {
		zone := mustZone(t, name)
		for _, year := range []int{2040, 2100} {
			walk(t, zone, time.Date(year, 12, 31, 12, 0, 0, 0, zone))
			from := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)
			for _, at := range transitions(zone, from, from.AddDate(1, 0, 0)) {
				walk(t, zone, at)
			}
		}
	}
	for name, year := range map[string]int{"Pacific/Apia": 2011, "America/Sao_Paulo": 2018, "Asia/Beirut": 2022,
		"Asia/Pyongyang": 2018, "America/Caracas": 2016, "Europe/Volgograd": 2020, "Antarctica/Casey": 2020} {
		zone, from := mustZone(t, name), time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)
		for _, at := range transitions(zone, from, from.AddDate(1, 0, 0)) {
			walk(t, zone, at)
		}
	}
}

func mustZone(t testing.TB, name string) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

// transitions finds the instants at which the offset changes, by trying every hour.
func transitions(zone *time.Location, from, to time.Time) []time.Time {
	offset := func(u int64) int { _, o := time.Unix(u, 0).In(zone).Zone(); return o }
	var found []time.Time
	for u := from.Unix(); u < to.Unix(); u += 3600 {
		low, high := u, u+3600
		if offset(low) == offset(high) {
			continue
		}
		for high-low > 1 {
			if m := (low + high) / 2; offset(m) == offset(u) {
				low = m
			} else {
				high = m
			}
		}
		found = append(found, time.Unix(high, 0).In(zone))
	}
	return found
}

// minute is one minute of the walk as the clock shows it.
type minute struct {
	y, mo, d, h, mi int
	w               time.Weekday
	wall            int64 // seconds, as if the clock showed UTC
	seen, again     bool  // the clock showed it before, will show it again
	gap             []minute
}

func wallMinute(wall int64) minute {
	c := time.Unix(wall, 0).UTC()
	return minute{y: c.Year(), mo: int(c.Month()), d: c.Day(), h: c.Hour(), mi: c.Minute(), w: c.Weekday(), wall: wall}
}

// clock lists the minutes of a stretch of time, with the missing ones before each.
func clock(zone *time.Location, from int64, n int) []minute {
	minutes, shown := make([]minute, n), map[int64]int{}
	for i := range minutes {
		at := time.Unix(from+int64(i)*60, 0).In(zone)
		_, offset := at.Zone()
		minutes[i] = wallMinute(at.Unix() + int64(offset))
		if first, ok := shown[minutes[i].wall]; ok {
			minutes[i].seen, minutes[first].again = true, true
		}
		shown[minutes[i].wall] = i
		if i > 0 {
			for wall := minutes[i-1].wall + 60; wall < minutes[i].wall; wall += 60 {
				minutes[i].gap = append(minutes[i].gap, wallMinute(wall))
			}
		}
	}
	return minutes
}

// walk compares all expressions and policies for three days on both sides of an instant.
func walk(t *testing.T, zone *time.Location, at time.Time) {
	t.Helper()
	const side = 3 * 24 * 60
	from := at.Unix() - side*60
	from -= from % 60
	minutes := clock(zone, from, 2*side)
	for _, e := range walked {
		var hits []int // matching minutes, or the first after a gap with a match
		for i, m := range minutes {
			if e.fits(m.y, m.mo, m.d, m.h, m.mi, m.w) || slices.ContainsFunc(m.gap, func(g minute) bool { return e.fits(g.y, g.mo, g.d, g.h, g.mi, g.w) }) {
				hits = append(hits, i)
			}
		}
		for _, p := range policies {
			s, err := Parse(Spec{Cron: e.cron, Zone: zone.String(), Skipped: p.skipped, Repeated: p.repeated})
			if err != nil {
				t.Fatal(err)
			}
			skipped, repeated := p.skipped, p.repeated
			if skipped == "" && e.paced {
				skipped, repeated = SkipMissing, Both
			} else if skipped == "" {
				skipped, repeated = RunAfter, First
			}
			var want []int64
			for _, i := range hits {
				m := minutes[i]
				fits := e.fits(m.y, m.mo, m.d, m.h, m.mi, m.w) && (repeated == Both || repeated == First && !m.seen || repeated == Second && !m.again)
				gap := skipped == RunAfter && slices.ContainsFunc(m.gap, func(g minute) bool { return e.fits(g.y, g.mo, g.d, g.h, g.mi, g.w) })
				if fits || gap {
					want = append(want, from+int64(i)*60)
				}
			}
			compare(t, s, fmt.Sprintf("%s %q %s/%s", zone, e.cron, skipped, repeated), want, from, at.Unix())
		}
	}
}

// compare asks Next from every minute (walkStep) near the change, and from every firing farther away, except for the
// very dense expressions: every two hours.
func compare(t *testing.T, s *Schedule, name string, want []int64, from, change int64) {
	t.Helper()
	const end = 2 * 3 * 24 * 3600
	check := func(after int64) {
		i, _ := slices.BinarySearch(want, after+1)
		next, ok := s.Next(time.Unix(after, 0))
		switch {
		case i < len(want) && (!ok || next.Unix() != want[i]):
			t.Errorf("%s: after %s: %s, want %s", name, show(s, after), next, show(s, want[i]))
		case i == len(want) && ok && next.Unix() < from+end:
			t.Errorf("%s: after %s: %s, want none before %s", name, show(s, after), next, show(s, from+end))
		}
	}
	for after := change - 100*60; after <= change+100*60; after += walkStep {
		check(after)
	}
	last := int64(0)
	for _, w := range want {
		if len(want) < 300 || w-last >= 7200 {
			check(w - 60)
			check(w)
			last = w
		}
	}
}

func show(s *Schedule, u int64) string { return time.Unix(u, 0).In(s.zone).String() }
