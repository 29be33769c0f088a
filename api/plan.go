package api

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/field"
	"github.com/stepwell/stepwell/store"
)

// PlanRequest asks what a pipeline would run.
type PlanRequest struct {
	Document Document `json:"document"`
	Params   Object   `json:"params,omitempty" doc:"Values of the pipeline's parameters, for the sizes of lists. Without it the defaults count, and no parameter is missing."`
}

// PipelinePlan is a pipeline as an editor shows it.
type PipelinePlan struct {
	Validation
	Graph      *field.Draft              `json:"graph,omitempty" doc:"Missing when the text cannot be read."`
	References map[string]StepReferences `json:"references" nullable:"false" doc:"Where the document names its steps, by the step's id: what renaming one has to change."`
	Estimate   *PlanEstimate             `json:"estimate,omitempty" doc:"From executions of a pipeline of this name; missing when none has completed."`
}

// StepReferences are the places that name a step.
type StepReferences struct {
	Ranges   []TextRange     `json:"ranges" nullable:"false" doc:"Where the id stands: at the step itself, in depends_on, source, target_step, progress.items, and inside templates."`
	Unmapped []UnmappedPlace `json:"unmapped,omitempty" nullable:"false" doc:"Places that name it in a text that is folded, escaped or comes from a variable: they have to be changed by hand."`
}

// TextRange is a part of a line of the document, in characters (code points) from 1.
type TextRange struct {
	Line   int    `json:"line"`
	Column int    `json:"column"`
	End    int    `json:"end_column" doc:"Behind the last character."`
	Path   string `json:"path" doc:"Of the value that it is in."`
}

// UnmappedPlace is a value that names a step somewhere.
type UnmappedPlace struct {
	Line   int    `json:"line"`
	Column int    `json:"column" doc:"Where the value begins."`
	Path   string `json:"path"`
}

// PlanEstimate is what an execution took so far.
type PlanEstimate struct {
	Executions int                `json:"executions" doc:"The estimate is from so many completed ones, the newest 50 at most."`
	P50        float64            `json:"p50_seconds"`
	P95        float64            `json:"p95_seconds"`
	Cost       Money              `json:"cost,omitempty" doc:"Their median."`
	Seconds    *float64           `json:"seconds,omitempty" doc:"Of the longest way through this graph, with what its steps took in the newest of them; missing when a step is new."`
	Steps      map[string]float64 `json:"steps" nullable:"false" doc:"What steps took in the newest of them, in seconds, by node. At most the first 2,000 steps of the execution are looked at."`
	New        []string           `json:"new" nullable:"false" doc:"Top-level steps that it did not have."`
}

func (p *pipelines) plan(ctx context.Context, in *bodyInput[PlanRequest]) (*answer[PipelinePlan], error) {
	if err := p.fits(in.Body.Document); err != nil {
		return nil, err
	}
	leave, err := p.planning.take(ctx, access.Of(ctx).Actor(), maxPlanWait)
	if err != nil {
		return nil, err
	}
	defer leave()
	d, problems, err := p.o.Pipelines.Validate(ctx, in.Body.Document)
	if err != nil {
		return nil, err
	}
	out := PipelinePlan{References: map[string]StepReferences{}}
	if d != nil {
		params, wrong := definition.CheckParams(d, in.Body.Params)
		if in.Body.Params != nil {
			problems = append(problems, wrong...)
		}
		outline := p.o.Pipelines.Outline(d, in.Body.Document)
		out.Graph = field.DraftOf(outline, d, p.o.Catalog, params)
		out.References = referencesOf(outline)
		if out.Estimate, err = p.estimate(ctx, d.Name, out.Graph); err != nil {
			return nil, err
		}
		out.Name = d.Name
	}
	out.Valid = problems.Err() == nil
	out.Problems, err = p.details(ctx, d, in.Body.Document, problems)
	return reply(out, err)
}

