package plan

import "github.com/stepwell/stepwell"

// Needs names the first place whose templates cannot do without the execution's project, and without its lesson. "": there
// is none.
type Needs struct{ Project, Lesson string }

// CheckAbout is CodeInvalid when templates read a project or a lesson that an execution about these does not have.
func (p *Plan) CheckAbout(about map[string]any) error {
	for _, n := range []struct{ name, place string }{{"lesson", p.Needs.Lesson}, {"project", p.Needs.Project}} {
		if n.place != "" && about[n.name] == nil {
			return stepwell.Invalid("start it for a "+n.name+", or guard what may be missing: | default(…)",
				"the pipeline needs a %s: %s reads it", n.name, n.place)
		}
	}
	return nil
}

// need records the first place that needs the project or the lesson.
func (c *compiler) need(root string) {
	at := &c.needs.Lesson
	if root == "project" {
		at = &c.needs.Project
	}
	if *at == "" {
		*at = c.place
	}
}
