// Package steptest tests pipelines in Go tests, with mocks and a clock that jumps: package scenario for those who write Go. Nothing
// outside is called unless a test says so. docs/testing.md describes tests in YAML; their words mean the same here.
//
//	p := steptest.Load(t, "nightly.yaml", app.Options{})
//	p.Mock("fetch", steptest.Fail("503").Times(2), steptest.Outputs(map[string]any{"status": 200}))
//	p.Run(map[string]any{"region": "eu"}).Want("completed").Step("fetch").Attempts(3)
package steptest

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/scenario"
	"github.com/stepwell/stepwell/sim"
)

// Outcome is how an attempt ends: a mapping with the keys that docs/testing.md lists.
type Outcome map[string]any

// Outputs is an attempt that completes.
func Outputs(outputs map[string]any) Outcome { return Outcome{"outputs": outputs} }

// Fail is an attempt that fails. Its step is tried again as its retry says.
func Fail(message string) Outcome { return Outcome{"fail": message} }

// With adds a key: {permanent: true}, say.
func (o Outcome) With(key string, value any) Outcome {
	o = maps.Clone(o)
	o[key] = value
	return o
}

// Times is how many calls end so before the next outcome counts.
func (o Outcome) Times(n int) Outcome { return o.With("times", n) }

// Takes is how long the attempt takes.
func (o Outcome) Takes(d time.Duration) Outcome { return o.With("takes", d.String()) }

// Pipeline is one that is tested. Its methods add to what all its executions from then on are given; they are for one goroutine.
type Pipeline struct {
	t       testing.TB
	def     *definition.Definition
	file    string
	clock   *sim.Clock
	streams *scenario.Streams
	actions *action.Registry

	mocks    map[string][]Outcome
	handlers map[string]action.Handler
	real     []string
	secrets  map[string]string
	when     []map[string]any
	at       string
}

// Load reads a pipeline's file, and those of the pipelines that it runs. The options are those of the program that embeds
// Stepwell: its actions (Register), its stream modules (Modules) and so on.
func Load(t testing.TB, file string, o app.Options) *Pipeline {
	t.Helper()
	p := &Pipeline{t: t, file: file, mocks: map[string][]Outcome{}, handlers: map[string]action.Handler{}, secrets: map[string]string{}}
	p.clock, p.streams, p.actions = world(t, o)
	var problems definition.Problems
	if p.def, problems = load(file, p.actions); problems.Err() != nil {
		t.Fatal(problems)
	}
	return p
}

// world are a clock, streams by tests, and the actions that reckon with them.
func world(t testing.TB, o app.Options) (*sim.Clock, *scenario.Streams, *action.Registry) {
	t.Helper()
	clock, streams := &sim.Clock{}, &scenario.Streams{Dir: filepath.Join(t.TempDir(), "streams")}
	o.Now, o.Checkpoints, o.Replace = clock.Now, streams.Dir, streams.Replace
	actions, err := app.Actions(o)
	if err != nil {
		t.Fatal(err)
	}
	return clock, streams, actions
}

// Mock says how the attempts of a step end: one outcome for each call, the last one repeats. step is a key (each[1]), a pattern
// (each[*]), an id, or "action NAME".
func (p *Pipeline) Mock(step string, outcomes ...Outcome) { p.mocks[step] = outcomes }

// MockFunc has a function stand for a step's action. It gets rendered params, and may spawn steps, wait, log and keep memos as
// actions do. It counts before Mock.
func (p *Pipeline) MockFunc(step string, f action.HandlerFunc) { p.handlers[step] = f }

// Real has the actions of steps run, in a copy of the pipeline's folder.
func (p *Pipeline) Real(steps ...string) { p.real = append(p.real, steps...) }

// Secret gives a secret. A test fails if it shows up in logs, outputs, errors or events.
func (p *Pipeline) Secret(name, value string) { p.secrets[name] = value }

// When plans what happens meanwhile, with the keys that docs/testing.md lists: {"after": "2h", "restart_process": true}.
func (p *Pipeline) When(event map[string]any) { p.when = append(p.when, event) }

// At is when the clock starts. Defaults to sim.Start.
func (p *Pipeline) At(t time.Time) { p.at = t.Format(time.RFC3339) }

// test is the test of package scenario that says the same.
func (p *Pipeline) test(params map[string]any) *scenario.Test {
	p.t.Helper()
	one := map[string]any{"name": p.t.Name()}
	if len(p.when) > 0 {
		one["when"] = p.when
	}
	file, err := filepath.Abs(p.file)
	if err != nil {
		p.t.Fatal(err)
	}
	doc := map[string]any{"pipeline": file, "params": params, "secrets": p.secrets, "mock": p.mocks, "real": p.real, "tests": []any{one}}
	if p.at != "" {
		doc["at"] = p.at
	}
	maps.DeleteFunc(doc, func(_ string, v any) bool { return empty(v) })
	src, err := json.Marshal(doc)
	if err != nil {
		p.t.Fatal(err)
	}
	tests, problems := scenario.Parse(file+".go.json", src)
	if problems.Err() != nil {
		for _, wrong := range problems {
			p.t.Error(said(wrong.Message, wrong.Hint))
		}
		p.t.FailNow()
	}
	tests[0].Open = true
	return tests[0]
}

