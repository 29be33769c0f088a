package field

import (
	"slices"

	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/layout"
	"github.com/stepwell/stepwell/plan"
	"github.com/stepwell/stepwell/spec"
)

// MaxDraft bounds the nodes of a draft.
const MaxDraft = 5_000

// Draft is the graph of a document that need not be free of errors.
type Draft struct {
	Nodes     []DraftNode `json:"nodes" nullable:"false" doc:"At most 5,000, steps around others before these."`
	Truncated bool        `json:"truncated" doc:"There are more steps than nodes: those after them, and the steps inside of these, are left out."`
}

// DraftNode is a step of a document, or the frame around the steps of a handler.
type DraftNode struct {
	ID        string        `json:"id" doc:"The id of the step, behind those of the steps around it: group.step. As in the graph of an execution."`
	Step      string        `json:"step_id,omitempty" doc:"The id of the step in the document."`
	Name      string        `json:"name,omitempty"`
	Kind      string        `json:"kind" enum:"step,group,for_each,pipeline,stream,handler" doc:"handler: on_failure or finally."`
	Action    string        `json:"action,omitempty" doc:"The action or module."`
	Pipeline  string        `json:"pipeline,omitempty" doc:"The pipeline that the step runs."`
	Parent    string        `json:"parent,omitempty" doc:"The node that it is inside of."`
	DependsOn []string      `json:"depends_on" nullable:"false" doc:"Ids of nodes with the same parent: those of depends_on, and what the step waits for without naming it there."`
	ItemsFrom []string      `json:"items_from,omitempty" nullable:"false" doc:"Those of them that give a stream step its items."`
	Segment   string        `json:"segment,omitempty" doc:"Of a stream step that runs together with others: the node of the first of them."`
	Condition string        `json:"condition,omitempty"`
	Layer     int32         `json:"layer" doc:"Above the layers of the nodes that it depends on, within its parent."`
	Pos       int32         `json:"pos" doc:"Position in the layer."`
	Path      string        `json:"path,omitempty" doc:"In the document: steps[2].steps[0]."`
	Line      int           `json:"line,omitempty" doc:"Where the step begins in the document."`
	Column    int           `json:"column,omitempty"`
	Items     *int64        `json:"items,omitempty" doc:"Of a for_each whose list is known before the start: how many iterations there are; inside another for_each, in each of its iterations."`
	Outputs   []DraftOutput `json:"outputs,omitempty" nullable:"false" doc:"Those that are known beforehand; others are possible unless closed."`
	Closed    bool          `json:"closed,omitempty" doc:"The step has no other outputs."`
}

// DraftOutput is an output of a step.
type DraftOutput struct {
	Name string    `json:"name"`
	Type spec.Type `json:"type" doc:"any: not known."`
}

// DraftOf arranges the lists of an outline. The sizes of lists are those with the parameters; limits bound what finding each of
// them may cost.
func DraftOf(o *definition.Outline, d *definition.Definition, cat definition.Specs, params map[string]any) *Draft {
	m := &drafter{d: d, cat: cat, out: &Draft{}, params: params, budget: 5_000_000}
	ids := make([][]string, len(o.Lists)) // of a list: the nodes of its steps
	layers := int32(0)
	for at := range o.Lists {
		l := &o.Lists[at]
		if len(m.out.Nodes)+len(l.Steps)+1 > MaxDraft || l.Up >= 0 && ids[l.Up] == nil {
			m.out.Truncated = true
			continue
		}
		parent := ""
		switch {
		case l.Up >= 0:
			parent = ids[l.Up][l.At]
		case l.Name != "":
			parent = l.Name
			m.out.Nodes = append(m.out.Nodes, DraftNode{ID: parent, Kind: "handler", DependsOn: []string{}, Layer: layers, Pos: handlerPos(l.Name)})
		}
		width := m.list(l, parent)
		if l.Up < 0 && l.Name == "" {
			layers = width
		}
		for i := range l.Steps {
			ids[at] = append(ids[at], nodeID(parent, l.Steps[i].ID))
		}
	}
	if m.out.Nodes == nil {
		m.out.Nodes = []DraftNode{}
	}
	return m.out
}

// handlerPos puts on_failure beside finally.
func handlerPos(name string) int32 {
	if name == "finally" {
		return 1
	}
	return 0
}

func nodeID(parent, id string) string {
	if parent == "" {
		return id
	}
	return parent + "." + id
}

type drafter struct {
	d      *definition.Definition
	cat    definition.Specs
	out    *Draft
	params map[string]any
	budget int // operations that finding the sizes of lists may still take
}

