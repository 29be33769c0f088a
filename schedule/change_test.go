package schedule

import (
	"slices"
	"testing"
	"time"
)

// TestChanges are the mistakes that cron libraries make when clocks change: a day without its
// firing, a day with two, and a week lost because midnight itself is missing.
func TestChanges(t *testing.T) {
	for _, c := range []struct {
		name  string
		spec  Spec
		after string
		want  []string
	}{
		{"a day is skipped", Spec{Cron: "30 2 * * *", Zone: "America/New_York"}, "2026-03-07T00:00:00-05:00",
			[]string{"2026-03-07T02:30:00-05:00", "2026-03-08T03:00:00-04:00", "2026-03-09T02:30:00-04:00"}},
		{"a day runs twice", Spec{Cron: "30 1 * * *", Zone: "America/New_York"}, "2026-10-31T12:00:00-04:00",
			[]string{"2026-11-01T01:30:00-04:00", "2026-11-02T01:30:00-05:00"}},
		{"the second of two", Spec{Cron: "30 1 * * *", Zone: "America/New_York", Repeated: Second}, "2026-10-31T12:00:00-04:00",
			[]string{"2026-11-01T01:30:00-05:00", "2026-11-02T01:30:00-05:00"}},
		{"both of two", Spec{Cron: "30 1 * * *", Zone: "America/New_York", Repeated: Both}, "2026-10-31T12:00:00-04:00",
			[]string{"2026-11-01T01:30:00-04:00", "2026-11-01T01:30:00-05:00", "2026-11-02T01:30:00-05:00"}},
		{"asked between the two", Spec{Cron: "30 1 * * *", Zone: "America/New_York"}, "2026-11-01T01:00:00-05:00",
			[]string{"2026-11-02T01:30:00-05:00"}},
		{"a week is lost: Fridays in Cairo", Spec{Cron: "0 0 * * 5", Zone: "Africa/Cairo"}, "2026-04-18T00:00:00+02:00",
			[]string{"2026-04-24T01:00:00+03:00", "2026-05-01T00:00:00+03:00", "2026-05-08T00:00:00+03:00"}},
		{"daily midnight in Cairo", Spec{Cron: "@daily", Zone: "Africa/Cairo"}, "2026-04-23T00:00:00+02:00",
			[]string{"2026-04-24T01:00:00+03:00", "2026-04-25T00:00:00+03:00"}},
		{"midnight twice in Cairo", Spec{Cron: "59 23 * * *", Zone: "Africa/Cairo"}, "2026-10-29T00:00:00+03:00",
			[]string{"2026-10-29T23:59:00+03:00", "2026-10-30T23:59:00+02:00"}},
		{"weekly, and skipped on purpose", Spec{Cron: "0 0 * * 5", Zone: "Africa/Cairo", Skipped: SkipMissing}, "2026-04-18T00:00:00+02:00",
			[]string{"2026-05-01T00:00:00+03:00"}},
		{"several missing times fire once", Spec{Cron: "*/10 2 * * *", Zone: "Europe/Berlin"}, "2026-03-29T00:00:00+01:00",
			[]string{"2026-03-29T03:00:00+02:00", "2026-03-30T02:00:00+02:00"}},
		{"a missing time meets one that exists", Spec{Cron: "0 2,3 * * *", Zone: "Europe/Berlin"}, "2026-03-29T00:00:00+01:00",
			[]string{"2026-03-29T03:00:00+02:00", "2026-03-30T02:00:00+02:00"}},
		{"an hourly one keeps its pace", Spec{Cron: "30 * * * *", Zone: "Europe/Berlin"}, "2026-03-29T01:00:00+01:00",
			[]string{"2026-03-29T01:30:00+01:00", "2026-03-29T03:30:00+02:00"}},
		{"an hourly one, run_after on purpose", Spec{Cron: "30 * * * *", Zone: "Europe/Berlin", Skipped: RunAfter}, "2026-03-29T01:00:00+01:00",
			[]string{"2026-03-29T01:30:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-29T03:30:00+02:00"}},
		{"a frequent one is not silent for an hour", Spec{Cron: "*/30 * * * *", Zone: "Europe/Berlin"}, "2026-10-25T02:00:00+02:00",
			[]string{"2026-10-25T02:30:00+02:00", "2026-10-25T02:00:00+01:00", "2026-10-25T02:30:00+01:00", "2026-10-25T03:00:00+01:00"}},
		{"half an hour, on Lord Howe", Spec{Cron: "15 2 * * *", Zone: "Australia/Lord_Howe"}, "2026-10-03T12:00:00+10:30",
			[]string{"2026-10-04T02:30:00+11:00", "2026-10-05T02:15:00+11:00"}},
		{"a day that Samoa never had", Spec{Cron: "0 9 * * *", Zone: "Pacific/Apia"}, "2011-12-29T12:00:00-10:00",
			[]string{"2011-12-31T00:00:00+14:00", "2011-12-31T09:00:00+14:00"}},
		{"no drift: an interval counts elapsed time", Spec{Every: "6h", Zone: "Europe/Berlin"}, "2026-03-28T18:00:00+01:00",
			[]string{"2026-03-28T19:00:00+01:00", "2026-03-29T01:00:00+01:00", "2026-03-29T08:00:00+02:00", "2026-03-29T14:00:00+02:00"}},
		{"once, in the gap", Spec{At: "2026-03-29T02:30", Zone: "Europe/Berlin"}, "2000-01-01T00:00:00Z", []string{"2026-03-29T03:00:00+02:00"}},
		{"once, of two", Spec{At: "2026-10-25 02:30:00", Zone: "Europe/Berlin", Repeated: Second}, "2000-01-01T00:00:00Z", []string{"2026-10-25T02:30:00+01:00"}},
		{"once, at an instant", Spec{At: "2026-10-25T02:30:00.001Z", Zone: "Asia/Kolkata"}, "0001-01-01T00:00:00Z", []string{"2026-10-25T08:00:01+05:30"}},
	} {
		s := parse(t, c.spec)
		after, err := time.Parse(time.RFC3339, c.after)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, at := range s.Preview(after, 0, len(c.want)) {
			got = append(got, at.Format(time.RFC3339))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v\nwant %v", c.name, got, c.want)
		}
	}
}

