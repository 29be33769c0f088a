package definition

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/stepwell/stepwell/spec"
)

// written is a destination of a sink, as far as the document shows.
type written struct {
	here  located
	name  string // of the place
	param string // that names it
	alone bool   // no other step may write there
	apart string
	when  string // the groups around it that may be left out, and the handler that it is in
	entry string // of the matrix
}

const sharedHint = "`write: append` or `write: upsert` at all of them lets steps share a place; else give each a place of its own"

// writes records a sink's destination, and warns of a loop whose iterations replace each other's.
func (c *checker) writes(here located, about *spec.Spec) {
	w, ok := c.writtenBy(here, about)
	if !ok {
		return
	}
	step := here.step()
	for s, i := here.scope.outer, here.scope.at; w.alone && s != nil && i >= 0; s, i = s.outer, s.at {
		if loop := s.list[i].ForEach; loop != nil && w.apart == "" && (loop.As != about.Stream.Writes.Each || about.Stream.Writes.Apart == "") {
			c.Warn(posOf(step, "config."+w.param), here.path()+".config."+w.param, fmt.Sprintf("%q replaces %s in each turn of %q: the second is refused", step.ID, w.name, s.list[i].ID),
				"put the item into the path ({{ item }}, {{ collection.id }} behind a discovery), or write: append or write: upsert")
			break
		}
	}
	c.written = append(c.written, w)
}

// writtenBy is the place of a sink; false when it is not known, or of no interest.
func (c *checker) writtenBy(here located, about *spec.Spec) (w written, ok bool) {
	say := about.Stream.Writes
	if say == nil {
		return w, false
	}
	config := ModuleConfig(c.def, here.step(), about)
	w = written{here: here}
	for _, name := range say.Places {
		if text, _ := config[name].(string); text != "" && w.name == "" {
			w.name, w.param = text, name
		}
	}
	mode, given := config[say.Mode].(string)
	if !given {
		mode = say.Default
	}
	if w.name == "" || strings.ContainsAny(w.name, "{}") || isTemplate(mode) {
		return w, false
	}
	if !strings.Contains(w.name, "://") {
		w.name = path.Clean(w.name)
	}
	w.alone = mode == say.Alone
	w.apart, _ = config[say.Apart].(string)
	for s, i := here.scope.outer, here.scope.at; s != nil; s, i = s.outer, s.at {
		if i >= 0 && (s.list[i].Condition != "" || s.list[i].TriggerRule != "") {
			w.when += "\x00" + s.list[i].ID
		}
	}
	if strings.HasPrefix(here.scope.path, "on_failure") {
		w.when += "\x00on_failure"
	}
	return w, true
}

// places refuses steps that share a place which one of them replaces. Steps that may never run in one execution are left
// to the run.
func (c *checker) places() {
	first := map[string][]written{}
	for _, w := range c.written {
		others := first[w.name]
		i := slices.IndexFunc(others, w.excludes)
		if i < 0 {
			if len(others) < maxPlaceSteps {
				first[w.name] = append(others, w)
			}
			continue
		}
		other, step := others[i], w.here.step()
		message := fmt.Sprintf("%q and %q both write to %s, and one of them replaces what the other has written", other.here.step().ID, step.ID, w.name)
		if other.entry != w.entry {
			message = fmt.Sprintf("the entries %s and %s of the matrix both write to %s with %q, and one replaces what the other has written", other.entry, w.entry, w.name, step.ID)
			if !c.once("matrix " + w.name) {
				continue
			}
		}
		hint := sharedHint
		if line := posOf(other.here.step(), "config."+other.param).Line; line > 0 && other.entry == w.entry {
			hint = "the other one is in line " + itoa(line) + "; " + hint
		}
		c.Fail(posOf(step, "config."+w.param), w.here.path()+".config."+w.param, message, hint)
	}
}

// maxPlaceSteps bounds the steps with one place that a further one is compared with.
const maxPlaceSteps = 100

func (w written) excludes(other written) bool {
	return (w.alone || other.alone) && (w.entry == "" || w.entry != other.entry) && w.when == other.when && (w.apart == "" || other.apart == "" || w.apart == other.apart)
}
