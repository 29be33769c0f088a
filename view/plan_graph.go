package view

import (
	"fmt"
	"io"
	"strings"

	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/plan"
)

// plannedStep is a step in `plan -o json`.
type plannedStep struct {
	ID        string   `json:"id"`
	Name      string   `json:"name,omitempty"`
	Kind      string   `json:"kind"` // action, module, pipeline or group
	Module    string   `json:"module,omitempty"`
	Action    string   `json:"action,omitempty"`
	Pipeline  string   `json:"pipeline,omitempty"`
	ForEach   bool     `json:"for_each,omitempty"`
	DependsOn []string `json:"depends_on,omitempty"`
	Condition string   `json:"condition,omitempty"`
}

type planned struct {
	Name      string          `json:"name"`
	Levels    [][]plannedStep `json:"levels"`
	OnFailure []plannedStep   `json:"on_failure,omitempty"`
	Finally   []plannedStep   `json:"finally,omitempty"`
}

func planJSON(p *plan.Plan, d *definition.Definition) planned {
	out := planned{Name: p.Name, Levels: [][]plannedStep{}}
	for _, level := range p.Graph.Levels() {
		var steps []plannedStep
		for _, i := range level {
			steps = append(steps, planStep(p.Graph, i, &d.Steps[i]))
		}
		out.Levels = append(out.Levels, steps)
	}
	for i := range d.OnFailure {
		out.OnFailure = append(out.OnFailure, planStep(p.OnFailure, int32(i), &d.OnFailure[i]))
	}
	for i := range d.Finally {
		out.Finally = append(out.Finally, planStep(p.Finally, int32(i), &d.Finally[i]))
	}
	return out
}

func planStep(g *plan.Graph, i int32, s *definition.Step) plannedStep {
	out := plannedStep{ID: s.ID, Name: s.Name, Kind: "action", Action: s.Action, Pipeline: s.Pipeline, ForEach: s.ForEach != nil,
		DependsOn: dependencies(g, i), Condition: s.Condition}
	switch {
	case s.Module != "":
		out.Kind, out.Module = "module", s.Module
	case s.Pipeline != "":
		out.Kind = "pipeline"
	case len(s.Steps) > 0:
		out.Kind = "group"
	}
	return out
}

// writeMermaid draws a Mermaid flowchart. Nodes are numbered, so that ids need no escaping.
func writeMermaid(w io.Writer, p *plan.Plan) error {
	var b strings.Builder
	b.WriteString("flowchart TD\n")
	for _, g := range graphs(p) {
		indent := "  "
		if g.name != "" {
			fmt.Fprintf(&b, "  subgraph %s\n", g.name)
			indent += "  "
		}
		for i := range g.Steps {
			fmt.Fprintf(&b, "%s%ss%d[\"%s\"]\n", indent, g.name, i, mermaidText(g.Steps[i].ID))
		}
		draw(g, func(from, to string, items bool) { fmt.Fprintf(&b, "%s%s %s %s\n", indent, from, arrow(items), to) },
			func(node, name string) { fmt.Fprintf(&b, "%s%s([\"%s …\"])\n", indent, node, mermaidText(name)) })
		if g.name != "" {
			b.WriteString("  end\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Edges on which items flow are thick.
func arrow(items bool) string {
	if items {
		return "==>"
	}
	return "-->"
}

func heavy(items bool) string {
	if items {
		return " [style=bold]"
	}
	return ""
}

// mermaidText escapes what ends a quoted label.
func mermaidText(s string) string {
	return strings.NewReplacer("#", "#35;", `"`, "#quot;", "<", "#lt;", ">", "#gt;").Replace(Printable(s))
}

// writeDOT draws a graph for Graphviz.
func writeDOT(w io.Writer, p *plan.Plan) error {
	var b strings.Builder
	fmt.Fprintf(&b, "digraph %s {\n  node [shape=box];\n", dotText(p.Name))
	for _, g := range graphs(p) {
		if g.name != "" {
			fmt.Fprintf(&b, "  subgraph cluster_%s {\n  label=%s;\n", g.name, dotText(g.name))
		}
		for i := range g.Steps {
			fmt.Fprintf(&b, "  %ss%d [label=%s];\n", g.name, i, dotText(g.Steps[i].ID))
		}
		draw(g, func(from, to string, items bool) { fmt.Fprintf(&b, "  %s -> %s%s;\n", from, to, heavy(items)) },
			func(node, name string) {
				fmt.Fprintf(&b, "  %s [label=%s, style=rounded];\n", node, dotText(name+" …"))
			})
		if g.name != "" {
			b.WriteString("  }\n")
		}
	}
	b.WriteString("}\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func dotText(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", " ").Replace(Printable(s)) + `"`
}

// draw gives the edges of a graph, those on which items flow too, and a node for each name of spawned steps that somebody waits for.
func draw(g namedGraph, edge func(from, to string, items bool), spawned func(node, name string)) {
	names := map[string]string{}
	for i := range g.Steps {
		to := fmt.Sprintf("%ss%d", g.name, i)
		if _, led := g.Steps[i].Lead(); !led {
			for _, dep := range g.Steps[i].Deps {
				edge(fmt.Sprintf("%ss%d", g.name, dep), to, false)
			}
		}
		for _, from := range g.Steps[i].Inputs() {
			edge(fmt.Sprintf("%ss%d", g.name, from), to, true)
		}
		for _, name := range g.Steps[i].Names {
			node, known := names[name]
			if !known {
				node = fmt.Sprintf("%sn%d", g.name, len(names))
				names[name] = node
				spawned(node, name)
				for _, by := range spawnersOf(g, name) {
					edge(fmt.Sprintf("%ss%d", g.name, by), node, false)
				}
			}
			edge(node, to, false)
		}
	}
}

func spawnersOf(g namedGraph, name string) []int32 {
	for _, s := range g.Spawners {
		if s.Name == name {
			return s.Steps
		}
	}
	return nil
}
