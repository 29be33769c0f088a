package definition

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/spec"
)

// SourceMedia as a step's source is the file of the execution's lesson.
const SourceMedia = "media"

// SourceOf is the source of the i-th step of a list: the one that it names; in a sequential pipeline else the step before
// it, and the media for the first step of a pipeline. "": that of the group around the list, if there is one.
func SourceOf(steps []Step, i int, sequential, pipeline bool) string {
	switch {
	case steps[i].Source != "" || !sequential:
		return steps[i].Source
	case i > 0:
		return steps[i-1].ID
	case pipeline:
		return SourceMedia
	}
	return ""
}

// sourceOf is the source that the templates of a place read, "" for none.
func (c *checker) sourceOf(src *source) string {
	if slices.Contains([]Site{InConfig, InOutputs, InKey}, src.site) {
		return ""
	}
	at := src.index
	for s := src.scope; s != nil && at >= 0 && at < len(s.list); at, s = s.at, s.outer {
		if name := SourceOf(s.list, at, c.def.Settings.Sequential, s.path == "steps"); name != "" {
			return name
		}
	}
	return ""
}

// source adds a step's source to its dependencies. One that is not beside it is reported.
func (c *checker) source(s *scope, i int, deps []int32) []int32 {
	step := &s.list[i]
	name := step.Source
	j, known := s.index[name]
	pos, path := posOf(step, "source"), spec.ElementPath(s.path, i)+".source"
	switch {
	case name == "":
	case name == SourceMedia && known:
		c.Fail(pos, path, "the source media is the file of the lesson, but there is also a step media", "give the step another id")
	case name == SourceMedia:
	case name == step.ID:
		c.Fail(pos, path, fmt.Sprintf("the step %q is its own source", name), "")
	case !known:
		hint := c.dependencyHint(s, name)
		if hint == "depends_on lists ids of steps" {
			hint = "a source is media or the id of a step beside this one"
		}
		c.Fail(pos, path, fmt.Sprintf("the source of the step %q is %q, which does not exist%s", step.ID, name, c.elsewhere(s, name)), hint)
	case !slices.Contains(deps, int32(j)):
		deps = append(deps, int32(j))
	}
	return deps
}

// aboutMembers are the members of what an execution is about, by path.
var aboutMembers = map[string][]string{
	"project": {"id", "name", "tags"}, "lesson": {"id", "name", "tag", "media"}, "lesson.media": {"path", "url", "type", "bytes"},
}

// aboutRef checks a reference to a member of an object with known members; path is what follows its name.
func (c *checker) aboutRef(ref *expr.Ref, object string, path []string) (message, hint string, warning bool) {
	known := aboutMembers[object]
	if len(path) == 0 || known == nil {
		return "", "", false
	}
	if slices.Contains(known, path[0]) {
		return c.aboutRef(ref, object+"."+path[0], path[1:])
	}
	return fmt.Sprintf("%s has no %q", object, path[0]), c.didYouMean(path[0], known, "it has "+strings.Join(known, ", ")), ref.Guarded
}

// sourceRef checks a reference to the result that the step works on.
func (c *checker) sourceRef(ref *expr.Ref, src *source) (message, hint string, warning bool) {
	switch c.sourceOf(src) {
	case "":
		return c.unknownRoot(ref, src)
	case SourceMedia:
		return c.aboutRef(ref, "lesson.media", ref.Path[1:])
	}
	return "", "", false
}

func sourceHint(src *source) string {
	switch src.site {
	case InConfig:
		return "a module takes its items from the steps in depends_on"
	case InOutputs:
		return "write steps.<id>.outputs"
	}
	return "give the step a source: media, or the id of a step beside it"
}

// settingRef checks a reference to the settings of the step itself.
func (c *checker) settingRef(ref *expr.Ref, src *source) (message, hint string, warning bool) {
	if src.site != InParams || src.index < 0 || src.scope.list[src.index].Settings == nil {
		return c.unknownRoot(ref, src)
	}
	known := src.scope.list[src.index].Settings
	if len(ref.Path) < 2 || ref.Guarded || known[ref.Path[1]] != nil {
		return "", "", false
	}
	if _, null := known[ref.Path[1]]; null {
		return "", "", false
	}
	var names []string
	for name := range known {
		names = append(names, name)
	}
	slices.Sort(names)
	return fmt.Sprintf("the step has no setting %q", ref.Path[1]), c.didYouMean(ref.Path[1], names, "write it under settings of the step"), false
}

func settingsHint(src *source) string {
	if src.site != InParams {
		return "only the params of an action read the settings of their step"
	}
	return "give the step settings: with the value"
}
