package action

import (
	"errors"
	"strings"

	"github.com/stepwell/stepwell/expr"
)

// CheckCondition validates a condition in a parameter, before any values are known.
func CheckCondition(value any) error {
	text, ok := value.(string)
	if !ok {
		return nil
	}
	_, err := expr.ParseCondition(text)
	return err
}

// Holds evaluates a condition in a parameter, by the rules of a step's own condition: with or without {{ }}, a literal,
// and false where a name is absent. Extra are names besides those of the step.
func Holds(host Host, value any, extra map[string]any) (bool, error) {
	text, ok := value.(string)
	if !ok {
		return truth(value)
	}
	parsed, err := expr.ParseCondition(text)
	if err != nil {
		return false, err
	}
	if len(parsed.Refs()) == 0 {
		return parsed.EvalBool(expr.Vars{}, expr.Limits{})
	}
	result, err := Evaluate(host, text, extra)
	if e, is := errors.AsType[*expr.Error](err); is && e.Absent {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return truth(result)
}

// Evaluate gives the value of an expression that a parameter holds, with or without {{ }}.
func Evaluate(host Host, text string, extra map[string]any) (any, error) {
	if !Tagged(text) {
		text = "{{ " + text + " }}"
	}
	return host.Eval(text, extra)
}

// Tagged reports whether a text is a template; a bare expression is not.
func Tagged(text string) bool { return strings.Contains(text, "{{") || strings.Contains(text, "{%") }

// truth is the truth of a value in a condition.
func truth(value any) (bool, error) {
	name, err := expr.ParseExpression("value")
	if err != nil {
		return false, err
	}
	return name.EvalBool(expr.Vars{"value": value}, expr.Limits{})
}
