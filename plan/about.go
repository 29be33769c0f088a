package plan

import (
	"cmp"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/definition"
)

// About holds the project and the lesson of an execution as templates see them, by these names.
type About map[string]any

// Media is the file of the lesson, nil without one.
func (a About) Media() map[string]any {
	lesson, _ := a["lesson"].(map[string]any)
	media, _ := lesson["media"].(map[string]any)
	return media
}

// Needs are the ids of the first steps that cannot do without the execution's project, its lesson, and the lesson's file: a
// template reads it without a guard, or it is the step's source. "": there is none. Outputs stand for those of the pipeline.
type Needs struct{ Project, Lesson, Media string }

// needsOutputs is the place of the pipeline's outputs in Needs; no step can have this id.
const needsOutputs = ":outputs"

// CheckAbout is CodeInvalid when an execution about a project and a lesson lacks what the pipeline needs of them.
func (p *Plan) CheckAbout(about About) error {
	switch {
	case p.Needs.Lesson != "" && about["lesson"] == nil:
		return missing("lesson", "start it for a lesson", p.Needs.Lesson)
	case p.Needs.Media != "" && about["lesson"] == nil:
		return missing("lesson", "start it for a lesson", p.Needs.Media)
	case p.Needs.Media != "" && about.Media() == nil:
		return missing("lesson with a file", "give the lesson its file first", p.Needs.Media)
	case p.Needs.Project != "" && about["project"] == nil:
		return missing("project", "start it for a lesson of a project", p.Needs.Project)
	}
	return nil
}

func missing(what, remedy, step string) error {
	user := "the step " + step + " uses"
	if step == needsOutputs {
		user = "its outputs use"
	}
	return stepwell.Invalid(remedy+", or guard the template: | default(…)", "the pipeline needs a %s: %s it", what, user)
}

// need records a reference to the project or the lesson that has no guard.
func (c *compiler) need(path []string) {
	at := &c.needs.Lesson
	switch {
	case path[0] == "project":
		at = &c.needs.Project
	case len(path) > 1 && path[1] == definition.SourceMedia:
		at = &c.needs.Media
	}
	*at = cmp.Or(*at, c.place)
}

// origin is what source means in the templates of a step.
type origin struct {
	level *level // nil: the file of the lesson
	step  int32  // of the level's graph
}

// findSource sets the source of a step. One that has none of its own keeps that of the group around.
func (c *compiler) findSource(l *level, i int, steps []definition.Step, sequential bool) error {
	switch name := definition.SourceOf(steps, i, sequential, l.outer == nil); name {
	case "":
	case definition.SourceMedia:
		c.source = &origin{}
		if steps[i].Source != "" {
			c.need([]string{"lesson", definition.SourceMedia})
		}
	default:
		step, ok := l.graph.index[name]
		if !ok || int(step) == i {
			return stepwell.Invalid("", "the source %q is not another step next to it", name)
		}
		c.source = &origin{l, step}
	}
	return nil
}

// readSource adds what a template reads as source.
func (c *compiler) readSource(reads []Read, l *level, guarded bool) []Read {
	if c.source == nil {
		return reads
	}
	if c.source.level == nil {
		if !guarded {
			c.need([]string{"lesson", definition.SourceMedia})
		}
		return append(reads, Read{Up: ReadMedia, Source: true})
	}
	up := int32(0)
	for at := l; at != c.source.level; at = at.outer {
		up++
	}
	c.marks = append(c.marks, mark{c.source.level.graph, c.source.step, []string{"outputs"}})
	return append(reads, Read{Up: up, Step: c.source.step, Source: true})
}

// defines reports whether a for_each around a place gives its element the name.
func (l *level) defines(name string) bool {
	for at := l; at != nil; at = at.outer {
		if at.as == name {
			return true
		}
	}
	return false
}
