package schedule_test

import (
	"fmt"
	"time"

	"github.com/stepwell/stepwell/schedule"
)

func ExampleParse() {
	s, err := schedule.Parse(schedule.Spec{Cron: "30 2 * * *", Zone: "Europe/Berlin"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, at := range s.Preview(time.Date(2026, 3, 28, 0, 0, 0, 0, s.Zone()), 0, 3) {
		fmt.Println(at)
	}
	// Output:
	// 2026-03-28 02:30:00 +0100 CET
	// 2026-03-29 03:00:00 +0200 CEST
	// 2026-03-30 02:30:00 +0200 CEST
}
