package view

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/api"
)

// WriteExecutions writes a table of executions, a line for each.
func WriteExecutions(w io.Writer, list []api.Execution) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(w, "no executions")
		return err
	}
	rows := make([][]string, len(list))
	narrow := Width(w, wideList) < wideList
	counted := slices.ContainsFunc(list, func(x api.Execution) bool { return x.Warnings > 0 })
	for i := range list {
		x := &list[i]
		status := x.Status
		if x.Held != "" {
			status += " (held)"
		}
		id := x.ID
		if narrow {
			id = id[:min(shortID, len(id))]
		}
		rows[i] = []string{id, OneLine(x.Pipeline, 40), status, x.Created.Local().Format(cellTime), milliseconds(x.DurationMS),
			fmt.Sprintf("%d/%d", x.Progress.Completed, x.Progress.Total), x.TriggerType, OneLine(string(x.TriggeredBy), maxCell)}
		if counted {
			rows[i] = slices.Insert(rows[i], 6, fmt.Sprint(x.Warnings))
		}
	}
	head := []string{"ID", "PIPELINE", "STATUS", "CREATED", "DURATION", "STEPS", "TRIGGER", "BY"}
	if counted {
		head = slices.Insert(head, 6, "WARNINGS")
	}
	return writeRows(w, head, rows)
}

// wideList is the width of a terminal that shows whole ids of executions; on a narrower one they are shortened, as commands take
// them.
const wideList = 120

// WriteExecution shows an execution: a line for each of its facts, a table of its steps, its outputs; as "json", x itself.
// Iterations that completed or are queued are only counted, unless all.
func WriteExecution(w io.Writer, x *api.ExecutionDetail, output string, all bool) error {
	if output == "json" {
		return WriteJSON(w, x)
	}
	by := x.TriggerType
	if x.TriggeredBy != "" {
		by += " by " + OneLine(string(x.TriggeredBy), maxCell)
	}
	fmt.Fprintf(w, "execution  %s\npipeline   %s\nstatus     %s\ncreated    %s, %s\n", x.ID, Printable(x.Pipeline), x.Status, x.Created.Local().Format(cellTime), by)
	for _, line := range []struct{ name, value string }{{"duration", milliseconds(x.DurationMS)}, {"retry of", string(x.Parent)}, {"stored as", string(x.Workflow)}, {"job", string(x.Job)},
		{"tokens", tokensText(x.Usage)}, {"audio", audioText(x.Usage)}, {"cost", costText(x.Cost)}, {"used", resourcesText(x.Used)}, {"late", x.Breached}} {
		if line.value != "" {
			fmt.Fprintf(w, "%-9s  %s\n", line.name, Printable(line.value))
		}
	}
	if text := valueText(x.Params); len(x.Params) > 0 && text != "{}" {
		fmt.Fprintf(w, "params     %s\n", text)
	}
	if x.Error != nil {
		WriteFailure(w, "", "error", x.Error)
	}
	if x.Abandoned > 0 {
		fmt.Fprintf(w, "outside    stopping outside: the work of %d ended steps is still to be stopped\n", x.Abandoned)
	}
	if err := writeSteps(w, x.Steps, all); err != nil {
		return err
	}
	writeOutputs(w, x.Result)
	return nil
}

// WriteStepsAt writes the steps of an execution as they were at a moment.
func WriteStepsAt(w io.Writer, x *api.ExecutionDetail, list *api.StepList, all bool) error {
	fmt.Fprintf(w, "execution  %s\npipeline   %s\nversion    %d, of %s\nstatus     %s\n", x.ID, Printable(x.Pipeline), list.As.Version, list.As.At.Local().Format(cellTime), list.As.Status)
	return writeSteps(w, list.Steps, all)
}

func tokensText(u api.Usage) string {
	if u.InputTokens+u.OutputTokens == 0 {
		return ""
	}
	return fmt.Sprintf("%d read, %d written", u.InputTokens, u.OutputTokens)
}

func audioText(u api.Usage) string {
	if u.AudioSeconds == 0 {
		return ""
	}
	return fmt.Sprintf("%g s", u.AudioSeconds)
}

func costText(m api.Money) string {
	if m == 0 {
		return ""
	}
	text, _ := m.MarshalText() // never fails
	return string(text)
}

// writeSteps is the table of the steps. Iterations that have nothing to tell are only counted.
func writeSteps(w io.Writer, steps []api.Step, all bool) error {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "\nSTEP\tSTATUS\tATTEMPT\tDURATION\t")
	completed, queued := 0, 0
	for i := range steps {
		s := &steps[i]
		switch {
		case !all && iteration(s.ID) && s.Status == stepwell.StepCompleted.String():
			completed++
			continue
		case !all && Unnamed(s.ID):
			queued++
			continue
		}
		attempt := ""
		if s.Attempt > 0 {
			attempt = fmt.Sprint(s.Attempt)
		}
		took := ""
		if !s.Completed.IsZero() {
			took = milliseconds(s.DurationMS)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", OneLine(s.ID, 60), s.Status, attempt, took, remark(s))
		if len(s.Outputs) > 0 {
			fmt.Fprintf(t, "  %s\n", OneLine(string(s.Outputs), 2000))
		}
	}
	if completed > 0 {
		fmt.Fprintf(t, "and %s that completed (--all shows them)\n", plural(completed, "iteration"))
	}
	if queued > 0 {
		fmt.Fprintf(t, "and %s queued and not begun\n", plural(queued, "iteration"))
	}
	return t.Flush()
}

