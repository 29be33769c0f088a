package schedule

import (
	"slices"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
)

// TestDue: an hourly schedule whose last firing was at 08:00.
func TestDue(t *testing.T) {
	for _, c := range []struct {
		name  string
		cron  string
		now   string
		c     Catchup
		first string // the oldest one due
		n     int
		last  string // the newest
	}{
		{"nothing yet", "@hourly", "08:59:59", Catchup{}, "", 0, ""},
		{"on the second", "@hourly", "09:00:00", Catchup{}, "09:00", 1, "09:00"},
		{"a little late is on time", "@hourly", "09:00:40", Catchup{Misfire: SkipMissed}, "09:00", 1, "09:00"},
		{"exactly the grace", "@hourly", "09:01:00", Catchup{Misfire: SkipMissed}, "09:00", 1, "09:00"},
		{"past the grace, skip", "@hourly", "09:01:01", Catchup{Misfire: SkipMissed}, "", 0, ""},
		{"past the grace, run_once", "@hourly", "09:01:01", Catchup{}, "09:00", 1, "09:00"},
		{"long away, run_once takes the latest", "@hourly", "20:30:00", Catchup{Misfire: RunOnce}, "20:00", 1, "20:00"},
		{"long away, one is on time anyway", "@hourly", "20:00:10", Catchup{}, "20:00", 1, "20:00"},
		{"long away, run_all", "@hourly", "20:30:00", Catchup{Misfire: RunAll}, "09:00", 12, "20:00"},
		{"run_all within a window", "@hourly", "20:30:00", Catchup{Misfire: RunAll, Window: 3 * time.Hour}, "18:00", 3, "20:00"},
		{"the window's edge counts", "@hourly", "20:30:00", Catchup{Misfire: RunAll, Window: 150 * time.Minute}, "18:00", 3, "20:00"},
		{"run_once, all older than the window", "@hourly", "20:30:00", Catchup{Window: 29 * time.Minute}, "", 0, ""},
		{"a window shorter than the grace", "@hourly", "09:00:40", Catchup{Misfire: RunAll, Window: time.Second}, "09:00", 1, "09:00"},
		{"run_all, limited", "@hourly", "20:30:00", Catchup{Misfire: RunAll, Limit: 5}, "09:00", 5, "13:00"},
		{"two left of max_runs", "@hourly", "20:30:00", Catchup{Misfire: RunAll, Runs: 98}, "09:00", 2, "10:00"},
		{"none left of max_runs", "@hourly", "20:30:00", Catchup{Misfire: RunAll, Runs: 100}, "", 0, ""},
		{"a fast one catches up with its own pace", "*/10 * * * * *", "08:00:35", Catchup{Misfire: SkipMissed}, "08:00:10", 3, "08:00:30"},
		{"a fast one, long away, skip", "* * * * * *", "18:00:00", Catchup{Misfire: SkipMissed, Grace: 3 * time.Second}, "17:59:57", 4, "18:00"},
		{"the clock went back", "@hourly", "07:00:00", Catchup{Misfire: RunAll}, "", 0, ""},
	} {
		clock := func(text string) time.Time {
			at, err := time.Parse("2006-01-02 15:04:05", "2026-05-04 "+(text + ":00")[:8])
			if err != nil {
				t.Fatal(err)
			}
			return at
		}
		s := parse(t, Spec{Cron: c.cron, MaxRuns: 100})
		due := s.Due(clock("08:00"), clock(c.now), c.c)
		if len(due) != c.n || c.n > 0 && (!due[0].Equal(clock(c.first)) || !due[c.n-1].Equal(clock(c.last))) {
			t.Errorf("%s: %v, want %d from %s to %s", c.name, due, c.n, c.first, c.last)
		}
	}
}

// TestDueAfterYears: the work does not grow with the time that has gone by.
func TestDueAfterYears(t *testing.T) {
	s := parse(t, Spec{Cron: "* * * * * *", Zone: "Europe/Berlin"})
	now := date(2026, 5, 4)
	begin := time.Now()
	if due := s.Due(date(1996, 1, 1), now.Add(500), Catchup{Grace: time.Nanosecond}); len(due) != 1 || !due[0].Equal(now) {
		t.Errorf("run_once after 30 years: %v", due)
	}
	if due := s.Due(date(1996, 1, 1), now, Catchup{Misfire: RunAll}); len(due) != 1000 {
		t.Errorf("run_all after 30 years: %d", len(due))
	}
	if d := time.Since(begin); d > 20*time.Second { // a walk through all seconds of 30 years would take minutes
		t.Errorf("took %v", d)
	}
	if due := s.Due(time.Time{}, now, Catchup{Misfire: RunAll, Grace: 5 * time.Second}); len(due) != 6 {
		t.Errorf("with nothing missed: %v", due)
	}
}

