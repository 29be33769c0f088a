// Package lint finds mistakes in pipelines that a valid definition may still have: values of wrong types, conditions that
// never hold, steps that never run, races, secrets that surface, and schedules that clock changes disturb.
//
// The package is pure. What needs a store or a simulation is an input, Facts. Errors are what must fail when the pipeline
// runs; everything else is a warning. docs/lint.md lists the rules.
package lint

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/schedule"
	"github.com/stepwell/stepwell/spec"
)

// Facts are what others know of the pipeline. The zero Facts know nothing.
type Facts struct {
	// Idle are the steps that no simulated run has started, by their id.
	Idle map[string]bool
	// Runs is the number of simulated runs.
	Runs int
	// Schedules start the pipeline.
	Schedules []Schedule
	// Usual is how long an execution takes; 0: not known.
	Usual time.Duration
	// Steps are how long steps usually take that have ended well, by their id at the top level.
	Steps map[string]time.Duration
	// Retention is how long ended executions are kept; 0: for ever.
	Retention time.Duration
	// Survey is of the definition, if somebody has made it; one that does not cover the definition is made anew. Nil: so is it.
	Survey *definition.Surveyed
	// Now is the time that schedules are judged from. Defaults to 2026.
	Now time.Time
}

// Schedule is a schedule of the pipeline.
type Schedule struct {
	Name    string
	Timing  schedule.Spec
	CatchUp time.Duration // how old a firing may be that is made up for; 0: none is
	// Overlaps says that executions of the schedule are meant to run beside each other.
	Overlaps bool
}

// Find returns the problems of a definition that Parse has made of src and definition.Expand has expanded, each with a code.
// Found are those of Parse and Check, which get a code too. Its cost is that of Check, and linear in the templates.
func Find(d *definition.Definition, cat definition.Catalog, file string, src []byte, found definition.Problems, facts Facts) definition.Problems {
	report := &spec.Report{File: file}
	if len(d.Matrix) == 0 {
		newScene(d, cat, report, facts).find()
	}
	for _, name := range d.Matrix { // one text: what all entries have in common is reported once
		if entry := d.Pipelines[name]; entry != nil {
			one := *entry
			one.Pipelines = d.Pipelines
			more := &spec.Report{File: file}
			newScene(&one, cat, more, facts).find()
			report.Merge(more)
		}
	}
	return ordered(suppress(combine(found, report.Problems()), file, src))
}

// Past returns the warnings, in order and with their codes, that come of the schedules and the past of a pipeline alone (Facts.Schedules,
// Usual, Steps, Retention): of a definition that Parse has made of src, without those that comments in it suppress. Its cost is that of a
// survey of the definition.
func Past(d *definition.Definition, cat definition.Catalog, src []byte, facts Facts) definition.Problems {
	if len(facts.Schedules) == 0 && facts.Usual == 0 && len(facts.Steps) == 0 || len(d.Matrix) > 0 {
		return nil
	}
	report := &spec.Report{}
	s := newScene(d, cat, report, facts)
	s.timing()
	s.limits()
	return slices.DeleteFunc(ordered(suppress(report.Problems(), "", src)), func(p definition.Problem) bool { return !strings.HasPrefix(p.Code, "SW5") })
}

// combine puts the problems of both into document order. One that Check has found at the same place in its own words only
// gets the code of the rule.
func combine(checked, linted definition.Problems) definition.Problems {
	type place struct {
		line, column int
		path         string
	}
	codes := map[place]string{}
	out := make(definition.Problems, 0, len(checked)+len(linted))
	for _, p := range linted {
		if replaces[p.Code] {
			codes[place{p.Line, p.Column, p.Path}] = p.Code
		}
	}
	known := map[place]bool{}
	for _, p := range checked {
		at := place{p.Line, p.Column, p.Path}
		p.Code = cmp.Or(codes[at], CodeInvalid)
		known[at] = true
		out = append(out, p)
	}
	for _, p := range linted {
		if !replaces[p.Code] || !known[place{p.Line, p.Column, p.Path}] {
			out = append(out, p)
		}
	}
	return out
}

// ordered sorts problems by file and place; those without a place come last.
func ordered(problems definition.Problems) definition.Problems {
	slices.SortStableFunc(problems, func(a, b definition.Problem) int {
		if (a.Line == 0) != (b.Line == 0) {
			return cmp.Compare(b.Line, a.Line)
		}
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return problems
}

// replaces are the rules that see mistakes which Check reports too.
var replaces = map[string]bool{"SW101": true, "SW203": true, "SW204": true}