// referencesOf groups the uses of an outline by step, in the order of the document.
func referencesOf(o *definition.Outline) map[string]StepReferences {
	out := map[string]StepReferences{}
	uses := slices.Clone(o.Uses)
	slices.SortStableFunc(uses, func(a, b definition.Use) int {
		return cmp.Or(a.At.Line-b.At.Line, a.At.Column-b.At.Column)
	})
	for _, u := range uses {
		r := out[u.Step]
		if r.Ranges == nil {
			r.Ranges = []TextRange{}
		}
		switch at := (UnmappedPlace{u.At.Line, u.At.Column, u.Path}); {
		case !u.Exact && !slices.Contains(r.Unmapped[max(0, len(r.Unmapped)-1):], at):
			r.Unmapped = append(r.Unmapped, at)
		case u.Exact && !(len(r.Ranges) > 0 && r.Ranges[len(r.Ranges)-1].Line == at.Line && r.Ranges[len(r.Ranges)-1].Column == at.Column): // an alias may lead here twice
			r.Ranges = append(r.Ranges, TextRange{at.Line, at.Column, at.Column + utf8.RuneCountInString(u.Step), u.Path})
		}
		out[u.Step] = r
	}
	return out
}

// Limits of what an estimate looks at.
const (
	estimateExecutions = 50
	estimateSteps      = 2000
)

// estimate looks at the completed executions of a pipeline.
func (p *pipelines) estimate(ctx context.Context, name string, g *field.Draft) (*PlanEstimate, error) {
	if name == "" {
		return nil, nil
	}
	past, err := p.o.Store.Executions(ctx, store.Filter{Pipeline: name, Statuses: []stepwell.ExecutionStatus{stepwell.ExecutionCompleted}, Limit: estimateExecutions})
	if err != nil || len(past) == 0 {
		return nil, err
	}
	e := &PlanEstimate{Executions: len(past), Steps: map[string]float64{}, New: []string{}}
	var took []float64
	var cost []int64
	for i := range past {
		took, cost = append(took, seconds(past[i].Ended.Sub(past[i].Started).Microseconds())), append(cost, past[i].Progress.Cost)
	}
	slices.Sort(took)
	slices.Sort(cost)
	e.P50, e.P95, e.Cost = rank(took, 0.5), rank(took, 0.95), Money(rank(cost, 0.5))
	steps, err := p.o.Store.Steps(ctx, past[0].No, store.StepFilter{Limit: estimateSteps})
	if err != nil {
		return nil, err
	}
	known := map[string]float64{}
	for i := range steps {
		if s := &steps[i]; s.Ended > 0 && !strings.Contains(s.Key, "[") {
			known[s.Key] = seconds(max(0, s.Ended-cmp.Or(s.Started, s.Ended)))
		}
	}
	for i := range g.Nodes {
		if s, ok := known[g.Nodes[i].ID]; ok {
			e.Steps[g.Nodes[i].ID] = s
		}
	}
	e.longest(g)
	return e, nil
}

func seconds(micros int64) float64 { return math.Round(float64(max(0, micros))/1000) / 1000 }

// rank is the value of sorted ones below which a share of them is, by nearest rank.
func rank[T any](sorted []T, share float64) T {
	return sorted[max(0, int(math.Ceil(share*float64(len(sorted))))-1)]
}

// longest adds up what the top-level steps took along the longest way, that of finally behind it.
func (e *PlanEstimate) longest(g *field.Draft) {
	ends, total, after := map[string]float64{}, 0.0, 0.0
	nodes := slices.Clone(g.Nodes)
	slices.SortStableFunc(nodes, func(a, b field.DraftNode) int { return int(a.Layer) - int(b.Layer) })
	for i := range nodes {
		n := &nodes[i]
		if n.Parent == "on_failure" || n.Kind == "handler" || n.Parent != "" && n.Parent != "finally" {
			continue
		}
		took, known := e.Steps[n.ID]
		if !known {
			e.New = append(e.New, n.ID)
		}
		begin := 0.0
		for _, dep := range n.DependsOn {
			begin = max(begin, ends[dep])
		}
		ends[n.ID] = begin + took
		if n.Parent == "" {
			total = max(total, ends[n.ID])
		} else {
			after = max(after, ends[n.ID])
		}
	}
	if len(e.New) == 0 && !g.Truncated {
		s := math.Round((total+after)*1000) / 1000
		e.Seconds = &s
	}
}
