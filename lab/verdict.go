package lab

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/scenario"
	"github.com/stepwell/stepwell/sim"
)

// verdict is what is said of one run.
type verdict struct {
	broken    map[string]string // by rule
	different string            // how the outcome differs; "": not
	person    string            // the step that must not run twice and was cut off; "": none
	deadline  *string           // the step whose time was over, or that a failure stopped, in only one of the runs, "" for the execution; nil: none
	after     []sim.Passage     // the first ones after a death
	twice     []string          // steps of which a call had its effect twice, without iterations
	story     []string
}

// judge compares a run with the undisturbed one.
func judge(ctx context.Context, b *book, s schedule, got, calm *scenario.Played) (*verdict, error) {
	if err := b.close(ctx, got); err != nil {
		return nil, err
	}
	return compare(b, s, got, calm), nil
}

// compare is the verdict on a run whose book is closed.
func compare(b *book, s schedule, got, calm *scenario.Played) *verdict {
	v := &verdict{broken: b.broken, person: cutOff(b, got, calm)}
	if v.person == "" {
		v.different, v.deadline = difference(calm, got)
	}
	if v.different != "" && s.late() {
		if v.deadline = deadline(calm, got); v.deadline != nil {
			v.different = ""
		}
	}
	if calm.Execution.Status.Terminal() && !got.Execution.Status.Terminal() {
		b.breaks(ruleEnds, "the execution is %s when nothing happens any more", got.Execution.Status)
	}
	v.twice = twice(b, got)
	return v
}

// late reports whether a schedule lets deadlines pass earlier or later than undisturbed.
func (s schedule) late() bool {
	return slices.ContainsFunc(s.faults, func(f fault) bool { return slices.Contains([]sim.Fate{sim.Forward, sim.Back}, f.fate) })
}

// deadline is the first step whose time was over in only one of two runs, or that a failure stopped in only one, "" for the execution;
// nil: none.
func deadline(calm, got *scenario.Played) *string {
	for _, key := range calm.Keys {
		if g := got.Steps[key]; g != nil && timedOut(g.Status, g.Error) != timedOut(calm.Steps[key].Status, calm.Steps[key].Error) {
			return &key
		}
	}
	if calm.Execution.Failure != nil { // a failure stops what has not ended by then; iterations may have no row
		for _, key := range slices.Concat(calm.Keys, got.Keys) {
			if c, g := calm.Steps[key], got.Steps[key]; c == nil || g == nil || c.Status != g.Status && (stopped(c.Status) || stopped(g.Status)) {
				return &key
			}
		}
	}
	whole := ""
	if over(got.Execution.Failure) != over(calm.Execution.Failure) {
		return &whole
	}
	return nil
}

func stopped(status stepwell.StepStatus) bool {
	return status == stepwell.StepSkipped || status == stepwell.StepCancelled
}

func timedOut(status stepwell.StepStatus, f *engine.Failure) bool {
	return status == stepwell.StepTimedOut || over(f)
}

func over(f *engine.Failure) bool { return f != nil && f.Code == stepwell.CodeTimeout }

// cutOff is a step that must not run twice and failed because it was cut off, as its definition says.
func cutOff(b *book, got, calm *scenario.Played) string {
	for _, key := range got.Keys {
		s := got.Steps[key]
		if was := calm.Steps[key]; s.Error != nil && s.Error.Code == stepwell.CodeLost && b.once[key] && (was == nil || was.Error == nil || was.Error.Code != stepwell.CodeLost) {
			return iteration.ReplaceAllString(key, "[*]")
		}
	}
	return ""
}

// difference is the first difference between two outcomes: attempts, times and workers may differ. Which of several failures comes first
// is not promised either: where both executions have failed alike, other is the first step that a failure stopped in only one of them.
func difference(want, got *scenario.Played) (found string, other *string) {
	if w, g := want.Execution, got.Execution; w.Status != g.Status {
		return fmt.Sprintf("the execution is %s instead of %s%s", g.Status, w.Status, because(g.Failure)), nil
	}
	var stops map[string]bool
	if want.Execution.Failure != nil && got.Execution.Failure != nil {
		stops, other = stoppedOnce(want, got)
	}
	if found = differences(want, got, stops); found != "" {
		other = nil
	}
	return found, other
}

// stoppedOnce are the steps that a failure stopped in only one of two executions, with the groups and loops around them, and the first.
// Iterations that were stopped may have no row.
func stoppedOnce(want, got *scenario.Played) (stops map[string]bool, first *string) {
	for _, key := range slices.Concat(want.Keys, got.Keys) {
		w, g := want.Steps[key], got.Steps[key]
		if w != nil && g != nil && (w.Status == g.Status || !stopped(w.Status) && !stopped(g.Status)) || stops[key] {
			continue
		}
		if stops == nil {
			stops, first = map[string]bool{}, &key
		}
		for around := key; around != ""; around = around[:max(0, strings.LastIndexAny(around, "[."))] {
			stops[around] = true
		}
	}
	return stops, first
}

