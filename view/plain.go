package view

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/stepwell/stepwell"
)

// plainView writes one timestamped line per event, for files, pipes and CI systems.
type plainView struct{ out io.Writer }

func (v *plainView) show(e *Event) {
	if text := sentence(e); text != "" {
		v.line(e.At, word(e), text)
	}
}

func (v *plainView) say(text string) { v.line(time.Now(), "stepwell", text) }
func (v *plainView) close()          {}

func (v *plainView) line(at time.Time, what, text string) {
	fmt.Fprintf(v.out, "%s %-9s %s\n", at.Format("15:04:05.000"), what, text)
}

// word is what happened, in one word.
func word(e *Event) string {
	switch {
	case e.Type == "execution":
		return "execution"
	case e.Type == "log" && e.Level != "info":
		return e.Level
	case e.Type == "log":
		return "log"
	case e.State == stepwell.StepTimedOut:
		return "timed out"
	}
	return e.Status
}

// sentence is the rest of it; "" for what need not be said: that one of many steps has started.
func sentence(e *Event) string {
	const longest = 2000
	switch {
	case e.Type == "execution":
		return e.Execution + " is " + e.Status
	case e.Type == "log":
		return e.Step + ": " + OneLine(e.Message, longest) + Attributes(e.Attrs)
	case e.Status == "started" && e.child:
		return ""
	case e.Status == "started" && e.Attempt > 1:
		return fmt.Sprintf("%s, attempt %d", e.Step, e.Attempt)
	case e.State == stepwell.StepRetrying:
		return fmt.Sprintf("%s: attempt %d: %s%s", e.Step, e.Attempt, OneLine(e.Message, longest), again(e))
	case e.State == stepwell.StepWaiting && e.Wake == nil:
		return e.Step
	case e.State == stepwell.StepWaiting:
		return fmt.Sprintf("%s until %s", e.Step, e.Wake.Local().Format(cellTime))
	}
	text := e.Step
	if e.State == stepwell.StepCompleted && e.Duration != nil {
		text += " in " + Short(time.Duration(*e.Duration)*time.Millisecond)
	}
	if e.Message != "" {
		text += ": " + OneLine(e.Message, longest)
	}
	if e.Hint != "" {
		text += " (" + OneLine(e.Hint, longest) + ")"
	}
	return text
}

// again is when a step is tried again, "" when that is not known.
func again(e *Event) string {
	if e.Wake == nil {
		return ""
	}
	return "; again in " + Short(max(0, e.Wake.Sub(e.At)))
}

// Attributes returns a log line's metadata as name=value, by name. Which of its streams a program wrote
// to is left out: it would be on every line.
func Attributes(raw json.RawMessage) string {
	var attrs map[string]json.RawMessage
	if len(raw) == 0 || json.Unmarshal(raw, &attrs) != nil {
		return ""
	}
	text := ""
	for _, name := range slices.Sorted(maps.Keys(attrs)) {
		if name != "stream" {
			text += " " + name + "=" + string(attrs[name])
		}
	}
	if text != "" {
		text = " " + OneLine(text, 1000)
	}
	return text
}

// Short writes a duration for people: three digits at most.
func Short(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.2fs", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
}

// jsonView writes one JSON object per line.
type jsonView struct{ enc *json.Encoder }

// NewEncoder returns an encoder that writes a line for each value, and < > & as they are.
func NewEncoder(out io.Writer) *json.Encoder {
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	return enc
}

func (v *jsonView) show(e *Event) {
	shown := *e
	shown.At = e.At.UTC().Truncate(time.Millisecond)
	_ = v.enc.Encode(shown) // an output that fails does so for the summary too, which is reported
}

func (v *jsonView) say(text string) {
	v.show(&Event{At: time.Now(), Type: "note", Message: text})
}

func (v *jsonView) close() {}
