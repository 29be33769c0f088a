package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/spec"
)

// Catalog describes actions by name; action.Registry is one.
type Catalog interface {
	Spec(name string) (*spec.Spec, bool)
}

// Compile freezes a definition that definition.Check has accepted. A problem that Check would report is CodeInvalid
// here, the first one only. A snapshot's policies of actions precede the catalog's.
func Compile(d *definition.Definition, cat Catalog) (*Plan, error) {
	d = definition.Expand(d, cat)
	cat = d.Recorded(cat)
	c := &compiler{cat: cat, root: d, policies: map[Policy]*Policy{}, bodies: map[string]*Body{}, outputOf: map[string]*Gives{}}
	p := &Plan{Name: d.Name, Def: d.Parameters, Timeout: seconds(d.Settings.TimeoutSeconds),
		FailFast: failFast(d.Settings), Priority: d.Settings.Priority, Partition: d.Settings.Partition}
	if sla := d.Settings.SLA; sla != nil {
		p.SLA = SLA{Expected: seconds(sla.ExpectedSeconds), Maximum: seconds(sla.MaxSeconds)}
	}
	var err error
	if p.Concurrency, err = concurrency(d); err != nil {
		return nil, err
	}
	var main Body
	if err = c.pipeline(&main, d); err != nil {
		return nil, err
	}
	if err := p.counting(&main, d.Progress); err != nil {
		return nil, err
	}
	p.Graph, p.OnFailure, p.Finally, p.Outputs = main.Graph, main.OnFailure, main.Finally, main.Outputs
	for _, m := range c.marks {
		markKept(m.graph, m.step, m.path)
		if s := &m.graph.Steps[m.step]; s.Keep && s.Gives == nil {
			s.Gives = c.gives(s.Does())
		}
	}
	p.ReadAll, p.Weighted, p.Needs = c.readAll, c.weighted, c.needs
	p.Optional = optional(d.Parameters, c.triggered)
	return p, nil
}

// counting finds the step whose items count. The outputs of a stream step are kept: they have the counts.
func (p *Plan) counting(main *Body, of *definition.Progress) error {
	if of == nil {
		return nil
	}
	i, ok := main.Graph.index[of.Items]
	if !ok {
		return stepwell.Invalid("", "progress.items: there is no step %q", of.Items)
	}
	p.Items = i + 1
	if s := &main.Graph.Steps[i]; s.Body == nil {
		s.Keep = true
	}
	return nil
}

type compiler struct {
	cat      Catalog
	root     *definition.Definition
	policies map[Policy]*Policy
	readAll  bool
	marks    []mark
	// triggered are the parameters of triggers that templates name.
	triggered []string
	weighted  bool
	needs     Needs
	place     string            // being compiled, for needs
	source    *origin           // of the step being compiled; nil: none
	queue     string            // of steps that name none: that of the group around
	nested    []string          // names of the sub-pipelines being compiled, to stop a cycle
	bodies    map[string]*Body  // sub-pipelines, compiled once
	outputOf  map[string]*Gives // by action
}

// level is a graph and its surroundings, for finding the step that a template names.
type level struct {
	graph  *Graph
	as     string // the element's name inside of a for_each
	single bool   // holds only the action of a for_each: not a place of its own for names
	outer  *level
	all    bool   // all its steps are marked already
	each   string // the element's name inside a group that runs once for each element a source found
}

