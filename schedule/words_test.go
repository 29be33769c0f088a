package schedule_test

import (
	"testing"

	"github.com/stepwell/stepwell/schedule"
)

func TestWords(t *testing.T) {
	for _, c := range []struct{ spec, words string }{
		{"0 9 * * 1-5", "at 09:00 on Monday to Friday, UTC"},
		{"*/15 * * * *", "every 15 minutes, UTC"},
		{"* * * * *", "every minute, UTC"},
		{"5 * * * *", "every hour at minute 5, UTC"},
		{"0 0,12 * * *", "at 00:00 and 12:00 every day, UTC"},
		{"*/10 9-17 * * *", "every 10 minutes in hours 9 to 17 every day, UTC"},
		{"5,20 3 * * *", "at minutes 5 and 20 in hour 3 every day, UTC"},
		{"0 6 1,15 * *", "at 06:00 on days 1 and 15 of the month, UTC"},
		{"0 6 L * *", "at 06:00 on the last day of the month, UTC"},
		{"0 6 LW * *", "at 06:00 on the last weekday of the month, UTC"},
		{"0 6 15W * *", "at 06:00 on the weekday nearest to day 15 of the month, UTC"},
		{"0 6 * * 2#2", "at 06:00 on the second Tuesday of the month, UTC"},
		{"0 6 * * 5L", "at 06:00 on the last Friday of the month, UTC"},
		{"0 6 1 * 1", "at 06:00 on day 1 of the month, and on Monday, UTC"},
		{"0 6 * 1-3,7 *", "at 06:00 in January to March and July, UTC"},
		{"30 0 6 * * *", "at second 30 of minute 0 in hour 6 every day, UTC"},
		{"0 0 29 2 *", "at 00:00 on day 29 of the month in February, UTC"},
	} {
		s, err := schedule.Parse(schedule.Spec{Cron: c.spec})
		if err != nil {
			t.Errorf("%s: %v", c.spec, err)
			continue
		}
		if got := s.Words(); got != c.words {
			t.Errorf("%s: %q, want %q", c.spec, got, c.words)
		}
	}
	for want, spec := range map[string]schedule.Spec{
		"every 1h30m": {Every: "@every 1h30m"}, "every 90s": {Every: "90s"},
		"once, at 2026-05-01T09:00, Europe/Berlin": {At: "2026-05-01T09:00", Zone: "Europe/Berlin"},
	} {
		s, err := schedule.Parse(spec)
		if err != nil || s.Words() != want {
			t.Errorf("%+v: %v, want %q", spec, err, want)
		}
	}
}