func empty(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		return len(v) == 0
	case map[string]string:
		return len(v) == 0
	case map[string][]Outcome:
		return len(v) == 0
	case []string:
		return len(v) == 0
	}
	return false
}

// runner makes one for the pipeline as it is.
func (p *Pipeline) runner() *scenario.Runner {
	return scenario.NewRunner(scenario.Options{Actions: p.actions, Clock: p.clock, Streams: p.streams, Handlers: p.handlers,
		Load: func(string) (*definition.Definition, definition.Problems, error) { return p.def, nil, nil }})
}

// Run runs an execution to its end, or until nothing happens any more by itself. The test fails if it cannot be run: a step
// without a mock, say.
func (p *Pipeline) Run(params map[string]any) *Execution {
	p.t.Helper()
	result, err := p.runner().Run(context.Background(), p.test(params))
	if err != nil {
		p.t.Fatal(err)
	}
	for i := range result.Failures {
		f := &result.Failures[i]
		p.t.Error(said(f.Message, f.Hint) + lastEvents(f.Events))
	}
	if result.Played == nil {
		p.t.FailNow()
	}
	return newExecution(p.t, result)
}

func said(message, hint string) string {
	if hint != "" {
		message += " (" + hint + ")"
	}
	return message
}

func lastEvents(events []string) string {
	if len(events) == 0 {
		return ""
	}
	return "\nlast events:\n  " + strings.Join(events, "\n  ")
}

// Files runs the tests of files NAME.test.yaml, each as a test by its name: `stepwell test` with the actions of this program.
func Files(t *testing.T, o app.Options, files ...string) {
	t.Helper()
	clock, streams, actions := world(t, o)
	runner := scenario.NewRunner(scenario.Options{Actions: actions, Clock: clock, Streams: streams,
		Load: func(file string) (*definition.Definition, definition.Problems, error) {
			def, problems := load(file, actions)
			return def, problems, nil
		}})
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		tests, problems := scenario.Parse(file, src)
		if problems.Err() != nil {
			t.Fatal(problems)
		}
		for _, one := range tests {
			t.Run(one.Name, func(t *testing.T) {
				result, err := runner.Run(t.Context(), one)
				if err != nil {
					t.Fatal(err)
				}
				for i := range result.Failures {
					t.Error(result.Failures[i].Problem.String() + lastEvents(result.Failures[i].Events))
				}
			})
		}
	}
}

// load reads a pipeline with those that it runs, and checks them.
func load(file string, actions *action.Registry) (def *definition.Definition, problems definition.Problems) {
	all := map[string]*definition.Definition{}
	files := map[*definition.Definition]string{}
	parse := func(file string) (d *definition.Definition) {
		src, err := os.ReadFile(file)
		if err != nil {
			problems = append(problems, definition.Problem{File: file, Message: err.Error()})
			return nil
		}
		d, wrong := definition.Parse(src, definition.ParseOptions{File: file, Env: os.LookupEnv})
		if problems = append(problems, wrong...); d != nil {
			files[d] = file
		}
		return d
	}
	if def = parse(file); def == nil {
		return nil, problems
	}
	for todo := []*definition.Definition{def}; len(todo) > 0; todo = todo[1:] {
		for _, name := range todo[0].Calls() {
			if todo[0].Pipelines[name] != nil || all[name] != nil {
				continue
			}
			if sub := beside(files[todo[0]], name); sub != "" { // else Check says that it is unknown
				if all[name] = parse(sub); all[name] != nil {
					todo = append(todo, all[name])
				}
			}
		}
	}
	maps.DeleteFunc(all, func(_ string, d *definition.Definition) bool { return d == nil })
	if len(all) > 0 {
		own := def.Pipelines
		def.Pipelines = maps.Clone(all)
		maps.Copy(def.Pipelines, own)
	}
	problems = append(problems, definition.Check(def, actions, file)...)
	return definition.Expand(def, actions), problems
}

// beside is the file of a pipeline that another one runs.
func beside(file, name string) string {
	if slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)) {
		return filepath.Join(filepath.Dir(file), name)
	}
	for _, ext := range []string{".yaml", ".yml", ".json"} {
		if at := filepath.Join(filepath.Dir(file), name+ext); app.IsFile(at) {
			return at
		}
	}
	return ""
}

// compared is a value as JSON has it, so that 1 and 1.0 are equal.
func compared(t testing.TB, v any) any {
	t.Helper()
	raw, err := json.Marshal(v)
	var out any
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	if err != nil {
		t.Fatal(stepwell.Errorf(stepwell.CodeInvalid, "", "a value that is no JSON: %v", err))
	}
	return out
}