func failFast(s definition.Settings) definition.FailFast {
	if s.FailFast == "" {
		return definition.FailFastDrain
	}
	return s.FailFast
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func (c *compiler) handlers(steps []definition.Step, d *definition.Definition, main *level) (*Graph, error) {
	if len(steps) == 0 {
		return nil, nil
	}
	g, err := c.graph(steps, d, main)
	if err == nil {
		g.FailFast = definition.FailFastOff // one failing handler keeps no other from running
	}
	return g, err
}

func (c *compiler) graph(steps []definition.Step, d *definition.Definition, outer *level) (*Graph, error) {
	g := &Graph{Steps: make([]Step, len(steps)), index: make(map[string]int32, len(steps)), FailFast: failFast(d.Settings)}
	for i := range steps {
		if _, twice := g.index[steps[i].ID]; twice {
			return nil, stepwell.Invalid("", "step %q is defined twice", steps[i].ID)
		}
		g.index[steps[i].ID] = int32(i)
	}
	l := &level{graph: g, outer: outer}
	if outer != nil {
		l.each = outer.each
	}
	c.families(g, steps)
	for i := range steps {
		if err := c.step(l, i, steps, d); err != nil {
			return nil, fmt.Errorf("step %s: %w", steps[i].ID, err)
		}
	}
	if err := c.segments(l, steps, d); err != nil {
		return nil, err
	}
	if err := c.spawners(g, steps); err != nil {
		return nil, err
	}
	g.weigh()
	children(g)
	if path := cycle(g); path != nil {
		return nil, stepwell.Invalid("", "steps depend on each other: %s", strings.Join(path, " → "))
	}
	return g, nil
}

// step is a straight line over the fields of one step.
func (c *compiler) step(l *level, i int, steps []definition.Step, d *definition.Definition) error {
	s := &steps[i]
	out := &l.graph.Steps[i]
	c.place = s.ID
	out.ID, out.Name = s.ID, s.Name
	if out.Name == s.ID {
		out.Name = ""
	}
	var about *spec.Spec
	if s.Action != "" {
		var ok bool
		if about, ok = c.cat.Spec(s.Action); !ok {
			return stepwell.Invalid("", "unknown action %q", s.Action)
		}
	}
	defer func(around *origin) { c.source = around }(c.source)
	if err := c.findSource(l, i, steps, d.Settings.Sequential); err != nil {
		return err
	}
	out.Policy = c.policy(s, d, about)
	if err := c.dependencies(l.graph, i, s, d, about); err != nil {
		return err
	}
	cond, err := condition(s.Condition)
	if err != nil {
		return err
	}
	if s.ForEach != nil {
		return c.forEach(l, out, s, d, cond)
	}
	out.Condition = cond
	return c.kind(l, out, s, d)
}

func (c *compiler) kind(l *level, out *Step, s *definition.Step, d *definition.Definition) (err error) {
	switch {
	case s.Action != "":
		out.Action = s.Action
		about, _ := c.cat.Spec(s.Action)
		if out.Params, err = params(s.Params, about.Params); err != nil {
			return err
		}
		if out.Settings, err = params(s.Settings, nil); err != nil {
			return fmt.Errorf("settings: %w", err)
		}
	case s.Module != "":
		about, ok := c.cat.Spec(s.Module)
		if !ok || about.Stream == nil {
			return stepwell.Invalid("", "unknown stream module %q", s.Module)
		}
		out.Stream = &Stream{Module: about.Name}
		return nil // segments does the rest
	case s.Pipeline != "":
		if out.Params, err = params(s.Params, nil); err != nil {
			return err
		}
		if out.Body, err = c.subPipeline(s.Pipeline); err != nil {
			return err
		}
		policy := *out.Policy
		policy.Timeout = cmp.Or(policy.Timeout, seconds(c.root.Pipelines[s.Pipeline].Settings.TimeoutSeconds))
		out.Policy = c.intern(policy)
	case len(s.Steps) > 0:
		around := c.queue
		c.queue = out.Policy.Queue
		g, err := c.graph(s.Steps, d, l)
		c.queue = around
		if err != nil {
			return err
		}
		out.Body = &Body{Graph: g}
	default:
		return stepwell.Invalid("", "has no action, module, pipeline or steps")
	}
	c.place = s.ID
	out.Reads = c.reads(l, out.Condition, out.Params, out.Settings)
	out.Params.Templates(out.needsFor)
	out.Settings.Templates(out.needsFor)
	return nil
}

func (c *compiler) forEach(l *level, out *Step, s *definition.Step, d *definition.Definition, cond *expr.Template) error {
	items, err := CompileValue(s.ForEach.Items)
	if err != nil {
		return err
	}
	out.ForEach = &ForEach{Items: items, As: s.ForEach.As, MaxConcurrent: s.ForEach.MaxConcurrency}
	if out.ForEach.As == "" {
		out.ForEach.As = "item"
	}
	if err := maxFailures(out.ForEach, s.ForEach.MaxFailures); err != nil {
		return err
	}
	g := &Graph{Steps: make([]Step, 1), index: map[string]int32{s.ID: 0}, FailFast: failFast(d.Settings)}
	if s.Independent {
		g.FailFast = definition.FailFastOff
	}
	inner := &level{graph: g, single: true, as: out.ForEach.As, outer: l, each: l.each}
	if s.Independent {
		inner.each = s.ForEach.As
	}
	one := &g.Steps[0]
	one.ID, one.Name = s.ID, out.Name
	policy := *out.Policy
	policy.Rule = AllSuccess
	policy.Continue, policy.Weight = false, 0
	one.Policy = c.intern(policy)
	if cond != nil && definition.PerElement(cond, out.ForEach.As) {
		one.Condition = cond
	} else {
		out.Condition = cond
	}
	policy = *out.Policy
	policy.Retry, policy.Timeout, policy.Within = stepwell.Retry{}, 0, 0
	out.Policy = c.intern(policy)
	if err := c.kind(inner, one, s, d); err != nil {
		return err
	}
	out.Body = &Body{Graph: g, Single: true}
	c.place = s.ID
	out.Reads = c.reads(l, out.Condition, items)
	return nil
}

func maxFailures(f *ForEach, text string) (err error) {
	if text == "" {
		return nil
	}
	if share, ok := strings.CutSuffix(text, "%"); ok {
		f.MaxFailures = -1
		f.Share, err = strconv.ParseFloat(strings.TrimSpace(share), 64)
		f.Share /= 100
	} else {
		f.MaxFailures, err = strconv.Atoi(text)
	}
	if err != nil || f.MaxFailures < -1 || f.Share < 0 || f.Share > 1 {
		return stepwell.Invalid("", "max_failures %q is neither a count nor a share such as 10%%", text)
	}
	return nil
}

func (c *compiler) subPipeline(name string) (*Body, error) {
	sub, ok := c.root.Pipelines[name]
	if !ok {
		return nil, stepwell.Invalid("", "unknown pipeline %q", name)
	}
	if slices.Contains(c.nested, name) {
		return nil, stepwell.Invalid("", "pipelines run each other: %s", strings.Join(append(c.nested, name), " → "))
	}
	if b := c.bodies[name]; b != nil {
		return b, nil
	}
	c.nested = append(c.nested, name)
	defer func(queue string, source *origin) {
		c.nested, c.queue, c.source = c.nested[:len(c.nested)-1], queue, source
	}(c.queue, c.source)
	c.queue, c.source = "", nil // its own, wherever it runs
	b := &Body{Pipeline: name, Def: sub.Parameters, Optional: optional(sub.Parameters, nil)}
	if err := c.pipeline(b, sub); err != nil {
		return nil, fmt.Errorf("pipeline %s: %w", name, err)
	}
	c.bodies[name] = b
	return b, nil
}

// gives are the outputs that an action declares.
func (c *compiler) gives(action string) *Gives {
	if g, ok := c.outputOf[action]; ok || action == "" {
		return g
	}
	var g *Gives
	if about, ok := c.cat.Spec(action); ok && len(about.Outputs) > 0 {
		g = &Gives{}
		for i := range about.Outputs {
			g.Names = append(g.Names, about.Outputs[i].Name)
		}
	}
	c.outputOf[action] = g
	return g
}

// optional lists the parameters that may be missing, those of triggers added.
func optional(declared []definition.Parameter, triggered []string) []string {
	out := slices.Clone(triggered)
	for i := range declared {
		if p := &declared[i]; !p.Required && !p.HasDefault {
			out = append(out, p.Name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// pipeline compiles the graphs and outputs of a pipeline.
func (c *compiler) pipeline(b *Body, sub *definition.Definition) (err error) {
	if b.Graph, err = c.graph(sub.Steps, sub, nil); err != nil {
		return err
	}
	b.Graph.MaxParallel = sub.Settings.MaxParallelSteps
	main := &level{graph: b.Graph}
	if b.OnFailure, err = c.handlers(sub.OnFailure, sub, main); err != nil {
		return err
	}
	if b.Finally, err = c.handlers(sub.Finally, sub, main); err != nil {
		return err
	}
	b.Outputs, err = c.outputs(main, sub.Outputs)
	return err
}

func params(p map[string]any, fields []spec.Field) (*Value, error) {
	if len(p) == 0 {
		return nil, nil
	}
	return compileValue(p, "", &spec.Field{Fields: fields})
}

func (c *compiler) outputs(l *level, list []definition.Output) (*Outputs, error) {
	if len(list) == 0 {
		return nil, nil
	}
	list = slices.SortedFunc(slices.Values(list), func(a, b definition.Output) int { return strings.Compare(a.Name, b.Name) })
	out := &Outputs{}
	c.place = needsOutputs
	for _, o := range list {
		v, err := CompileValue(o.Value)
		if err != nil {
			return nil, fmt.Errorf("outputs.%s: %w", o.Name, err)
		}
		out.Names, out.Values = append(out.Names, o.Name), append(out.Values, v)
	}
	out.Reads = c.reads(l, nil, out.Values...)
	return out, nil
}

func condition(text string) (*expr.Template, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	t, err := expr.ParseCondition(text)
	if err != nil {
		return nil, fmt.Errorf("condition: %w", err)
	}
	return t, nil
}
