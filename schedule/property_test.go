package schedule

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// specs draws schedules of all kinds, in zones with and without changes.
func specs() *rapid.Generator[Spec] {
	names := strings.Fields(zoneNames)
	return rapid.Custom(func(t *rapid.T) Spec {
		spec := Spec{
			Zone:     rapid.SampledFrom(names).Draw(t, "zone"),
			Skipped:  rapid.SampledFrom([]Skipped{"", RunAfter, SkipMissing}).Draw(t, "skipped"),
			Repeated: rapid.SampledFrom([]Repeated{"", First, Second, Both}).Draw(t, "repeated"),
		}
		if rapid.IntRange(0, 9).Draw(t, "kind") == 0 {
			spec.Every = fmt.Sprintf("%dh%dm%ds", rapid.IntRange(0, 50).Draw(t, "h"), rapid.IntRange(0, 99).Draw(t, "m"), rapid.IntRange(1, 99).Draw(t, "s"))
			return spec
		}
		field := func(name string, low, high int, more ...string) string {
			a := rapid.IntRange(low, high).Draw(t, name)
			b := rapid.IntRange(a, high).Draw(t, name)
			step := rapid.IntRange(1, max(1, (high-low)/2)).Draw(t, name)
			return rapid.SampledFrom(append(more, "*", "*", fmt.Sprint(a), fmt.Sprintf("%d-%d", a, b), fmt.Sprintf("%d,%d", a, b), fmt.Sprintf("*/%d", step))).Draw(t, name)
		}
		spec.Cron = strings.Join([]string{field("minute", 0, 59), field("hour", 0, 23), field("date", 1, 31, "L", "L-5", "15W,3", "LW", "?"),
			field("month", 1, 12), field("weekday", 0, 7, "5L", "MON#2", "?")}, " ")
		if rapid.IntRange(0, 4).Draw(t, "seconds") == 0 {
			spec.Cron = field("second", 0, 59) + " " + spec.Cron
		}
		return spec
	})
}

func instants() *rapid.Generator[time.Time] {
	return rapid.Custom(func(t *rapid.T) time.Time {
		low, high := date(1950, 1, 1).Unix(), date(2110, 1, 1).Unix()
		return time.Unix(rapid.Int64Range(low, high).Draw(t, "second"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanosecond"))
	})
}

func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, err := Parse(specs().Draw(t, "spec"))
		if err != nil {
			t.Fatal(err)
		}
		from := instants().Draw(t, "from")
		var fired []time.Time
		for at, ok := s.Next(from); ok && len(fired) < 30; at, ok = s.Next(at) {
			if len(fired) > 0 && !at.After(fired[len(fired)-1]) || !at.After(from) || at.Nanosecond() != 0 {
				t.Fatalf("%v after %v", at, fired)
			}
			fired = append(fired, at)
		}
		if len(fired) < 2 {
			return
		}
		end, last := fired[len(fired)-1], fired[len(fired)-2]
		if got := slices.Collect(s.Between(from.Add(1), end)); !slices.EqualFunc(got, fired[:len(fired)-1], time.Time.Equal) {
			t.Fatalf("Between gives %v, Next %v", got, fired)
		}
		within := rapid.Int64Range(0, end.Unix()-last.Unix()-1).Draw(t, "within")
		now := last.Add(time.Duration(within) * time.Second) // last ≤ now < end
		if prev, ok := s.Prev(now); !ok || !prev.Equal(last) {
			t.Fatalf("Prev of %v is %v, want %v", now, prev, last)
		}
		if next, _ := s.Next(now); !next.Equal(end) {
			t.Fatalf("Next of %v is %v, want %v", now, next, end)
		}
		checkDue(t, s, from, now, fired[:len(fired)-1])
	})
}

// checkDue holds Due against all firings between two moments.
func checkDue(t *rapid.T, s *Schedule, last, now time.Time, fired []time.Time) {
	grace := time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "grace"))
	onTime := slices.DeleteFunc(slices.Clone(fired), func(at time.Time) bool { return now.Sub(at) > grace })
	want := map[Misfire][]time.Time{RunAll: fired, SkipMissed: onTime, RunOnce: onTime}
	if len(onTime) == 0 {
		want[RunOnce] = fired[len(fired)-1:]
	}
	for policy, want := range want {
		if got := s.Due(last, now, Catchup{Misfire: policy, Grace: grace}); !slices.EqualFunc(got, want, time.Time.Equal) {
			t.Fatalf("%s at %v: %v, want %v", policy, now, got, want)
		}
		if again := s.Due(fired[len(fired)-1], now, Catchup{Misfire: policy, Grace: grace}); len(again) != 0 {
			t.Fatalf("%s at %v: %v is due again", policy, now, again)
		}
	}
	// In small portions, run_all gives the same.
	var parts []time.Time
	for {
		due := s.Due(last, now, Catchup{Misfire: RunAll, Limit: 3, Grace: grace})
		if len(due) == 0 {
			break
		}
		parts, last = append(parts, due...), due[len(due)-1]
	}
	if !slices.EqualFunc(parts, fired, time.Time.Equal) {
		t.Fatalf("in portions: %v, want %v", parts, fired)
	}
}

// TestIntervalGrid: in any zone, firings are a whole number of steps apart and from the origin, for any starting
// time, and may be written in several units.
func TestIntervalGrid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		step := rapid.Int64Range(1, 40*daySeconds).Draw(t, "step")
		s, err := Parse(Spec{Every: fmt.Sprintf("%ds", step), Zone: "Europe/Berlin"})
		if err != nil {
			t.Fatal(err)
		}
		from := instants().Draw(t, "from")
		at, ok := s.Next(from)
		if !ok || at.Unix()%step != 0 || !at.After(from) || at.Unix()-step > from.Unix() {
			t.Fatalf("every %ds after %v: %v", step, from, at)
		}
		again, err := Parse(Spec{Every: written(step)})
		if err != nil || again.rule != (interval{step: step}) {
			t.Fatalf("%v, %v", again, err)
		}
	})
}

// written is a number of seconds in the units that intervals have.
func written(step int64) string {
	var b strings.Builder
	for _, unit := range "dhms" {
		if n := step / units[byte(unit)]; n > 0 {
			fmt.Fprintf(&b, "%d%c", n, unit)
			step %= units[byte(unit)]
		}
	}
	return b.String()
}

// Count equals counting one by one, and in a range of years too.
func TestCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, err := Parse(specs().Draw(t, "spec"))
		if err != nil {
			t.Fatal(err)
		}
		after := instants().Draw(t, "after")
		until := after.Add(time.Duration(rapid.Int64Range(0, int64(45*24*time.Hour)).Draw(t, "length")))
		want := s.collect(after, until, 60_000)
		if len(want) == 60_000 {
			return
		}
		n, first, last := s.Count(after, until)
		if n != len(want) || n > 0 && (!first.Equal(want[0]) || !last.Equal(want[n-1])) {
			t.Fatalf("from %v to %v: %d from %v to %v, want %d: %v", after, until, n, first, last, len(want), want[:min(len(want), 5)])
		}
	})
	s, err := Parse(Spec{Cron: "* * * * * *", Zone: "Europe/Berlin"})
	if err != nil {
		t.Fatal(err)
	}
	if n, _, _ := s.Count(date(2020, 1, 1), date(2030, 1, 1)); n != 3653*daySeconds {
		t.Fatalf("ten years of seconds are %d", n)
	}
}
