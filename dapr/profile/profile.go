// Package profile says which pipelines can run inside Dapr Workflow (engine: dapr), without a server and without a database.
//
// Such an execution has no store of its own: its log is the history of a Dapr workflow, which the sidecar sends with every turn, shows to whoever
// may ask it, and runs activities of at least once. Check refuses what needs more than that, with its place and the limit that it passes.
// plugins/dapr-workflow refuses the same when an execution starts.
package profile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/plan"
)

// Limits of a pipeline, and of its executions.
const (
	// MaxSteps bounds the steps that a pipeline writes out, those inside groups and of the pipelines that it runs included.
	MaxSteps = 1000
	// MaxDefinition bounds a pipeline in bytes, written out in full: it travels with the history.
	MaxDefinition = 256 << 10
	// MaxRun bounds the steps of one execution, iterations and spawned steps included.
	MaxRun = 20_000
)

// families are the actions that need no files, programs and watchers of their own; exceptions are those of them that do.
var (
	families   = []string{"util.", "http.", "internal.", "ai.", "dapr."}
	exceptions = []string{"util.backup"}
)

// Serves reports whether an action, by its canonical name, can run inside Dapr Workflow.
func Serves(action string) bool {
	return slices.ContainsFunc(families, func(f string) bool { return strings.HasPrefix(action, f) }) && !slices.Contains(exceptions, action)
}

// Check returns a problem for everything in an expanded definition that executions inside Dapr Workflow do not have. The plan is that of the
// definition, the actions those of both.
func Check(d *definition.Definition, p *plan.Plan, actions definition.Specs, file string) definition.Problems {
	c := &checker{file: file, actions: actions}
	raw, err := definition.Encode(d)
	switch {
	case err != nil:
		c.add(d.Pos, "", err.Error(), "")
	case len(raw) > MaxDefinition:
		c.add(d.Pos, "", fmt.Sprintf("the pipeline is %d KiB, written out in full; inside Dapr Workflow the limit is %d KiB", (len(raw)+1023)>>10, MaxDefinition>>10), "use for_each instead of written-out steps")
	}
	c.report = definition.AddedReport(d) // it stands for the stream steps
	c.pipeline(d)
	for _, part := range []struct {
		steps []definition.Step
		graph *plan.Graph
		path  string
	}{{d.Steps, p.Graph, "steps"}, {d.OnFailure, p.OnFailure, "on_failure"}, {d.Finally, p.Finally, "finally"}} {
		c.steps(d, part.steps, part.graph, part.path)
	}
	if c.count > MaxSteps {
		c.add(d.Pos, "steps", fmt.Sprintf("the pipeline has %d steps; inside Dapr Workflow the limit is %d", c.count, MaxSteps), "use for_each instead of written-out steps")
	}
	if p.Needs != (plan.Needs{}) {
		c.add(d.Pos, "", "the pipeline reads a project or a lesson, which only a server has", elsewhere)
	}
	return c.problems
}

// Find compiles an expanded definition, and returns what Check finds. One that cannot be compiled has that as its problem.
func Find(d *definition.Definition, actions definition.Specs, file string) definition.Problems {
	p, err := plan.Compile(d, actions)
	if err != nil {
		return definition.Problems{{File: file, Message: err.Error(), Hint: stepwell.HintOf(err)}}
	}
	return Check(d, p, actions, file)
}

// elsewhere is the hint for all that has no equivalent.
const elsewhere = "run the pipeline on a server: the workflow stepwell.pipeline awaits it"

type checker struct {
	file     string
	actions  definition.Specs
	report   string // id of the step that reports on streams
	count    int    // of steps
	problems definition.Problems
}

func (c *checker) add(at definition.Pos, path, message, hint string) {
	c.problems = append(c.problems, definition.Problem{File: c.file, Line: at.Line, Column: at.Column, Path: path, Message: message, Hint: hint})
}

// pipeline checks the parameters and settings of a pipeline.
func (c *checker) pipeline(d *definition.Definition) {
	for i := range d.Parameters {
		if x := &d.Parameters[i]; x.Secret || x.Credential {
			c.add(x.Pos, "parameters["+x.Name+"]", "the input of a Dapr workflow is readable, so that the parameter "+x.Name+" cannot be secret", elsewhere)
		}
	}
	at := func(path string) definition.Pos {
		if pos, ok := d.At[path]; ok {
			return pos
		}
		return d.Pos
	}
	if d.Settings.Concurrency != nil {
		c.add(at("settings/concurrency"), "settings.concurrency", "executions inside Dapr Workflow do not know of each other: there is no limit across them", "limit the workflows that are started")
	}
	if d.Settings.SLA != nil {
		c.add(at("settings/sla"), "settings.sla", "executions inside Dapr Workflow that take longer than expected are not reported", "use settings.timeout_seconds")
	}
	if len(d.Matrix) > 0 {
		c.add(d.Pos, "strategy.matrix", "a matrix is not run inside Dapr Workflow", elsewhere)
	}
}

// steps checks a list of steps, and what is inside them. Their plan has them under the same ids.
func (c *checker) steps(d *definition.Definition, list []definition.Step, g *plan.Graph, path string) {
	c.count += len(list)
	for i := range list {
		s := &list[i]
		here := fmt.Sprintf("%s[%d]", path, i)
		if g == nil {
			continue
		}
		at, ok := g.Index(s.ID)
		if !ok {
			continue
		}
		x := &g.Steps[at]
		if x.Body != nil && x.Body.Single { // what for_each repeats
			x = &x.Body.Graph.Steps[0]
		}
		c.step(s, x, here)
		switch sub := d.Pipelines[s.Pipeline]; {
		case x.Body == nil:
		case s.Pipeline != "" && sub != nil:
			c.pipeline(sub)
			c.steps(d, sub.Steps, x.Body.Graph, here+".pipeline.steps")
			c.steps(d, sub.OnFailure, x.Body.OnFailure, here+".pipeline.on_failure")
			c.steps(d, sub.Finally, x.Body.Finally, here+".pipeline.finally")
		default:
			c.steps(d, s.Steps, x.Body.Graph, here+".steps")
		}
	}
}

func (c *checker) step(s *definition.Step, x *plan.Step, path string) {
	switch {
	case s.Module != "" || x.Stream != nil:
		c.add(s.Pos, path, "the step "+s.ID+" is a stream step: its checkpoints need a disk that outlives the process", elsewhere)
	case x.Policy != nil && x.Policy.NotIdempotent:
		c.add(s.Pos, path, "the step "+s.ID+" must not run twice, and Dapr runs activities at least once", "set idempotent: true if running it again does no harm")
	}
	if about, ok := c.actions.Spec(s.Action); ok && s.ID != c.report && !Serves(about.Name) {
		c.add(s.Pos, path+".action", "the action "+about.Name+" needs more of its machine than there is inside Dapr Workflow", elsewhere)
	}
	if x.Secrets {
		c.add(s.Pos, path, "the step "+s.ID+" reads secrets, and the history of a Dapr workflow is readable", "let a service read the secret (internal.*), or an environment variable that the command inherits")
	}
	if x.Callback {
		c.add(s.Pos, path, "the step "+s.ID+" gives its address to something outside, and no server takes the call", "wait for an event of the workflow: util.wait_for")
	}
}
