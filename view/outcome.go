package view

import (
	"encoding/json"
	"fmt"
	"io"
	"sort"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
)

// WriteEnd writes how an execution ended, after the time it took: its status and counts in a line, its error and its outputs.
func WriteEnd(w io.Writer, x *api.ExecutionDetail, took time.Duration) {
	fmt.Fprintf(w, "%s: %s in %s, %s\n", Printable(x.Pipeline), plainStatus(x), Short(took), tally(&x.Progress))
	if f := x.Error; f != nil && x.Status != stepwell.ExecutionCompletedWithFailures.String() {
		WriteFailure(w, "  ", "because", f)
	}
	writeOutputs(w, x.Result)
}

func plainStatus(x *api.ExecutionDetail) string {
	if x.Completed.IsZero() {
		return "unfinished (" + x.Status + ")"
	}
	return strings.ReplaceAll(x.Status, "_", " ")
}

// tally is the counts of a progress that are not zero.
func tally(p *api.Progress) string {
	parts := []string{fmt.Sprintf("%d of %d steps completed", p.Completed, p.Total)}
	for _, part := range []struct {
		n    int
		what string
	}{{p.Failed, "failed"}, {p.Skipped, "skipped"}, {p.Cancelled, "cancelled"}} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.what))
		}
	}
	return strings.Join(parts, ", ")
}

// WriteFailure writes an error with its hint, cut to 12 lines.
func WriteFailure(w io.Writer, indent, what string, f *api.Failure) {
	lines := strings.Split(strings.TrimSpace(Printable(f.Message)), "\n")
	const most = 12
	if len(lines) > most {
		lines = append(lines[:most], "…")
	}
	fmt.Fprintf(w, "%s%s: %s\n", indent, Printable(what), strings.Join(lines, "\n    "))
	if f.Hint != "" {
		fmt.Fprintf(w, "    hint: %s\n", Printable(f.Hint))
	}
}

// writeOutputs shows outputs for people: one line for each, and large values cut.
func writeOutputs(w io.Writer, raw json.RawMessage) {
	var outputs map[string]json.RawMessage
	if len(raw) == 0 || json.Unmarshal(raw, &outputs) != nil || len(outputs) == 0 {
		return
	}
	names := make([]string, 0, len(outputs))
	width := 0
	for name := range outputs {
		names = append(names, name)
		width = max(width, len(name))
	}
	sort.Strings(names)
	fmt.Fprintln(w, "outputs:")
	for _, name := range names {
		fmt.Fprintf(w, "  %-*s  %s\n", width, Printable(name), valueText(outputs[name]))
	}
}

// valueText is a value for people: a text without quotes, anything else as JSON.
func valueText(raw json.RawMessage) string {
	const longest = 500
	var text string
	if json.Unmarshal(raw, &text) == nil && string(raw) != "null" {
		return OneLine(text, longest)
	}
	return OneLine(string(raw), longest)
}
