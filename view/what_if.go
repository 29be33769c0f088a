package view

import (
	"fmt"
	"io"
	"strings"

	"github.com/stepwell/stepwell/api"
)

// WriteWhatIf writes what would come of an assumption.
func WriteWhatIf(w io.Writer, x *api.WhatIf) error {
	status := x.Status
	if x.Was != x.Status {
		status = x.Was + " → " + x.Status
	}
	lines := []string{fmt.Sprintf("what if: %s (from version %d; nothing is done)", OneLine(x.Assumed, 200), x.Version), "execution: " + status}
	if x.Error != nil {
		lines[1] += ": " + OneLine(x.Error.Message, 2000)
	}
	if len(x.Dispatched)+len(x.Changed)+len(x.Stopped) == 0 && x.Was == x.Status {
		lines = append(lines, "nothing would change")
	}
	if n := x.Counts.Dispatched; n > 0 {
		lines = append(lines, fmt.Sprintf("dispatched at once: %d", n))
	}
	for i := range x.Dispatched {
		t := &x.Dispatched[i]
		call := string(t.Params)
		if t.Unknown != "" {
			call = "(" + t.Unknown + ")"
		}
		line := fmt.Sprintf("  %s  %s %s", t.Step, t.Action, OneLine(call, 500))
		if t.Attempt > 1 {
			line = fmt.Sprintf("  %s  attempt %d, %s %s", t.Step, t.Attempt, t.Action, OneLine(call, 500))
		}
		lines = append(lines, line)
	}
	lines = append(lines, moreLine(x.Counts.Dispatched-len(x.Dispatched))...)
	if n := x.Counts.Changed; n > 0 {
		lines = append(lines, fmt.Sprintf("other states: %d", n))
	}
	for i := range x.Changed {
		c := &x.Changed[i]
		line := fmt.Sprintf("  %s  %s", c.Step, c.Status)
		if c.Was != c.Status {
			line = fmt.Sprintf("  %s  %s → %s", c.Step, c.Was, c.Status)
		}
		if len(c.Reasons) > 0 {
			line += ": " + reasonLine(c.Reasons[0])
		}
		lines = append(lines, line)
	}
	lines = append(lines, moreLine(x.Counts.Changed-len(x.Changed))...)
	if len(x.Stopped) > 0 {
		lines = append(lines, "asked to stop: "+strings.Join(x.Stopped, ", "))
	}
	if len(x.Twice) > 0 {
		lines = append(lines, "must not run twice (idempotent: false), and would run again: "+strings.Join(x.Twice, ", "))
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(w, Printable(line)); err != nil {
			return err
		}
	}
	if x.Later == nil {
		return nil
	}
	if _, err := fmt.Fprintln(w, "until the end:"); err != nil {
		return err
	}
	return WritePreview(w, x.Later)
}

func moreLine(n int) []string {
	if n <= 0 {
		return nil
	}
	return []string{fmt.Sprintf("  … and %d more", n)}
}
