package view

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/plan"
)

// WritePlan shows p, the compiled form of d: as "mermaid" a flowchart, as "dot" a graph for Graphviz, as "json" an object with
// name, levels (a list of lists of steps) and the lists on_failure and finally where there are such steps; else a line for each step, by levels.
func WritePlan(w io.Writer, p *plan.Plan, d *definition.Definition, output string) error {
	switch output {
	case "json":
		return WriteJSON(w, planJSON(p, d))
	case "mermaid":
		return writeMermaid(w, p)
	case "dot":
		return writeDOT(w, p)
	}
	return writeLevels(w, p, d)
}

// graphs are the parts of a plan with the names of those that are no steps of the pipeline proper.
func graphs(p *plan.Plan) []namedGraph {
	list := []namedGraph{{"", p.Graph}}
	if p.OnFailure != nil {
		list = append(list, namedGraph{"on_failure", p.OnFailure})
	}
	if p.Finally != nil {
		list = append(list, namedGraph{"finally", p.Finally})
	}
	return list
}

type namedGraph struct {
	name string
	*plan.Graph
}

func writeLevels(w io.Writer, p *plan.Plan, d *definition.Definition) error {
	b := &strings.Builder{}
	levels := p.Graph.Levels()
	fmt.Fprintf(b, "%s: %s in %s\n", Printable(p.Name), plural(len(p.Graph.Steps), "step"), plural(len(levels), "level"))
	width := 0
	for _, g := range graphs(p) {
		for i := range g.Steps {
			width = max(width, len(g.Steps[i].ID))
		}
	}
	for n, level := range levels {
		for k, i := range level {
			number := ""
			if k == 0 {
				number = fmt.Sprint(n + 1)
			}
			writeStep(b, p.Graph, i, d.Steps, fmt.Sprintf("%3s  ", number), width)
		}
	}
	for _, g := range graphs(p)[1:] {
		fmt.Fprintf(b, "%s:\n", g.name)
		steps := d.Finally
		if g.name == "on_failure" {
			steps = d.OnFailure
		}
		for i := range g.Steps {
			writeStep(b, g.Graph, int32(i), steps, "     ", width)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writeStep(b *strings.Builder, g *plan.Graph, i int32, steps []definition.Step, indent string, width int) {
	line := fmt.Sprintf("%s%-*s  %-20s", indent, width, g.Steps[i].ID, kindOf(&steps[i]))
	if deps := dependencies(g, i); len(deps) > 0 {
		line += "  after " + strings.Join(deps, ", ")
	}
	if steps[i].Condition != "" {
		line += "  if " + OneLine(steps[i].Condition, 60)
	}
	b.WriteString(strings.TrimRight(line, " ") + "\n")
}

// kindOf says what a step does.
func kindOf(s *definition.Step) string {
	what := s.Action
	switch {
	case s.Module != "":
		what = "items: " + s.Module
	case s.Pipeline != "":
		what = "pipeline " + s.Pipeline
	case len(s.Steps) > 0:
		what = "group of " + plural(len(s.Steps), "step")
	}
	if s.ForEach != nil {
		what = "for each: " + what
	}
	return what
}

func dependencies(g *plan.Graph, i int32) []string {
	s := &g.Steps[i]
	deps := s.Inputs()
	if _, led := s.Lead(); !led {
		deps = slices.Concat(s.Deps, deps)
	}
	var ids []string
	for _, dep := range deps {
		ids = append(ids, g.Steps[dep].ID)
	}
	return append(ids, s.Names...)
}
