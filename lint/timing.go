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
	if usual == 0 || at.Overlaps {
		return
	}
	from := s.facts.Now
	if from.IsZero() {
		from = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	var last time.Time
	for _, fires := range parsed.Preview(from, 0, previewed) {
		if between := fires.Sub(last); !last.IsZero() && between < usual {
			s.add("SW503", definition.Pos{}, "", fmt.Sprintf("%s fires %s after the firing before, and an execution takes %s", at.Name, between, usual.Round(time.Millisecond)),
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

// limits reports time limits that are shorter than what was seen to take no longer.
func (s *scene) limits() {
	if most := seconds(s.def.Settings.TimeoutSeconds); most > 0 && s.facts.Usual > most {
		s.add("SW504", s.def.At["settings/timeout_seconds"], "settings.timeout_seconds", fmt.Sprintf("past executions took %s, longer than the time limit of %s", s.facts.Usual.Round(time.Millisecond), most),
			"raise settings.timeout_seconds", false)
	}
	for i := range s.def.Steps {
		step := &s.def.Steps[i]
		if most, took := seconds(step.TimeoutSeconds), s.facts.Steps[step.ID]; most > 0 && took > most && step.ForEach == nil && step.Action != "" {
			at := s.byID[step.ID]
			s.report("SW504", at, "timeout_seconds", fmt.Sprintf("%q took %s in past executions, longer than its time limit of %s", step.ID, took.Round(time.Millisecond), most), "raise timeout_seconds")
		}
	}
}