// TestOnceIsOver: after its time, one-time schedules have no next.
func TestOnceIsOver(t *testing.T) {
	for _, text := range []string{"2026-10-25T02:30", "2026-10-25T02:30:00Z"} {
		s := parse(t, Spec{At: text, Zone: "Europe/Berlin"})
		at, ok := s.Next(time.Time{})
		if !ok {
			t.Fatalf("%s never fires", text)
		}
		if next, ok := s.Next(at); ok {
			t.Errorf("%s fires again at %v", text, next)
		}
		if last, ok := s.Prev(date(2030, 1, 1)); !ok || !last.Equal(at) {
			t.Errorf("%s: Prev is %v, %t", text, last, ok)
		}
	}
}

func TestWarningsOfChanges(t *testing.T) {
	for _, c := range []struct {
		spec Spec
		from time.Time
		want []WarningKind
	}{
		{Spec{Cron: "30 2 * * *", Zone: "Europe/Berlin"}, time.Time{}, []WarningKind{WarnSkipped}},
		{Spec{Cron: "30 2 * * *", Zone: "Europe/Berlin", Repeated: Both}, date(2030, 6, 1), []WarningKind{WarnTwice, WarnSkipped}},
		{Spec{Cron: "30 2 * * *", Zone: "Europe/Berlin", Skipped: SkipMissing}, time.Time{}, []WarningKind{WarnSkipped}},
		{Spec{Cron: "30 2 * * *", Zone: "Asia/Kolkata"}, time.Time{}, nil},
		{Spec{Cron: "30 3 * * *", Zone: "Europe/Berlin"}, time.Time{}, nil},
		{Spec{Cron: "*/5 * * * *", Zone: "Europe/Berlin"}, time.Time{}, nil},
		{Spec{Cron: "30 2 * 7 *", Zone: "Europe/Berlin"}, time.Time{}, nil},
		{Spec{Cron: "0 0 * * *", Zone: "Africa/Cairo"}, time.Time{}, []WarningKind{WarnSkipped}},
		{Spec{Cron: "0 0 * * *", Zone: "Africa/Cairo", NotAfter: date(2026, 4, 1)}, time.Time{}, nil},
		{Spec{At: "2040-03-25T02:30", Zone: "Europe/Berlin"}, time.Time{}, []WarningKind{WarnSkipped}},
		{Spec{At: "2040-10-28T02:30", Zone: "Europe/Berlin", Repeated: Both}, time.Time{}, []WarningKind{WarnTwice}},
		{Spec{At: "2026-01-01T02:30"}, date(2027, 1, 1), []WarningKind{WarnNever}},
		{Spec{Every: "1h", Zone: "Europe/Berlin"}, time.Time{}, nil},
	} {
		var got []WarningKind
		for _, w := range parse(t, c.spec).Warnings(c.from) {
			if w.Message == "" || w.Hint == "" {
				t.Errorf("%+v: %+v lacks its text", c.spec, w)
			}
			got = append(got, w.Kind)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v, want %v", c.spec, got, c.want)
		}
	}
}
