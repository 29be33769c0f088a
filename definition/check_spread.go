package definition

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stepwell/stepwell/spec"
)

// spread is a Catalog whose workers are on several machines, which share no folders unless a queue says so.
type spread interface {
	IsSpread() bool
}

// localOutput refuses a sink that writes to a folder of whichever worker gets its stream: another attempt may be another
// worker's, and nobody would find what the first has written. A queue names workers that share the folder.
func (c *checker) localOutput(here located, about *spec.Spec) {
	if s, ok := c.cat.(spread); !ok || !s.IsSpread() || about.Stream.Writes == nil || c.queued(here) {
		return
	}
	step := here.step()
	config := ModuleConfig(c.def, step, about)
	for _, param := range about.Stream.Writes.Places {
		place, _ := config[param].(string)
		if place == "" || strings.Contains(place, "://") || strings.HasPrefix(strings.TrimSpace(place), "{{") {
			continue
		}
		c.Fail(posOf(step, "config."+param), here.path()+".config."+param, fmt.Sprintf("%q writes to the folder of whichever worker gets it (%s)", step.ID, place),
			"`queue:` names workers that share the folder; or write to s3://")
		return
	}
}

// queued reports whether a queue is given for the stream that a step is part of: at the step, at a group around it, or at a
// step that its items come from or go to.
func (c *checker) queued(here located) bool {
	for s, i := here.scope.outer, here.scope.at; s != nil && i >= 0; s, i = s.outer, s.at {
		if s.list[i].Queue != "" {
			return true
		}
	}
	list := here.scope.list
	part := map[string]bool{here.step().ID: true}
	for range list { // until nothing is new
		before := len(part)
		for i := range list {
			s := &list[i]
			if s.Module == "" {
				continue
			}
			if part[s.ID] {
				for _, dep := range s.DependsOn {
					part[dep] = true
				}
			} else if slices.ContainsFunc(s.DependsOn, func(dep string) bool { return part[dep] }) {
				part[s.ID] = true
			}
		}
		if len(part) == before {
			break
		}
	}
	return slices.ContainsFunc(list, func(s Step) bool { return s.Module != "" && s.Queue != "" && part[s.ID] })
}
