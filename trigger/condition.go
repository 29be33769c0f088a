package trigger

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/spec"
)

// eventMembers are those of an event in a condition.
var eventMembers = []string{"id", "type", "source", "key", "time", "data"}

// conditionLimits bound the evaluation of one condition: an event may be compared with those of many triggers.
var conditionLimits = expr.Limits{Ops: 50_000, Bytes: 1 << 20}

// Condition is a condition about an event by the rules of conditions of steps (docs/templates.md), such as
// event.data.p99 > 200. The empty one always holds.
type Condition struct{ when *expr.Template }

// ParseCondition compiles a condition. CodeInvalid, with the place in the text, also for names that no event has.
func ParseCondition(text string) (Condition, error) {
	if strings.TrimSpace(text) == "" {
		return Condition{}, nil
	}
	t, err := expr.ParseCondition(text)
	if err != nil {
		return Condition{}, invalidCondition(err)
	}
	for _, ref := range t.Refs() {
		if err := checkReference(ref); err != nil {
			return Condition{}, err
		}
	}
	return Condition{t}, nil
}

// checkReference refuses what is not there when an event comes.
func checkReference(ref expr.Ref) error {
	name := ref.Path[0]
	switch {
	case name != "event":
		hint := "a condition knows the event only: event.data, event.type, event.source, event.key, event.id and event.time"
		if slices.Contains(eventMembers, name) {
			hint = "write event." + strings.Join(ref.Path, ".")
		}
		return stepwell.Invalid(hint, "condition: %d:%d: there is no %s", ref.Line, ref.Column, stepwell.Clip(name, 60))
	case len(ref.Path) > 1 && !slices.Contains(eventMembers, ref.Path[1]) && !ref.Guarded:
		hint := spec.DidYouMean(ref.Path[1], eventMembers)
		if hint == "" {
			hint = "the members of its data are event.data." + stepwell.Clip(ref.Path[1], 60)
		}
		return stepwell.Invalid(hint, "condition: %d:%d: an event has no %s", ref.Line, ref.Column, stepwell.Clip(ref.Path[1], 60))
	}
	return nil
}

// Holds decides the condition for an event, given as templates see it. A member that the event does not have is an
// error, unless the condition tests it (is defined, default): CodeInvalid.
func (c Condition) Holds(event map[string]any) (bool, error) {
	if c.when == nil {
		return true, nil
	}
	holds, err := c.when.EvalBool(expr.Vars{"event": event}, conditionLimits)
	if err != nil {
		return false, invalidCondition(err)
	}
	return holds, nil
}

// invalidCondition keeps the place and the hint of an error of the expression language.
func invalidCondition(err error) error {
	e, ok := errors.AsType[*expr.Error](err)
	if !ok {
		return stepwell.Invalid("", "condition: %s", err)
	}
	place := ""
	if e.Line > 0 {
		place = fmt.Sprintf("%d:%d: ", e.Line, e.Column)
	}
	return stepwell.Invalid(e.Hint, "condition: %s%s", place, e.Message)
}