// list adds the nodes of a list, and tells how many layers they have.
func (m *drafter) list(l *definition.List, parent string) (layers int32) {
	g := layout.Graph{First: []int32{0}}
	for i := range l.Steps {
		deps := []int32{}
		for _, dep := range l.Deps[i] {
			if int(dep) != i && !slices.Contains(deps, dep) {
				deps = append(deps, dep)
			}
		}
		g.Add(deps...)
	}
	arranged := layout.Arrange(g)
	for i := range l.Steps {
		s := &l.Steps[i]
		n := DraftNode{ID: nodeID(parent, s.ID), Step: s.ID, Name: s.Name, Kind: kindOfStep(s), Action: s.Action + s.Module, Pipeline: s.Pipeline, Parent: parent, DependsOn: []string{},
			Condition: s.Condition, Layer: arranged.Layer[i], Pos: arranged.Pos[i], Path: spec.ElementPath(l.Path, i), Line: s.Pos.Line, Column: s.Pos.Column}
		for _, dep := range arranged.Deps(int32(i)) {
			n.DependsOn = append(n.DependsOn, nodeID(parent, l.Steps[dep].ID))
		}
		for _, from := range l.Items[i] {
			n.ItemsFrom = append(n.ItemsFrom, nodeID(parent, l.Steps[from].ID))
		}
		if s.Module != "" && together(l.Part, i) {
			n.Segment = nodeID(parent, l.Steps[l.Part[i]].ID)
		}
		n.Outputs, n.Closed = m.outputs(s)
		if s.ForEach != nil {
			n.Items = m.size(s.ForEach.Items)
		}
		m.out.Nodes = append(m.out.Nodes, n)
	}
	return int32(len(arranged.Width))
}

// together reports whether a step shares its segment.
func together(part []int, i int) bool {
	if part[i] != i {
		return true
	}
	return slices.Contains(part[i+1:], i)
}

func kindOfStep(s *definition.Step) string {
	switch {
	case s.ForEach != nil:
		return "for_each"
	case s.Pipeline != "":
		return "pipeline"
	case len(s.Steps) > 0:
		return "group"
	case s.Module != "":
		return "stream"
	}
	return "step"
}

// eachOutputs are those of a step with for_each.
var eachOutputs = []DraftOutput{{"count", spec.Integer}, {"completed", spec.Integer}, {"failed", spec.Integer}, {"skipped", spec.Integer}, {"results", spec.Array}}

// outputs are the known outputs of a step.
func (m *drafter) outputs(s *definition.Step) (list []DraftOutput, closed bool) {
	switch {
	case s.ForEach != nil:
		return eachOutputs, true
	case len(s.Steps) > 0:
		for i := range s.Steps {
			list = append(list, DraftOutput{s.Steps[i].ID, spec.Object})
		}
		return list, true
	case s.Pipeline != "":
		sub := m.d.Pipelines[s.Pipeline]
		if sub == nil {
			return nil, false
		}
		for i := range sub.Outputs {
			list = append(list, DraftOutput{sub.Outputs[i].Name, spec.Any})
		}
		return list, true
	}
	about, known := m.cat.Spec(s.Action + s.Module)
	if !known {
		return nil, false
	}
	for i := range about.Outputs {
		list = append(list, DraftOutput{about.Outputs[i].Name, about.Outputs[i].Type})
	}
	for _, name := range s.Outputs {
		if !slices.ContainsFunc(list, func(o DraftOutput) bool { return o.Name == name }) {
			list = append(list, DraftOutput{name, spec.Any})
		}
	}
	return list, !about.OpenOutputs && len(about.Outputs) > 0
}

// size is the length of a list that reads nothing but parameters; nil when it is not known.
func (m *drafter) size(items any) *int64 {
	v, err := plan.CompileValue(items)
	if err != nil || m.budget <= 0 {
		return nil
	}
	known := true
	v.Templates(func(t *expr.Template) {
		for _, ref := range t.Refs() {
			known = known && ref.Path[0] == "params"
		}
	})
	if !known {
		return nil
	}
	const most = 500_000
	m.budget -= most / 10 // a list of 100 templates at most
	value, err := v.Render(expr.Vars{"params": m.params}, expr.Limits{Ops: most})
	if err != nil {
		return nil
	}
	switch v := value.(type) {
	case string:
		return nil // the step will fail
	case int64:
		return &v
	case float64:
		n := int64(v)
		return &n
	}
	if n, ok := expr.Length(value); ok {
		return &n
	}
	return nil
}
