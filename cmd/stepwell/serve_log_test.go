package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell/settings"
)

// Durations have a unit in the lines of the log, also where they are JSON.
func TestServerLogDurations(t *testing.T) {
	for _, format := range []string{"json", "text"} {
		var out bytes.Buffer
		p := &program{err: &out}
		p.serverLog(&settings.Log{Level: "info", Format: format}).Info("ready", "took", 1500*time.Millisecond)
		if !strings.Contains(out.String(), "1.5s") {
			t.Errorf("%s: %s", format, out.String())
		}
	}
}
