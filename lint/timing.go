package lint

import (
	"cmp"
	"fmt"
	"time"

	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/schedule"
)

// previewed are the firings that are looked at for the shortest time between two.
const previewed = 100

// timing reports schedules that do not fire when their author expects it.
func (s *scene) timing() {
	for _, at := range s.facts.Schedules {
		parsed, err := schedule.Parse(at.Timing)
		if err != nil {
			s.add("SW501", definition.Pos{}, "", fmt.Sprintf("%s: %v", at.Name, err), "", false)
			continue
		}
		for _, w := range parsed.Warnings(s.facts.Now) {
			code := "SW502"
			if w.Kind == schedule.WarnNever {
				code = "SW501"
			}
			s.add(code, definition.Pos{}, "", at.Name+" "+w.Message, w.Hint, false)
		}
		s.paces(&at, parsed)
	}
}

// paces compares the time between two firings with that of an execution.
func (s *scene) paces(at *Schedule, parsed *schedule.Schedule) {
	if s.facts.Retention > 0 && at.CatchUp > s.facts.Retention {
		s.add("SW503", definition.Pos{}, "", fmt.Sprintf("%s catches up firings of the last %s, and executions are kept for %s", at.Name, at.CatchUp, s.facts.Retention),
			"lower its catch_up, or raise the retention", false)
	}
	usual := cmp.Or(s.facts.Usual, s.expected())
	if usual == 0 {
		return
	}
	from := s.facts.Now
	if from.IsZero() {
		from = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	var last time.Time
	for _, fires := range parsed.Preview(from, 0, previewed) {
		if between := fires.Sub(last); !last.IsZero() && between < usual {
			s.add("SW503", definition.Pos{}, "", fmt.Sprintf("%s fires %s after the firing before, and an execution takes %s", at.Name, between, usual),
				"make it fire less often, or choose what happens to overlaps: skip, queue_one, allow", false)
			return
		}
		last = fires
	}
}

// expected is how long the pipeline says that an execution takes.
func (s *scene) expected() time.Duration {
	if sla := s.def.Settings.SLA; sla != nil {
		return seconds(sla.ExpectedSeconds)
	}
	return 0
}
