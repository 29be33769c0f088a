package rehearsal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/field"
	"github.com/stepwell/stepwell/lab"
	"github.com/stepwell/stepwell/lint"
	"github.com/stepwell/stepwell/scenario"
	"github.com/stepwell/stepwell/sim"
	"github.com/stepwell/stepwell/spec"
)

// Stage is what the process of a rehearsal has. Actions makes the actions for a runner of tests, with its streams and its clock.
type Stage struct {
	Actions func(streams *scenario.Streams, clock *sim.Clock) (*action.Registry, error)
	Now     time.Time // that rules of lint reckon with
}

// Names of what was sent.
const (
	documentFile = "pipeline.yaml"
	testsFile    = "pipeline.test.yaml"
)

// labBudget leaves time for what was found to be shortened and told.
const labBudget = MaxTime / 2

// exitMemory is the exit code of a process that has used too much memory.
const exitMemory = 7

// Serve reads a request, and writes its answer: the whole of the process of a rehearsal. The error is that of writing.
func (s Stage) Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	watchMemory()
	var r Request
	answer := &Answer{}
	err := json.NewDecoder(io.LimitReader(in, maxSent)).Decode(&r)
	if err == nil {
		answer, err = s.perform(ctx, &r)
	}
	if err != nil {
		answer = &Answer{Failure: failureOf(err)}
	}
	return json.NewEncoder(out).Encode(answer)
}

func failureOf(err error) *Failure {
	f := &Failure{Code: stepwell.CodeOf(err), Message: err.Error(), Hint: stepwell.HintOf(err)}
	if e, ok := errors.AsType[*stepwell.Error](err); ok && e.Err == nil {
		f.Message = e.Message
	}
	return f
}

// watchMemory ends the process when it uses too much memory.
func watchMemory() {
	debug.SetMemoryLimit(MaxMemory * 3 / 4)
	go func() {
		sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
		for range time.Tick(10 * time.Millisecond) {
			if metrics.Read(sample); sample[0].Value.Uint64()-sample[1].Value.Uint64() > MaxMemory {
				os.Exit(exitMemory)
			}
		}
	}()
}

// performance is one rehearsal.
type performance struct {
	Stage
	r   *Request
	dir string
}

