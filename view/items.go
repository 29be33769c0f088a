package view

import (
	"strconv"
	"strings"
	"time"

	"github.com/stepwell/stepwell/action"
)

// items is how a stream step is getting on.
type items struct {
	action.Counts
	at   time.Time // of the last measurement
	then int64     // items at that time
	rate float64   // per second, smoothed
}

// rateWindow is the least time between two measurements of the rate.
const rateWindow = 500 * time.Millisecond

func (i *items) measure(c *action.Counts, now time.Time) {
	i.Counts = *c
	n := max(c.In, c.Out)
	switch since := now.Sub(i.at); {
	case i.at.IsZero():
		i.at, i.then = now, n
	case since >= rateWindow:
		rate := float64(n-i.then) / since.Seconds()
		if i.rate > 0 {
			rate = (i.rate + rate) / 2
		}
		i.rate, i.at, i.then = rate, now, n
	}
}

// text is the numbers for people: items in, and what differs from that.
func (i *items) text() string {
	n := max(i.In, i.Out)
	parts := []string{thousands(n) + " items"}
	if i.In > 0 && i.Out > 0 && i.Out != i.In {
		parts = append(parts, thousands(i.Out)+" passed on")
	}
	if i.Failed > 0 {
		parts = append(parts, thousands(i.Failed)+" failed")
	}
	if i.Dropped > 0 {
		parts = append(parts, thousands(i.Dropped)+" dropped")
	}
	if i.Skipped > 0 {
		parts = append(parts, thousands(i.Skipped)+" done before")
	}
	if i.rate >= 1 && n+i.Skipped != i.Total {
		parts = append(parts, thousands(int64(i.rate))+"/s")
	}
	if left := i.Total - n - i.Skipped; i.Total > 0 && left > 0 && i.rate >= 1 {
		parts = append(parts, Short(time.Duration(float64(left)/i.rate*float64(time.Second)))+" left")
	}
	return strings.Join(parts, ", ")
}

// CountsText returns the counts of a stream step that has ended, for people.
func CountsText(c action.Counts) string {
	i := items{Counts: c}
	return i.text()
}

// thousands writes 1234567 as 1,234,567.
func thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	for at := len(s) - 3; at > 0 && s[at-1] != '-'; at -= 3 {
		s = s[:at] + "," + s[at:]
	}
	return s
}
