package pipeline

import (
	"fmt"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/store"
)

// projectAt is the place of errors in a trigger's project.
const projectAt = "callback.project"

// CheckProject refuses what cannot be the project of a trigger: an id, or a template of one in which event is the data from
// outside. CodeInvalid. A project that there is not is an error only when the trigger fires.
func CheckProject(text string) error {
	t, err := expr.Parse(text)
	if err != nil {
		return stepwell.Invalid("an id, or a template such as {{ event.project }}", "%s: %v", projectAt, err)
	}
	for _, ref := range t.Refs() {
		if ref.Path[0] != eventParam {
			return stepwell.Invalid("event is the data from outside", "%s: there is no %s here", projectAt, ref.Path[0])
		}
	}
	if t.Static() && text != "" {
		return store.CheckProject(text)
	}
	return nil
}

// countFor fills in the project that the author of the trigger wrote, unless the request names one. A template that gives
// nothing stands for none. CodeInvalid.
func (in *Launch) countFor() error {
	if in.Project != "" || in.WrittenProject == "" {
		return nil
	}
	t, err := expr.Parse(in.WrittenProject)
	var id any = in.WrittenProject
	if err == nil && !t.Static() {
		var event any
		if in.Outside != nil {
			event = in.Outside.Event
		}
		id, err = t.Eval(expr.Vars{eventParam: event}, expr.Limits{})
	}
	if err != nil {
		return stepwell.Invalid("event is the data from outside", "%s: %v", projectAt, err)
	}
	if id != nil {
		in.Project = strings.TrimSpace(fmt.Sprint(id))
	}
	return nil
}
