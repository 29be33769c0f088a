package main

import (
	"os"
	"slices"
	"strings"
	"time"
)

// clocksVariable says of processes by how much their clocks are off, by the names of their data directories.
const clocksVariable = "STEPWELL_TEST_CLOCKS"

// linesVariable names servers by their data directories, with the address at which each listens and that of the proxy by which all others reach it.
const linesVariable = "STEPWELL_TEST_LINES"

// disturbed is the program, with a clock and a line of its own.
func disturbed() {
	for name, by := range pairs(clocksVariable) {
		if off, err := time.ParseDuration(by); err == nil && slices.Contains(os.Args, name) {
			clock = func() time.Time { return time.Now().Add(off) }
		}
	}
	for name, line := range pairs(linesVariable) {
		address, proxy, _ := strings.Cut(line, "=")
		switch i := slices.Index(os.Args, "--listen"); {
		case slices.Contains(os.Args, name):
			os.Args[i+1] = address
			os.Args = append(os.Args, "--advertise", "http://"+proxy)
		case i < 0: // a worker
			for i := range os.Args {
				os.Args[i] = strings.ReplaceAll(os.Args[i], address, proxy)
			}
		}
	}
	main()
}

// pairs are those of a variable: name=value,name=value.
func pairs(variable string) map[string]string {
	all := map[string]string{}
	for _, pair := range strings.Split(os.Getenv(variable), ",") {
		if name, value, ok := strings.Cut(pair, "="); ok {
			all[name] = value
		}
	}
	return all
}
