package main

import (
	"cmp"
	"os"
	"slices"
	"strings"
	"time"
)

// clocksVariable says of processes by how much their clocks are off, by the names of their data directories.
const clocksVariable = "STEPWELL_TEST_CLOCKS"

// linesVariable names servers by their data directories, with the address at which each listens and that of the proxy by which all others reach it.
const linesVariable = "STEPWELL_TEST_LINES"

// serverVariable is the address at which commands look for a server that nobody has named.
const serverVariable = "STEPWELL_TEST_SERVER"

// disturbed is the program, with a clock, a line and a default server of its own.
func disturbed() {
	defaultServer = cmp.Or(os.Getenv(serverVariable), defaultServer)
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
