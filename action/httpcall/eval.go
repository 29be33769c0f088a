package httpcall

import (
	"errors"
	"fmt"
	"strings"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/spec"
)

// scope is the scope of expressions over a response, besides the step's own names. Headers are not redacted: outputs
// may use them on purpose.
func (a *answer) scope() map[string]any {
	headers := map[string]any{}
	for name, values := range a.header {
		headers[strings.ToLower(name)] = strings.Join(values, ", ")
	}
	names := map[string]any{"status": a.status, "headers": headers, "body": a.body, "url": a.url.String()}
	whole := map[string]any{}
	for name, v := range names {
		whole[name] = v
	}
	names["response"] = whole
	return names
}

func undefined(err error) bool {
	e, ok := errors.AsType[*expr.Error](err)
	return ok && e.Code == expr.CodeUndefined
}

// extract makes the named outputs. Outputs without a value are left out, unless required.
func (a *answer) extract(host action.Host, outputs []output, into map[string]any) error {
	if len(outputs) == 0 {
		return nil
	}
	names, fields := a.scope(), make([]spec.Field, len(outputs))
	values := map[string]any{}
	for i, o := range outputs {
		fields[i] = o.field
		v, err := action.Evaluate(host, o.value, names)
		switch {
		case undefined(err):
			continue
		case err != nil:
			return action.Fail(fmt.Errorf("outputs.%s: %w", o.name, err))
		}
		values[o.name] = v
	}
	checker, err := spec.Compile(fields, true)
	if err != nil {
		return action.Fail(fmt.Errorf("outputs: %w", err))
	}
	if wrong := checker.Check(values); len(wrong) > 0 {
		lines := make([]string, len(wrong))
		for i, w := range wrong {
			lines[i] = a.redact.Text(w.Message)
		}
		return a.resultFailure("outputs: " + strings.Join(lines, "; "))
	}
	for name, v := range checker.Apply(values) {
		into[name] = a.redact.Value(v)
	}
	return nil
}

func (a *answer) resultFailure(message string) *outbound.Failure {
	return resultFailure(outbound.KindResult, message)
}
