package schedule

import (
	"testing"
	"time"
)

func BenchmarkNext(b *testing.B) {
	for _, bench := range []struct {
		name string
		spec Spec
		from time.Time
	}{
		{"minutes", Spec{Cron: "*/5 * * * *", Zone: "Europe/Berlin"}, date(2026, 1, 1)},
		{"weekdays", Spec{Cron: "30 2 * * 1-5", Zone: "Europe/Berlin"}, date(2026, 1, 1)},
		{"weekdaysUTC", Spec{Cron: "30 2 * * 1-5"}, date(2026, 1, 1)},
		{"second", Spec{Cron: "30 2 * * 1-5", Zone: "Europe/Berlin", Repeated: Second}, date(2026, 1, 1)},
		{"beyondTheTable", Spec{Cron: "30 2 * * 1-5", Zone: "Europe/Berlin"}, date(2045, 1, 1)},
		{"monthly", Spec{Cron: "0 0 L * *", Zone: "Europe/Berlin"}, date(2026, 1, 1)},
		{"yearly", Spec{Cron: "@yearly", Zone: "Europe/Berlin"}, date(2026, 1, 1)},
		{"leapDay", Spec{Cron: "0 0 29 2 *", Zone: "Europe/Berlin"}, date(2026, 1, 1)},
		{"never", Spec{Cron: "0 0 31 2 *", Zone: "Europe/Berlin"}, date(2026, 1, 1)},
		{"interval", Spec{Every: "90m", Zone: "Europe/Berlin"}, date(2026, 1, 1)},
	} {
		b.Run(bench.name, func(b *testing.B) {
			s := parse(b, bench.spec)
			at := bench.from
			for b.Loop() {
				next, ok := s.Next(at)
				if at = next; !ok || at.Year() > bench.from.Year()+5 {
					at = bench.from
				}
			}
		})
	}
}

func BenchmarkPrev(b *testing.B) {
	s := parse(b, Spec{Cron: "30 2 * * 1-5", Zone: "Europe/Berlin"})
	for b.Loop() {
		s.Prev(date(2026, 5, 4))
	}
}

func BenchmarkParse(b *testing.B) {
	for b.Loop() {
		if _, err := Parse(Spec{Cron: "*/15 8-18 * * MON-FRI"}); err != nil {
			b.Fatal(err)
		}
	}
}