func TestPolicyNames(t *testing.T) {
	if m, err := ParseMisfire(""); m != RunOnce || err != nil {
		t.Errorf("%q, %v", m, err)
	}
	if m, err := ParseMisfire("run_all"); m != RunAll || err != nil {
		t.Errorf("%q, %v", m, err)
	}
	if o, err := ParseOverlap(""); o != OverlapSkip || err != nil {
		t.Errorf("%q, %v", o, err)
	}
	for _, name := range []string{"skip", "queue_one", "queue_all", "cancel_running", "allow"} {
		if o, err := ParseOverlap(name); string(o) != name || err != nil {
			t.Errorf("%q, %v", o, err)
		}
	}
	_, err := ParseOverlap("queue")
	if stepwell.CodeOf(err) != stepwell.CodeInvalid || stepwell.HintOf(err) != "did you mean queue_one?" {
		t.Errorf("%v (%s)", err, stepwell.HintOf(err))
	}
}

func TestLimitsOfTime(t *testing.T) {
	s := parse(t, Spec{Cron: "@daily", NotBefore: date(2026, 1, 1).Add(1), NotAfter: date(2026, 1, 4), MaxRuns: 2})
	all := slices.Collect(s.Between(time.Time{}, date(2030, 1, 1)))
	if !slices.Equal(all, []time.Time{date(2026, 1, 2), date(2026, 1, 3), date(2026, 1, 4)}) {
		t.Errorf("between: %v", all)
	}
	if got := s.Preview(date(2026, 1, 1), 0, 10); len(got) != 2 {
		t.Errorf("preview passes max_runs: %v", got)
	}
	if got := s.Preview(date(2026, 1, 1), 1, 10); len(got) != 1 || s.Exhausted(1) || !s.Exhausted(2) {
		t.Errorf("preview passes max_runs: %v", got)
	}
	// A grid begins where the schedule does.
	every := parse(t, Spec{Every: "1h30m", NotBefore: date(2026, 1, 1).Add(17 * time.Minute)})
	if got := every.Preview(date(2025, 1, 1), 0, 2); !got[0].Equal(date(2026, 1, 1).Add(17*time.Minute)) || got[1].Sub(got[0]) != 90*time.Minute {
		t.Errorf("grid: %v", got)
	}
	for _, after := range []time.Time{time.Unix(1<<62, 0), date(9999, 12, 31), date(20000, 1, 1)} {
		for _, spec := range []Spec{{Cron: "* * * * *"}, {Every: "1s"}, {At: "2026-01-01T00:00"}} {
			if at, ok := parse(t, spec).Next(after); ok {
				t.Errorf("%v after %v", at, after)
			}
		}
	}
	for _, after := range []time.Time{{}, time.Unix(-1<<62, 0)} {
		if at, ok := parse(t, Spec{Cron: "* * * * *", Zone: "Europe/Berlin"}).Next(after); !ok || at.Year() != 1 {
			t.Errorf("%v after %v", at, after)
		}
	}
}

func TestBackfill(t *testing.T) {
	s := parse(t, Spec{Cron: "@daily", Zone: "Europe/Berlin"})
	from, to := time.Date(2026, 3, 1, 0, 0, 0, 0, s.Zone()), time.Date(2026, 4, 1, 0, 0, 0, 0, s.Zone())
	if days, err := s.Backfill(from, to, 31); err != nil || len(days) != 31 || !days[0].Equal(from) {
		t.Errorf("%v, %v", days, err)
	}
	if _, err := s.Backfill(from, to, 30); stepwell.CodeOf(err) != stepwell.CodeLimit {
		t.Errorf("over the limit: %v", err)
	}
	if _, err := s.Backfill(to, from, 30); stepwell.CodeOf(err) != stepwell.CodeInvalid {
		t.Errorf("backwards: %v", err)
	}
	if days, err := s.Backfill(from, from, 0); err != nil || len(days) != 0 {
		t.Errorf("empty: %v, %v", days, err)
	}
}

func TestJitter(t *testing.T) {
	s := parse(t, Spec{Cron: "@hourly", Jitter: 10 * time.Minute})
	at := date(2026, 5, 4)
	// The values are part of the contract: another node, or another version, has to find the same.
	for id, want := range map[string]time.Duration{"nightly": 387292151986, "weekly": 390812377689, "": 114272337165} {
		if got := s.Jitter(id, at); got != want {
			t.Errorf("%q: %d, want %d", id, got, want)
		}
	}
	var buckets [10]int
	for i := range 5000 {
		j := s.Jitter("nightly", at.Add(time.Duration(i)*time.Hour))
		if j < 0 || j >= 10*time.Minute {
			t.Fatalf("jitter of %v", j)
		}
		buckets[j/time.Minute]++
	}
	for minute, n := range buckets {
		if n < 400 || n > 600 {
			t.Errorf("minute %d has %d of 5000 firings", minute, n)
		}
	}
	wide := parse(t, Spec{Cron: "* * * * *", Jitter: 24 * time.Hour})
	for i := range 100 {
		if j := wide.Jitter("x", at.Add(time.Duration(i)*time.Minute)); j >= time.Minute {
			t.Errorf("jitter of %v reaches the next firing", j)
		}
	}
	if j := parse(t, Spec{Cron: "* * * * *"}).Jitter("x", at); j != 0 {
		t.Errorf("jitter of %v, want none", j)
	}
}
