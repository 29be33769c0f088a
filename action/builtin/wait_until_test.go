package builtin

import (
	"errors"
	"testing"
	"time"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/actiontest"
)

// until runs the action at a time, and again when the wait is over.
func until(t *testing.T, now, wake string, p params) actiontest.Result {
	t.Helper()
	at := parse(t, now)
	a := action.Action{Spec: waitUntil(time.Now).Spec, Handler: waitUntilHandler{func() time.Time { return at }}}
	first := actiontest.Run(t.Context(), a, actiontest.Call{Params: p})
	if first.Wait == nil || !first.Wait.Resume || !first.Wait.Until.Equal(parse(t, wake)) {
		t.Fatalf("at %s: wait = %+v (%v), want until %s", now, first.Wait, first.Err, wake)
	}
	at = first.Wait.Until.Add(1500 * time.Millisecond)
	return actiontest.Run(t.Context(), a, actiontest.Call{Params: p, State: first.Wait.State})
}

func parse(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestWaitUntil(t *testing.T) {
	const berlin, newYork = "Europe/Berlin", "America/New_York"
	tests := map[string]struct {
		now    string
		params params
		wake   string
	}{
		"hours":                   {"2026-03-01T12:00:00Z", params{"duration_hours": 1.5}, "2026-03-01T13:30:00Z"},
		"a week":                  {"2026-03-01T12:00:00Z", params{"duration_hours": 168}, "2026-03-08T12:00:00Z"},
		"later today":             {"2026-03-01T12:00:00Z", params{"until_time": "18:30"}, "2026-03-01T18:30:00Z"},
		"tomorrow":                {"2026-03-01T12:00:00Z", params{"until_time": "11:59:59"}, "2026-03-02T11:59:59Z"},
		"exactly now":             {"2026-03-01T12:00:00Z", params{"until_time": "12:00"}, "2026-03-02T12:00:00Z"},
		"in a zone":               {"2026-03-01T12:00:00Z", params{"until_time": "18:30", "timezone": berlin}, "2026-03-01T17:30:00Z"},
		"in a zone, next day":     {"2026-03-01T23:30:00Z", params{"until_time": "00:15", "timezone": berlin}, "2026-03-02T23:15:00Z"},
		"date without offset":     {"2026-03-01T12:00:00Z", params{"until_time": "2026-03-02T09:00:00", "timezone": newYork}, "2026-03-02T14:00:00Z"},
		"date, minutes":           {"2026-03-01T12:00:00Z", params{"until_time": "2026-03-02 09:00", "timezone": "UTC"}, "2026-03-02T09:00:00Z"},
		"date with offset":        {"2026-03-01T12:00:00Z", params{"until_time": "2026-03-02T09:00:00+03:00", "timezone": newYork}, "2026-03-02T06:00:00Z"},
		"skipped":                 {"2026-03-28T23:00:00Z", params{"until_time": "02:30", "timezone": berlin}, "2026-03-29T01:00:00Z"}, // 2:00 becomes 3:00
		"skipped, the day after":  {"2026-03-29T01:00:00Z", params{"until_time": "02:30", "timezone": berlin}, "2026-03-30T00:30:00Z"},
		"just before a skip":      {"2026-03-28T23:00:00Z", params{"until_time": "01:59:59", "timezone": berlin}, "2026-03-29T00:59:59Z"},
		"just after a skip":       {"2026-03-28T23:00:00Z", params{"until_time": "03:00", "timezone": berlin}, "2026-03-29T01:00:00Z"},
		"repeated, first":         {"2026-10-24T23:00:00Z", params{"until_time": "02:30", "timezone": berlin}, "2026-10-25T00:30:00Z"},
		"repeated, between":       {"2026-10-25T00:45:00Z", params{"until_time": "02:30", "timezone": berlin}, "2026-10-26T01:30:00Z"},
		"after a repeat":          {"2026-10-24T23:00:00Z", params{"until_time": "03:00", "timezone": berlin}, "2026-10-25T02:00:00Z"},
		"skipped date":            {"2026-03-08T00:00:00Z", params{"until_time": "2026-03-08T02:15:00", "timezone": newYork}, "2026-03-08T07:00:00Z"},
		"half an hour of change":  {"2026-10-03T10:00:00Z", params{"until_time": "02:10", "timezone": "Australia/Lord_Howe"}, "2026-10-03T15:30:00Z"},
		"a day that never was":    {"2011-12-30T09:00:00Z", params{"until_time": "23:00", "timezone": "Pacific/Apia"}, "2011-12-30T10:00:00Z"}, // the 30th was left out
		"offset of a quarter":     {"2026-03-01T12:00:00Z", params{"until_time": "18:00", "timezone": "Asia/Kathmandu"}, "2026-03-01T12:15:00Z"},
		"white space around":      {"2026-03-01T12:00:00Z", params{"until_time": " 18:30 "}, "2026-03-01T18:30:00Z"},
		"clock change in between": {"2026-03-28T12:00:00Z", params{"until_time": "11:00", "timezone": berlin}, "2026-03-29T09:00:00Z"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := until(t, test.now, test.wake, test.params)
			wake, actual := parse(t, test.wake), parse(t, test.wake).Add(1500*time.Millisecond)
			var seconds any = actual.Sub(parse(t, test.now)).Seconds()
			want(t, got, params{"waited": true, "scheduled_wake_time": wake.Format(stamp), "actual_wake_time": actual.Format(stamp), "wait_duration_seconds": seconds})
		})
	}
}