func (s Stage) perform(ctx context.Context, r *Request) (*Answer, error) {
	dir, err := os.MkdirTemp("", "stepwell-rehearsal-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) // what cannot be deleted stays in the system's folder for temporary files
	p := &performance{Stage: s, r: r, dir: dir}
	switch r.Kind {
	case Lint:
		return p.lint(ctx)
	case Test:
		return p.test(ctx)
	case Lab:
		return p.lab(ctx)
	case Replay, Past:
		return p.replay(ctx)
	case Plan:
		return p.plan()
	}
	return nil, stepwell.Invalid("", "unknown kind %q", r.Kind)
}

// actions are those for a runner, and those that only the server knows.
func (p *performance) actions(streams *scenario.Streams, clock *sim.Clock) (*action.Registry, error) {
	actions, err := p.Actions(streams, clock)
	if err != nil {
		return nil, err
	}
	for _, a := range p.r.Actions {
		if _, known := actions.Spec(a.Type); known || a.Role != "" {
			continue
		}
		about := spec.Spec{Name: a.Type, Aliases: a.Aliases, Summary: a.Summary, Params: a.Params, OpenParams: a.OpenParams, Outputs: a.Outputs, OpenOutputs: true, NotIdempotent: !a.Idempotent}
		if err := actions.Announce(about); err != nil {
			return nil, err
		}
	}
	return actions, nil
}

// runner makes a runner with files of its own.
func (p *performance) runner() (*scenario.Runner, func(), error) {
	dir, err := os.MkdirTemp(p.dir, "")
	if err != nil {
		return nil, nil, err
	}
	streams, clock := &scenario.Streams{Dir: filepath.Join(dir, "streams")}, &sim.Clock{}
	actions, err := p.actions(streams, clock)
	if err != nil {
		return nil, nil, err
	}
	load := func(string) (*definition.Definition, definition.Problems, error) { // whatever the file is called: one definition was sent
		d, problems := p.load(actions)
		if d != nil {
			d = definition.Expand(d, actions)
		}
		return d, problems, nil
	}
	return scenario.NewRunner(scenario.Options{Actions: actions, Clock: clock, Streams: streams, Load: load, Seed: p.r.Seed, Closed: true}), func() {}, nil
}

// load reads and checks the definition, with those that it runs.
func (p *performance) load(actions *action.Registry) (*definition.Definition, definition.Problems) {
	d, problems := definition.Parse([]byte(p.r.Document), definition.ParseOptions{File: documentFile, Sent: true})
	if d == nil {
		return nil, problems
	}
	subs := map[string]*definition.Definition{}
	for name, text := range p.r.Pipelines {
		sub, wrong := definition.Parse([]byte(text), definition.ParseOptions{File: name + ".yaml", Sent: true})
		if sub == nil {
			sub = &definition.Definition{Name: name}
		}
		subs[name], problems = sub, append(problems, wrong...)
	}
	if len(subs) > 0 {
		own := d.Pipelines // the entries of a matrix
		d.Pipelines = maps.Clone(subs)
		maps.Copy(d.Pipelines, own)
	}
	for _, found := range definition.Check(d, actions, documentFile) {
		if !slices.Contains(problems, found) {
			problems = append(problems, found)
		}
	}
	return d, problems
}

func (p *performance) lint(ctx context.Context) (*Answer, error) {
	actions, err := p.actions(&scenario.Streams{Dir: p.dir}, &sim.Clock{})
	if err != nil {
		return nil, err
	}
	d, problems := p.load(actions)
	if d == nil {
		return &Answer{Problems: problems}, nil
	}
	d = definition.Expand(d, actions)
	facts := lint.Facts{Now: p.Now}
	if problems.Err() == nil && len(d.Matrix) == 0 {
		if facts.Idle, facts.Runs, err = scenario.Reach(ctx, d); err != nil {
			return nil, err
		}
	}
	return &Answer{Problems: lint.Find(d, actions, documentFile, []byte(p.r.Document), problems, facts)}, nil
}

// plan does all that the API does for a plan of the definition, which does not look at the clock or the store.
func (p *performance) plan() (*Answer, error) {
	actions, err := p.actions(&scenario.Streams{Dir: p.dir}, &sim.Clock{})
	if err != nil {
		return nil, err
	}
	if d, _ := p.load(actions); d != nil {
		params, _ := definition.CheckParams(d, p.r.Params) // the API tells what is wrong with them
		field.DraftOf(definition.OutlineOf(d, actions, []byte(p.r.Document)), d, actions, params)
	}
	return &Answer{}, nil
}

// namesPipeline finds the key of a test file that names the pipeline's file.
var namesPipeline = regexp.MustCompile(`(?m)^pipeline\s*:`)

// tests reads the tests whose names match.
func (p *performance) tests() ([]*scenario.Test, definition.Problems, error) {
	only, err := regexp.Compile(p.r.Run)
	if err != nil {
		return nil, nil, stepwell.Invalid("", "run: %v", err)
	}
	text := p.r.Tests
	if !namesPipeline.MatchString(text) { // there is no file beside it
		text = strings.TrimSuffix(text, "\n") + "\npipeline: " + documentFile + "\n"
	}
	all, problems := scenario.Parse(testsFile, []byte(text))
	if problems.Err() != nil {
		return nil, problems, nil
	}
	tests := slices.DeleteFunc(all, func(t *scenario.Test) bool { return !only.MatchString(t.Name) })
	if len(tests) == 0 {
		return nil, nil, stepwell.Errorf(stepwell.CodeNotFound, "", "no test has a name that matches %q", p.r.Run)
	}
	return tests, problems, nil
}

func (p *performance) test(ctx context.Context) (*Answer, error) {
	tests, problems, err := p.tests()
	if err != nil || tests == nil {
		return &Answer{Problems: problems}, err
	}
	runner, done, err := p.runner()
	if err != nil {
		return nil, err
	}
	defer done()
	report := &scenario.Report{Tests: []*scenario.Result{}}
	for _, t := range tests {
		result, err := runner.Run(ctx, t)
		if err != nil {
			return nil, err
		}
		report.Add(result)
	}
	if report.Coverage = runner.Coverage(); report.Coverage == nil {
		report.Coverage = []scenario.Coverage{}
	}
	return &Answer{Problems: problems, Test: report}, nil
}

func (p *performance) lab(ctx context.Context) (*Answer, error) {
	tests, problems, err := p.tests()
	if err != nil || tests == nil {
		return &Answer{Problems: problems}, err
	}
	tests = slices.DeleteFunc(tests, func(t *scenario.Test) bool { return t.Pipeline == "" }) // of schedules, which run nothing
	if len(tests) == 0 {
		return nil, stepwell.Errorf(stepwell.CodeNotFound, "", "no test of the pipeline has a name that matches %q", p.r.Run)
	}
	l, err := lab.New(lab.Options{Budget: labBudget / time.Duration(len(tests)), Seed: p.r.Seed, Replay: p.r.Schedule, Workers: 1, Runner: p.runner})
	if err != nil {
		return nil, err
	}
	defer l.Close()
	report := &lab.Report{Tests: []*lab.Result{}}
	for _, t := range tests {
		res, err := l.Run(ctx, t)
		if err != nil {
			return nil, errors.Join(stepwell.Invalid("make the test pass first", "%q cannot be run", t.Name), err)
		}
		report.Tests = append(report.Tests, res)
	}
	return &Answer{Problems: problems, Lab: report}, nil
}

func (p *performance) replay(ctx context.Context) (*Answer, error) {
	runner, done, err := p.runner()
	if err != nil {
		return nil, err
	}
	defer done()
	actions, err := p.actions(&scenario.Streams{Dir: p.dir}, &sim.Clock{})
	if err != nil {
		return nil, err
	}
	is, problems := p.load(actions)
	if problems.Err() != nil {
		return &Answer{Problems: problems}, nil
	}
	how := scenario.ReplayOptions{Is: definition.Expand(is, actions), Fails: p.r.Fails}
	past := &scenario.Backtest{Limit: how.Is.Settings.Concurrency, Groups: []scenario.BacktestGroup{}, Failures: []scenario.BacktestError{}}
	for _, one := range p.r.Recorded {
		out, err := p.replayed(ctx, runner, actions, one, how)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case p.r.Kind == Replay:
			return &Answer{Replay: out}, err
		case err != nil:
			past.Fail(one.Recording.ID, err)
		default:
			past.Add(out)
		}
	}
	past.Finish()
	return &Answer{Past: past}, nil
}

func (p *performance) replayed(ctx context.Context, runner *scenario.Runner, actions *action.Registry, one Recorded, how scenario.ReplayOptions) (out *scenario.Replayed, err error) {
	if one.Recording == nil {
		return nil, fmt.Errorf("there is no recording")
	}
	for i := range one.Recording.Steps {
		s := &one.Recording.Steps[i]
		if about, ok := actions.Spec(s.Action); ok && about.Stream != nil {
			s.Items = true
		}
	}
	if how.Was, err = definition.Decode(one.Definition); err != nil {
		return nil, err
	}
	return runner.Replay(ctx, one.Recording, how)
}