// differences is the first difference between the steps of two outcomes but for some, and between what the executions give.
func differences(want, got *scenario.Played, but map[string]bool) string {
	for _, key := range want.Keys {
		if but[key] {
			continue
		}
		w, g := want.Steps[key], got.Steps[key]
		switch {
		case g == nil:
			return "there is no step " + key
		case g.Status != w.Status:
			return fmt.Sprintf("%s is %s instead of %s%s", key, g.Status, w.Status, because(g.Error))
		case flows(want, key):
			if w, g := flowed(w.Outputs), flowed(g.Outputs); w != g {
				return fmt.Sprintf("%v items went through %s instead of %v", g, key, w)
			}
		case !same(g.Output, w.Output, g.Outputs, w.Outputs, got, want):
			return fmt.Sprintf("the outputs of %s are %s instead of %s", key, stepwell.Clip(string(g.Output), 200), stepwell.Clip(string(w.Output), 200))
		}
	}
	for _, key := range got.Keys {
		if want.Steps[key] == nil && !but[key] {
			return "there is a step " + key + " that was not there"
		}
	}
	if w, g := want.Execution, got.Execution; !same(g.Outputs, w.Outputs, got.Outputs, want.Outputs, got, want) {
		return fmt.Sprintf("the outputs are %s instead of %s", stepwell.Clip(string(g.Outputs), 200), stepwell.Clip(string(w.Outputs), 200))
	}
	return treeDifference(want.Tree, got.Tree)
}

// flows reports whether a step handles items of a stream.
func flows(x *scenario.Played, key string) bool {
	s := x.StepOf(key)
	return s != nil && s.Module != ""
}

// flowed is how many items a stream step has done with. The counters that it is the sum of differ where a stream continued from a
// checkpoint, which skips what was done; durations are of the real clock.
func flowed(outputs any) (sum float64) {
	counters, _ := outputs.(map[string]any)
	for _, name := range []string{"items_out", "items_skipped", "items_dropped", "items_failed", "items_resumed"} {
		if n, known := counters[name]; known {
			f, _ := strconv.ParseFloat(fmt.Sprint(n), 64) // it is a number of whatever type
			sum += f
		}
	}
	return sum
}

// same reports whether outputs of two executions are equal but for times and the folders in which they ran: as stored, or opened
// where they are stored elsewhere.
func same(a, b []byte, opened, other any, x, y *scenario.Played) bool {
	if bytes.Equal(a, b) {
		return true
	}
	if engine.IsRef(a) && engine.IsRef(b) {
		var err, wrong error
		a, err = expr.Marshal(opened)
		b, wrong = expr.Marshal(other)
		if err != nil || wrong != nil {
			return false
		}
	}
	if x.Folder != "" && y.Folder != "" {
		a, b = bytes.ReplaceAll(a, []byte(x.Folder), nil), bytes.ReplaceAll(b, []byte(y.Folder), nil)
	}
	return bytes.Equal(scenario.Timestamp.ReplaceAll(a, nil), scenario.Timestamp.ReplaceAll(b, nil))
}

func because(f *engine.Failure) string {
	if f == nil {
		return ""
	}
	return ": " + strings.TrimSpace(f.Step+" "+f.Message)
}

// twice are the steps of which one call began more than once.
func twice(b *book, got *scenario.Played) []string {
	number := make(map[begun]int, len(got.Calls))
	for i := range got.Calls {
		c := &got.Calls[i]
		number[begun{c.Key, c.Epoch}] = c.Number
	}
	type call struct {
		key string
		n   int
	}
	seen := make(map[call]bool, len(b.begun))
	var found []string
	for _, one := range b.begun {
		n, known := number[one]
		if !known {
			continue
		}
		if seen[call{one.key, n}] {
			found = append(found, iteration.ReplaceAllString(one.key, "[*]"))
		}
		seen[call{one.key, n}] = true
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// shows reports whether a run shows what was found in another one.
func (v *verdict) shows(f *Finding) bool {
	switch f.Kind {
	case Broken:
		_, ok := v.broken[f.Rule]
		return ok
	case Different:
		return v.different != ""
	case Twice:
		return slices.Contains(v.twice, f.Step)
	}
	return v.person == f.Step
}

// story are the events of the execution with their times.
func story(ctx context.Context, x *scenario.Played) (lines []string) {
	events, err := x.World.Store.Events(ctx, x.Execution.No, 0, 10_000)
	if err != nil {
		return []string{err.Error()}
	}
	for _, e := range events {
		line := fmt.Sprintf("%-10s %s %s", e.At.Sub(x.Execution.Created), e.StepKey, e.Type)
		if e.StepKey == "" {
			line = fmt.Sprintf("%-10s execution %s", e.At.Sub(x.Execution.Created), e.Type)
		}
		if e.Detail != "" {
			line += ": " + stepwell.Clip(e.Detail, 120)
		}
		lines = append(lines, line)
	}
	return lines
}
