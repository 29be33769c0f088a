package definition

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stepwell/stepwell/expr"
)

// eachOutputs are the outputs of a step with for_each.
var eachOutputs = []string{"count", "completed", "failed", "skipped", "results"}

// outputsOf lists the known outputs of a step. open: there may be more; without any, nothing is known.
func (c *checker) outputsOf(step *Step) (names []string, open bool) {
	switch {
	case step.ForEach != nil:
		return eachOutputs, false
	case len(step.Steps) > 0:
		return idsOf(step.Steps), false
	case step.Pipeline != "":
		sub := c.def.Pipelines[step.Pipeline]
		if sub == nil {
			return nil, true
		}
		for i := range sub.Outputs {
			names = append(names, sub.Outputs[i].Name)
		}
		return names, false
	}
	a, err := c.actionNamed(step.Action + step.Module)
	if err != nil || a == nil || len(a.spec.Outputs) == 0 {
		return nil, true
	}
	for i := range a.spec.Outputs {
		names = append(names, a.spec.Outputs[i].Name)
	}
	return append(names, step.Outputs...), a.spec.OpenOutputs
}

// outputRef checks steps.<id>.outputs.<name>: the step has no output of the name. For a step that may have others,
// only a likely misspelling is reported.
func (c *checker) outputRef(step *Step, ref *expr.Ref) (message, hint string, warning bool) {
	name := ref.Path[3]
	names, open := c.outputsOf(step)
	if slices.Contains(names, name) {
		return "", "", false
	}
	if open {
		if hint = c.didYouMean(name, names, ""); hint == "" {
			return "", "", false
		}
		return fmt.Sprintf("the step %q declares no output %q", step.ID, name), hint, true
	}
	hint = "it has none"
	if len(names) > 0 {
		hint = c.didYouMean(name, names, "it gives "+strings.Join(names[:min(len(names), 12)], ", "))
	}
	return fmt.Sprintf("the step %q has no output %q", step.ID, name), hint, ref.Guarded
}

// executionRef checks a reference to the execution.
func (c *checker) executionRef(ref *expr.Ref, src *source) (message, hint string, warning bool) {
	known := []string{"id", "pipeline", "step", "started_at"}
	handler := strings.HasPrefix(src.base, "finally") || strings.HasPrefix(src.base, "on_failure")
	if handler {
		known = append(known, "status", "error")
	}
	if len(ref.Path) < 2 || slices.Contains(known, ref.Path[1]) {
		return "", "", false
	}
	name := ref.Path[1]
	if name == "status" || name == "error" {
		return fmt.Sprintf("execution.%s is known only in the steps of finally and on_failure", name), "", ref.Guarded
	}
	return fmt.Sprintf("the execution has no %q", name), c.didYouMean(name, known, "it has "+strings.Join(known, ", ")), ref.Guarded
}