func TestWaitUntilPast(t *testing.T) {
	want(t, run(t, "wait_until", actiontest.Call{Params: params{"until_time": "2026-03-01T11:00:00Z"}}), params{"waited": false,
		"scheduled_wake_time": "2026-03-01T11:00:00.000Z", "actual_wake_time": "2026-03-01T12:00:00.000Z", "wait_duration_seconds": int64(0)})
}

// A timer that rings early, as after a change of the machine's clock, does not end the wait.
func TestWaitUntilEarly(t *testing.T) {
	state := vigil{Start: clock.Add(-time.Hour), Wake: clock.Add(time.Minute)}
	got := run(t, "wait_until", actiontest.Call{Params: params{"duration_hours": 1}, State: state})
	if got.Wait == nil || !got.Wait.Until.Equal(state.Wake) {
		t.Errorf("wait = %+v (%v)", got.Wait, got.Err)
	}
}

func TestWaitUntilRefuses(t *testing.T) {
	for _, test := range []struct {
		params params
		text   string
	}{
		{params{}, "none of duration_hours and until_time"},
		{params{"duration_hours": 1, "until_time": "12:00"}, "both of duration_hours and until_time"},
		{params{"duration_hours": 0.01}, "at least 0.0167"},
		{params{"duration_hours": 169}, "at most 168"},
		{params{"until_time": "25:00"}, "neither a time of day nor a date"},
		{params{"until_time": "tomorrow"}, "neither a time of day nor a date"},
		{params{"until_time": "12:00", "timezone": "Mars/Olympus"}, `no zone "Mars/Olympus"`},
		{params{"until_time": "12:00", "timezone": "Local"}, `no zone "Local"`},
		{params{"until_time": "2026-03-08T12:00:01Z"}, "more than one week away"},
		{params{"until_time": "12:00", "zone": "UTC"}, "zone is unknown"},
	} {
		wantFail(t, run(t, "wait_until", actiontest.Call{Params: test.params}), test.text)
	}
	problems := registry(t).Validate("wait_until", params{"until_time": "soon", "duration_hours": 1, "timezone": "x"})
	if len(problems) != 3 {
		t.Errorf("%d problems, want 3: %v", len(problems), errors.Join(problems...))
	}
}

// Whatever the text, the time is read or refused, and a time of day comes within two days and a bit.
func FuzzWakeTime(f *testing.F) {
	for _, text := range []string{"18:30", "02:30:00", "24:00", "2027-01-31T18:00:00", "2027-01-31 18:00", "2027-01-31T18:00:00+01:00", "", "::", "1:2", "0000-00-00T00:00"} {
		f.Add(text, "Europe/Berlin", int64(1774753200))
	}
	f.Add("02:10", "Australia/Lord_Howe", int64(1791021600))
	f.Add("23:00", "Pacific/Apia", int64(1325235600))
	f.Fuzz(func(t *testing.T, text, zone string, unix int64) {
		now := time.Unix(unix%(1<<33), 0)
		p := params{"until_time": text, "timezone": zone}
		refused := len(waitUntilHandler{}.Validate(p)) > 0
		at, err := wakeTime(p, now)
		if (err != nil) != refused {
			t.Fatalf("%q in %q: %v, but Validate says %v", text, zone, err, refused)
		}
		if err != nil || len(text) > 8 {
			return
		}
		if wait := at.Sub(now); wait <= 0 || wait > 50*time.Hour {
			t.Fatalf("%q in %q: %v after %v", text, zone, wait, now)
		}
	})
}
