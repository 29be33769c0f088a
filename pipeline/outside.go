package pipeline

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/expr"
)

// Outside is data that a trigger brings: a webhook's payload, an event, the params of a start by hand. None of it is ever
// evaluated as a template, and none of it replaces a value that the author of the trigger wrote.
type Outside struct {
	// Values reach the parameters of the same name that the pipeline declares. The others are ignored, which is no error: a
	// payload is seldom made for one pipeline alone. A single action gets none of them.
	Values map[string]any
	// Overridable are the names of written parameters that Values may replace.
	Overridable []string
	// Added are parameters that an execution gets whether they are declared or not: event, header_<name>.
	Added map[string]any
	// Event is the value of {{ event }} in the params of a single action.
	Event any
	// About becomes the parameter _trigger.
	About map[string]any
}

// maxIgnored is how many ignored values are named.
const maxIgnored = 20

// reach puts the data into the parameters of an execution of a pipeline, and returns the names of values that it ignored.
func (o *Outside) reach(declared []definition.Parameter, written, params map[string]any) (ignored []string) {
	if o == nil {
		return nil
	}
	reached := 0
	for i := range declared {
		name := declared[i].Name
		value, given := o.Values[name]
		_, pinned := written[name]
		if given && name != aboutTrigger && (!pinned || slices.Contains(o.Overridable, name)) {
			params[name] = value
			reached++
		}
	}
	for name, value := range o.Added {
		if _, pinned := written[name]; !pinned {
			params[name] = value
		}
	}
	params[aboutTrigger] = o.About
	if reached == len(o.Values) {
		return nil
	}
	takes := make(map[string]bool, len(declared))
	for i := range declared {
		_, pinned := written[declared[i].Name]
		takes[declared[i].Name] = !pinned || slices.Contains(o.Overridable, declared[i].Name)
	}
	for name := range o.Values {
		if at, _ := slices.BinarySearch(ignored, name); !takes[name] && at < maxIgnored {
			ignored = slices.Insert(ignored, at, name)
			ignored = ignored[:min(len(ignored), maxIgnored)]
		}
	}
	return ignored
}

// The parameters that tell an execution its trigger.
const (
	aboutTrigger = "_trigger"
	eventParam   = "event"
)

// params are the parameters of the execution of a single action.
func (o *Outside) params() map[string]any {
	params := map[string]any{}
	maps.Copy(params, o.Added)
	params[eventParam], params[aboutTrigger] = o.Event, o.About
	return params
}

// withEvent lets the templates of an action's params name the data from outside event, as if it were a variable.
func withEvent(v any) any {
	switch v := v.(type) {
	case string:
		return eventAsParam(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = withEvent(v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for name := range v {
			out[name] = withEvent(v[name])
		}
		return out
	}
	return v
}

// eventAsParam writes params.event where a template reads event. Text that does not parse stays: the check reports it.
func eventAsParam(text string) string {
	if !strings.Contains(text, eventParam) {
		return text
	}
	t, err := expr.Parse(text)
	if err != nil {
		return text
	}
	var b strings.Builder
	rest, line, column := text, 1, 1
	for _, ref := range t.Refs() { // in the order of the text
		if ref.Path[0] != eventParam {
			continue
		}
		for len(rest) > 0 && (line < ref.Line || line == ref.Line && column < ref.Column) {
			r, n := utf8.DecodeRuneInString(rest)
			b.WriteString(rest[:n])
			rest = rest[n:]
			if column++; r == '\n' {
				line, column = line+1, 1
			}
		}
		if strings.HasPrefix(rest, eventParam) {
			b.WriteString("params.")
		}
	}
	return b.String() + rest
}
