package main

import (
	"os"
	"slices"
	"strings"
	"time"
)

// clocksVariable says of processes by how much their clocks are off, by the names of their data directories.
const clocksVariable = "STEPWELL_TEST_CLOCKS"

// shifted is the program, with a clock of its own.
func shifted() {
	for _, pair := range strings.Split(os.Getenv(clocksVariable), ",") {
		name, by, _ := strings.Cut(pair, "=")
		if off, err := time.ParseDuration(by); err == nil && slices.Contains(os.Args, name) {
			clock = func() time.Time { return time.Now().Add(off) }
		}
	}
	main()
}