// iteration reports whether a key is that of an iteration, or of a step inside one. Keys of spawned
// steps end with anything after a colon.
func iteration(key string) bool {
	name, _, _ := strings.Cut(key, ":")
	return strings.Contains(name, "[")
}

// Unnamed reports whether a step is known by its number alone: it has been queued, and nothing more.
func Unnamed(key string) bool { return strings.HasPrefix(key, "#") }

// remark is what else there is to say about a step, in one line.
func remark(s *api.Step) string {
	var parts []string
	if s.Until != nil && s.Completed.IsZero() {
		parts = append(parts, "until "+s.Until.Local().Format(cellTime))
	}
	if s.Error != nil {
		text := OneLine(s.Error.Message, 300)
		if s.Error.Hint != "" {
			text += " (" + OneLine(s.Error.Hint, 200) + ")"
		}
		parts = append(parts, text)
	}
	if s.Items != nil {
		parts = append(parts, CountsText(action.Counts{In: s.Items.In, Out: s.Items.Out, Failed: s.Items.Failed, Dropped: s.Items.Dropped, Skipped: s.Items.Skipped}))
	}
	if text := resourcesText(s.Used); text != "" {
		parts = append(parts, text)
	}
	return strings.Join(parts, " ")
}

// resourcesText is what a step has used, as far as it is known.
func resourcesText(r *api.Resources) string {
	if r == nil {
		return ""
	}
	var parts []string
	if r.CPUSeconds > 0 {
		parts = append(parts, fmt.Sprintf("cpu %.3gs", r.CPUSeconds))
	}
	for _, of := range []struct {
		name  string
		bytes int64
	}{{"memory", r.MaxRSS}, {"in", r.BytesIn}, {"out", r.BytesOut}} {
		if of.bytes > 0 {
			parts = append(parts, of.name+" "+Size(of.bytes))
		}
	}
	return strings.Join(parts, ", ")
}

// WritePreview shows what a retry or a restart would do, as three lists of steps: what is repeated, what runs again because of that, and what is kept.
func WritePreview(w io.Writer, a *api.PreviewAnswer) error {
	tries := func(step string) string {
		if n := a.Items[step]; n > 0 {
			return plural(int(n), "failed item")
		}
		return ""
	}
	var repeated, again []string
	for _, step := range a.Repeated {
		if items := tries(step); items != "" {
			step += " (" + items + ")"
		}
		repeated = append(repeated, step)
	}
	for _, step := range a.Again {
		why := "at the end of every execution"
		if step.Because != "" {
			why = "because of " + string(step.Because)
		}
		if items := tries(step.Step); items != "" {
			why = items + ", " + why
		}
		again = append(again, step.Step+" ("+why+")")
	}
	for _, part := range []struct {
		title string
		n     int
		list  []string
	}{{"repeated", a.Counts.Repeated, repeated}, {"again", a.Counts.Again, again}, {"kept", a.Counts.Kept, a.Kept}} {
		if _, err := fmt.Fprintf(w, "%s: %d\n", part.title, part.n); err != nil {
			return err
		}
		for _, line := range part.list {
			fmt.Fprintf(w, "  %s\n", Printable(line))
		}
		if more := part.n - len(part.list); more > 0 {
			fmt.Fprintf(w, "  … and %d more\n", more)
		}
	}
	return nil
}

// NoLogs says that an execution has logged no line, or none that was asked for, and why it failed.
func NoLogs(x *api.ExecutionDetail, some bool) string {
	text := "no lines were logged"
	if some {
		text = "no such lines were logged"
	}
	e := x.Error
	if e == nil {
		return text
	}
	if e.Step == "" {
		return text + "; the execution failed: " + OneLine(e.Message, 2000)
	}
	return text + "; failed at " + Printable(e.Step) + ": " + OneLine(e.Message, 2000)
}

// WriteReasons writes a line for each reason, with the keys of its steps.
func WriteReasons(w io.Writer, reasons []api.Reason) (err error) {
	for _, reason := range reasons {
		_, err = fmt.Fprintln(w, reasonLine(reason))
	}
	return err
}

// reasonLine is a reason with the steps that it does not name itself: one that begins with "steps" speaks of all.
func reasonLine(r api.Reason) string {
	text := OneLine(r.Message, 2000)
	var more []string
	for _, name := range r.Steps {
		if strings.HasPrefix(text, "steps ") || !strings.Contains(text, name) {
			more = append(more, name)
		}
	}
	if len(more) == 0 {
		return text
	}
	return text + ": " + OneLine(strings.Join(more, ", "), 2000)
}

// milliseconds are so many milliseconds for people, "" for none.
func milliseconds(ms *int64) string {
	if ms == nil {
		return ""
	}
	return Short(time.Duration(*ms) * time.Millisecond)
}

// plural writes a number of things: "1 step", "2 steps".
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
