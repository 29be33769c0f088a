package view

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
)

// WriteEnd writes how an execution ended, after the time it took: its status and counts in a line, its error, unless it has
// been told, and its outputs.
func WriteEnd(w io.Writer, x *api.ExecutionDetail, took time.Duration, told func(message string) bool) {
	fmt.Fprintf(w, "%s: %s in %s, %s\n", Printable(x.Pipeline), plainStatus(x), Short(took), tally(&x.Progress))
	if f := x.Error; f != nil && x.Status != stepwell.ExecutionCompletedWithFailures.String() && !told(f.Message) {
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

// failure is an error with the steps that have it.
type failure struct {
	api.Failure
	steps []string
}

// WriteFailures writes the errors of steps, each once with the steps that have it, and at most so many; more says that some are
// left out. An error that the step around it repeats is not told for the steps inside. told reports whether a message is among
// those that are written.
func WriteFailures(w io.Writer, steps []api.Step, most int) (told func(message string) bool, more bool) {
	var groups []*failure
	told = func(message string) bool {
		return slices.ContainsFunc(groups, func(f *failure) bool { return strings.HasSuffix(f.Message, message) })
	}
	for i := range steps {
		s := &steps[i]
		f := api.Failure{Message: strings.ReplaceAll(s.Status, "_", " ")}
		if s.Error != nil {
			f = *s.Error
		}
		at := slices.IndexFunc(groups, func(g *failure) bool { return g.Message == f.Message && g.Hint == f.Hint })
		switch around, _, _ := strings.Cut(s.ID, "["); {
		case at >= 0:
			groups[at].steps = append(groups[at].steps, s.ID)
		case around != s.ID && slices.ContainsFunc(groups, func(g *failure) bool { return g.steps[0] == around && strings.HasSuffix(g.Message, f.Message) }):
		default:
			groups = append(groups, &failure{f, []string{s.ID}})
		}
	}
	if more = len(groups) > most; more {
		groups = groups[:most]
	}
	for _, g := range groups {
		WriteFailure(w, markFailed+" ", stepNames(g.steps), &g.Failure)
	}
	return told, more
}

// stepNames are the first of some steps, with how many there are.
func stepNames(steps []string) string {
	const named = 2
	if len(steps) <= named+1 {
		return strings.Join(steps, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(steps[:named], ", "), len(steps)-named)
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
