package scenario

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/plan"
	"github.com/stepwell/stepwell/sim"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/store/memory"
)

// Options configure a Runner. Actions, Clock and Load are required.
type Options struct {
	// Actions are all actions, with handlers that reckon with Clock, and modules that Streams has replaced.
	Actions *action.Registry
	Clock   *sim.Clock
	Streams *Streams // nil: pipelines with streams cannot be tested
	// Load reads and checks a pipeline's file.
	Load func(file string) (*definition.Definition, definition.Problems, error)
	// Update rewrites snapshots. Defaults to comparing them.
	Update bool
	// Unmocked is used by tests that do not say it: fail, empty or real. Defaults to fail.
	Unmocked string
	Seed     uint64 // of the order of what happens at one time
	// Dir is the working directory of the executions. Defaults to none.
	Dir string
	// Closed refuses tests that reach outside of their texts: actions that run for real, files of items, snapshots, and modifiers of
	// streams that may read something. For tests that somebody else sends. Defaults to allowing them.
	Closed bool
	// Real are steps whose actions run, by what mocks are found by, in every test. They count before mocks and Handlers.
	Real []string
	// Begin is told of each test that begins, with its pipeline and the values in it that are secret. Defaults to nobody.
	Begin func(pipeline string, secrets []string)
	// Recorded says that actions which run are answered from recordings, in which secrets are hidden: that something is hidden in what
	// they give is no mistake of the pipeline then.
	Recorded bool
	// Handlers run in place of actions, by what mocks are found by; they count before mocks.
	Handlers map[string]action.Handler
}

// Runner runs tests, one at a time.
type Runner struct {
	o         Options
	pipelines map[string]*loaded
	covered   map[string]*coverage
	compiled  conductor.Compiled
	stored    memory.Definitions
	secrets   map[*definition.Definition][]string // that definitions name
}

// loaded is a pipeline's file.
type loaded struct {
	def      *definition.Definition
	problems definition.Problems
	err      error
}

// NewRunner makes one.
func NewRunner(o Options) *Runner {
	return &Runner{o: o, pipelines: map[string]*loaded{}, covered: map[string]*coverage{}, secrets: map[*definition.Definition][]string{}}
}

// Result is what came of a test.
type Result struct {
	File     string    `json:"file"`
	Line     int       `json:"line"`
	Name     string    `json:"name"`
	Pipeline string    `json:"pipeline,omitempty"`
	Passed   bool      `json:"passed"`
	Failures []Failure `json:"failures,omitempty" nullable:"false"`
	Notes    []string  `json:"notes,omitempty" nullable:"false"`
	// Seconds are those of the test's own clock.
	Seconds float64 `json:"seconds"`
	Played  *Played `json:"-"` // nil: the execution did not come to rest
}

// Failure is an expectation that was not met, or a reason that a test could not be run.
type Failure struct {
	spec.Problem
	Step   string   `json:"step,omitempty"`
	Why    []string `json:"why,omitempty" nullable:"false"`
	Events []string `json:"events,omitempty" nullable:"false"` // the last ones, with their times
}

// run is one test that runs.
type run struct {
	*Runner
	t     *Test
	res   *Result
	world *sim.World
	pipe  *conductor.Pipeline
	id    string
	start time.Time

	calls []Call
	how   *How
	count map[string]int // calls by key
	disturbed
	fired map[*planned]bool
	used  map[*mock]bool
	lines []store.LogLine
	x     *store.Execution
	steps map[string]*store.Step
	keys  []string // of steps, in order of index
}

// newRun makes ready for running a test.
func (o *Runner) newRun(t *Test, how *How) *run {
	n := 0
	if how.Calm != nil {
		n = len(how.Calm.Calls) // about as many come again
	}
	return &run{Runner: o, t: t, how: how, res: &Result{File: t.File, Line: t.Pos.Line, Name: t.Name, Pipeline: t.Pipeline}, calls: make([]Call, 0, n+n/8),
		count: make(map[string]int, n), fired: map[*planned]bool{}, used: map[*mock]bool{}, steps: make(map[string]*store.Step, n), disturbed: newDisturbed(n)}
}

// Run runs a test. Its result says all that went wrong; the error is that of ctx.
func (o *Runner) Run(ctx context.Context, t *Test) (*Result, error) {
	r := o.newRun(t, &How{Seed: o.o.Seed})
	if t.timing != nil {
		r.checkTiming()
	} else if err := r.play(ctx); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		r.failed(err)
	}
	r.res.Passed = len(r.res.Failures) == 0
	return r.res, nil
}

// failed reports an error that ended the test.
func (r *run) failed(err error) {
	if problems, ok := errors.AsType[spec.Problems](err); ok {
		for _, p := range problems {
			if !p.Warning {
				r.res.Failures = append(r.res.Failures, Failure{Problem: p})
			}
		}
		return
	}
	pos := r.t.Pos
	if placed, ok := errors.AsType[*placedError](err); ok {
		pos, err = placed.pos, placed.err
	}
	r.add(pos, err.Error(), stepwell.HintOf(err))
}

// add reports that something is not as it should be.
func (r *run) add(pos spec.Pos, message, hint string) *Failure {
	r.res.Failures = append(r.res.Failures, Failure{Problem: spec.Problem{File: r.t.File, Line: pos.Line, Column: pos.Column, Message: message, Hint: hint}})
	return &r.res.Failures[len(r.res.Failures)-1]
}

// load is the pipeline of a test, loaded once.
func (o *Runner) load(file string) (*definition.Definition, error) {
	l := o.pipelines[file]
	if l == nil {
		l = &loaded{}
		l.def, l.problems, l.err = o.o.Load(file)
		o.pipelines[file] = l
	}
	if l.err == nil {
		l.err = l.problems.Err()
	}
	return l.def, l.err
}

// play runs the execution and compares.
func (r *run) play(ctx context.Context) error {
	done, err := r.set(ctx, r.t.At)
	if err != nil {
		return err
	}
	defer done()
	if err = r.live(ctx); err != nil {
		r.explain(ctx, err)
		return r.world.Close()
	}
	return errors.Join(r.judge(ctx), r.world.Close())
}

// set makes the world, whose clock begins with a time. done deletes what the test has written.
func (r *run) set(ctx context.Context, begins time.Time) (done func(), err error) {
	if err := r.closed(); err != nil {
		return nil, err
	}
	if err := r.announce(); err != nil {
		return nil, err
	}
	if r.t.def != nil {
		r.def = r.t.def
	} else if r.def, err = r.load(r.t.Pipeline); err != nil {
		return nil, err
	}
	if r.o.Begin != nil {
		r.o.Begin(r.def.Name, r.secrets())
	}
	if r.o.Streams != nil {
		if err := r.o.Streams.begin(r); err != nil {
			return nil, err
		}
	}
	if r.folder, done, err = r.dir(); err != nil {
		return nil, err
	}
	r.world, err = sim.New(ctx, sim.Options{Actions: r.o.Actions, Clock: r.o.Clock, At: begins, Seed: r.how.Seed, Secrets: r.t.Secrets, Mock: r.mock, Observe: r.observe,
		Lines: func(l store.LogLine) { r.lines = append(r.lines, l) }, Fault: r.fault(), Trace: r.how.Trace, Store: r.how.Store, Compiled: &r.compiled, Definitions: &r.stored, Workers: r.how.Workers})
	if err == nil {
		r.pipe, err = r.world.Register(ctx, r.def)
	}
	if err == nil && r.t.tape == nil && r.how.Calm == nil { // the undisturbed execution was checked
		err = r.checkNames()
	}
	if err != nil {
		done()
		return nil, err
	}
	if r.how.Outside != nil {
		r.planAgain()
		return done, nil
	}
	r.start = r.world.Clock.Now()
	for _, p := range r.t.planned {
		if p.Is == "" {
			r.plan(p, p.After+p.For)
		}
	}
	return done, nil
}

// secrets are the values of secrets and of secret parameters.
func (r *run) secrets() []string {
	list := slices.Collect(maps.Values(r.t.Secrets))
	for _, p := range r.def.Parameters {
		if v, ok := r.t.Params[p.Name].(string); ok && p.Secret {
			list = append(list, v)
		}
	}
	return list
}

// closed refuses what a test must not do where Options.Closed is set.
func (r *run) closed() error {
	switch {
	case !r.o.Closed:
		return nil
	case len(r.t.real) > 0 || r.t.unmocked == unmockedReal:
		return stepwell.Errorf(stepwell.CodeForbidden, "mock the step, or run the test with `stepwell test`", "no action runs for real in a test that is sent here")
	case slices.ContainsFunc(slices.Concat(r.t.own, r.t.shared), (*mock).reads):
		return stepwell.Errorf(stepwell.CodeForbidden, "write the outputs into the test, or run it with `stepwell test`", "a test that is sent here has no files (outputs_from)")
	case len(r.t.snapshot) > 0:
		return stepwell.Errorf(stepwell.CodeForbidden, "write what is expected under expect, or run the test with `stepwell test`", "a test that is sent here has no snapshots")
	}
	return nil
}

// announce makes the actions known that only workers elsewhere have. What they take and give is not known.
func (r *run) announce() error {
	for _, name := range r.t.actions {
		if _, known := r.o.Actions.Spec(name); known {
			continue
		}
		if err := r.o.Actions.Announce(spec.Spec{Name: name, Summary: "Of a worker.", OpenParams: true, OpenOutputs: true}); err != nil {
			return err
		}
	}
	return nil
}

// params are the parameters of the execution.
func (r *run) params(def *definition.Definition) map[string]any {
	if r.t.foreign {
		given := maps.Clone(r.t.Params) // others run the test, too
		maps.DeleteFunc(given, func(name string, _ any) bool {
			return !r.t.params[name] && !slices.ContainsFunc(def.Parameters, func(p definition.Parameter) bool { return p.Name == name })
		})
		return given
	}
	return r.t.Params
}

// explain reports an error that ended the run, with what had happened until then.
func (r *run) explain(ctx context.Context, err error) {
	r.failed(err)
	if r.id != "" && len(r.res.Failures) > 0 {
		f := &r.res.Failures[len(r.res.Failures)-1]
		f.Events = r.lastEvents(ctx)
	}
}

// plan has an entry of when happen after a while.
func (r *run) plan(p *planned, after time.Duration) {
	r.fired[p], r.pending[p] = true, r.world.Clock.True().Add(after)
	r.world.Plan(r.pending[p], func(ctx context.Context) error { return r.happen(ctx, p) })
}

// observe sees steps change, for entries of when.
func (r *run) observe(u *conductor.Update) {
	if len(r.t.planned) == 0 {
		return
	}
	for _, t := range u.Tasks {
		r.became(t.Key, stepwell.StepQueued)
	}
	for i := range u.Rows {
		row := &u.Rows[i]
		key := row.Key
		if steps := r.pipe.Plan().Graph.Steps; key == "" && int(row.Idx) < len(steps) {
			key = steps[row.Idx].ID
		}
		r.became(key, row.Status)
	}
}

func (r *run) became(key string, status stepwell.StepStatus) {
	for _, p := range r.t.planned {
		if p.Is == status.String() && !r.fired[p] && matches(p.Step, key, lastID(key)) > 0 {
			r.plan(p, p.For)
		}
	}
}

const (
	segmentAction = "stream.segment"
	reportAction  = "stream.report"
)

// mock decides how an attempt ends.
func (r *run) mock(a *sim.Attempt) (*sim.Outcome, error) {
	id, act := lastID(a.Key), a.Step.Action
	n := r.number(a)
	r.calls = append(r.calls, Call{Key: a.Key, Action: act, Attempt: a.Attempt, Epoch: a.Epoch, Number: n + 1, Params: a.Params, id: id})
	r.became(a.Key, stepwell.StepRunning)
	if act == segmentAction {
		return nil, nil // its steps have mocks of their own (Streams)
	}
	if r.forced(a.Key, id) {
		return r.forReal(a)
	}
	if h := r.handler(a.Key, id, act); h != nil {
		return &sim.Outcome{Handler: h}, nil
	}
	if r.t.tape != nil {
		return r.t.tape.outcome(r, a, n)
	}
	if m := r.t.find(a.Key, id, act, r.sameAction); m != nil {
		out, err := r.mocked(m, a, n)
		r.resume(a, n, out)
		return out, err
	}
	switch {
	case r.effect(act) == spec.NoEffect:
		return nil, nil
	case act == reportAction:
		return &sim.Outcome{}, nil
	case slices.ContainsFunc(r.t.real, func(name string) bool { return matches(name, a.Key, id) > 0 }):
		return &sim.Outcome{Real: true}, nil
	}
	switch cmp.Or(r.t.unmocked, r.o.Unmocked, unmockedFails) {
	case unmockedEmpty:
		return &sim.Outcome{}, nil
	case unmockedReal:
		return &sim.Outcome{Real: true}, nil
	}
	return nil, stepwell.Invalid(fmt.Sprintf("write under mock: %s", r.suggest(a.Key, act)), "the step %s (%s) has no mock", a.Key, act)
}

// handler is the one that runs in place of a step's action, if there is one.
func (r *run) handler(key, id, act string) (best action.Handler) {
	most := 0
	for _, name := range slices.Sorted(maps.Keys(r.o.Handlers)) {
		how := matches(name, key, id)
		if of, ok := strings.CutPrefix(name, "action "); ok && most == 0 && r.sameAction(of, act) {
			best = r.o.Handlers[name]
		}
		if how > most {
			best, most = r.o.Handlers[name], how
		}
	}
	return best
}

func (r *run) mocked(m *mock, a *sim.Attempt, n int) (*sim.Outcome, error) {
	r.used[m] = true
	scope := &callScope{r, a, n}
	o, repeated, err := m.next(n, scope)
	if err != nil {
		return nil, err
	}
	if o == nil {
		return nil, &placedError{m.pos, fmt.Errorf("no entry of the mock %s counts for call %d of %s", m.name, n+1, a.Key)}
	}
	out, err := o.play(a, repeated, scope)
	if err == nil && o.outputs != nil && out.Outputs != nil {
		err = r.checkOutputs(o, a.Step, out.Outputs.(map[string]any))
	}
	return out, err
}

// callScope are the values that templates of mocks read.
type callScope struct {
	r *run
	a *sim.Attempt
	n int
}

// Lookup implements expr.Scope.
func (s *callScope) Lookup(name string) (any, bool) {
	switch name {
	case "call":
		return map[string]any{"params": any(s.a.Params), "attempt": int64(s.r.attempt(s.a, s.n)), "key": s.a.Key, "number": int64(s.n + 1)}, true
	case "row":
		return any(s.r.t.row), true
	case "params":
		return s.r.t.Params, true
	}
	return nil, false
}

// Keys lists the names, for hints in errors.
func (s *callScope) Keys() []string { return []string{"call", "params", "row"} }

// canonical is an action's own name.
func (r *run) canonical(name string) string {
	if s, ok := r.o.Actions.Spec(name); ok {
		return s.Name
	}
	return name
}

// effect is what an action does outside of the execution.
func (r *run) effect(name string) spec.Effect {
	if s, ok := r.o.Actions.Spec(name); ok {
		return s.Effect
	}
	return spec.AnyEffect
}

func (r *run) sameAction(a, b string) bool { return a == b || r.canonical(a) == r.canonical(b) }

// suggest is a mock that could be written.
func (r *run) suggest(key, act string) string {
	outputs := "{}"
	if s, ok := r.o.Actions.Spec(act); ok && len(s.Outputs) > 0 {
		outputs = "{" + s.Outputs[0].Name + ": …}"
	}
	return spec.Quote(key) + ": {outputs: " + outputs + "}"
}

// checkOutputs refuses outputs that the action does not give.
func (r *run) checkOutputs(o *outcome, step *plan.Step, outputs map[string]any) error {
	s, ok := r.o.Actions.Spec(step.Action)
	if !ok || len(s.Outputs) == 0 {
		return nil
	}
	if _, before := o.checked.LoadOrStore(step.Action, true); before {
		return nil
	}
	fields := slices.Clone(s.Outputs)
	var names []string
	for i := range fields {
		fields[i].Required, fields[i].Default = false, nil
		names = append(names, fields[i].Name)
	}
	checker, err := spec.Compile(fields, true)
	if err != nil {
		return err
	}
	for _, wrong := range checker.Check(outputs) {
		return &placedError{o.place(wrong.Path), stepwell.Invalid("`stepwell actions "+s.Name+"` shows its outputs", "outputs of %s: %s", s.Name, wrong)}
	}
	for _, e := range o.outputs.Entries {
		near := spec.DidYouMean(e.Key, names)
		if s.OpenOutputs && near != "" && !slices.Contains(names, e.Key) {
			r.res.Notes = append(r.res.Notes, fmt.Sprintf("%s:%d:%d: %s declares no output %q: %s", r.t.File, e.Pos.Line, e.Pos.Column, s.Name, e.Key, near))
		}
		if !s.OpenOutputs && !slices.Contains(names, e.Key) {
			return &placedError{e.Pos, stepwell.Invalid(cmp.Or(near, "`stepwell actions "+s.Name+"` shows its outputs"), "%s has no output %q", s.Name, e.Key)}
		}
	}
	return nil
}

// place is where an output stands.
func (o *outcome) place(path string) spec.Pos {
	for _, e := range o.outputs.Entries {
		if path == e.Key || len(path) > len(e.Key) && path[:len(e.Key)] == e.Key && (path[len(e.Key)] == '.' || path[len(e.Key)] == '[') {
			return e.At()
		}
	}
	return o.outputs.Pos
}

// checkNames refuses names of steps that the pipeline does not have.
func (r *run) checkNames() error {
	report := &spec.Report{File: r.t.File}
	known := stepNames(r.pipe.Plan())
	eachStep(r.pipe.Plan(), func(_ string, s *plan.Step) { // iterations add steps that no graph names
		for s.Body != nil && s.Body.Single {
			s = &s.Body.Graph.Steps[0]
		}
		if about, ok := r.o.Actions.Spec(s.Action); ok {
			known = append(known, about.Spawns...)
		}
	})
	check := func(name string, pos spec.Pos, what string) {
		plain := plainKey(name)
		if i := strings.IndexAny(plain, ":*"); i >= 0 {
			plain = plain[:i]
		}
		if plain != "" && !slices.Contains(known, plain) && !slices.Contains(known, lastID(plain)) {
			report.Fail(pos, what, fmt.Sprintf("%s: there is no step %q in %s", what, name, filepath.Base(r.t.Pipeline)), spec.DidYouMean(plain, known))
		}
	}
	list := slices.Concat(r.t.own, r.t.shared)
	if r.t.foreign {
		list = r.t.own
	}
	for _, m := range list {
		if m.action == "" {
			check(m.name, m.pos, "mock")
		} else if _, ok := r.o.Actions.Spec(m.action); !ok {
			report.Fail(m.pos, "mock", fmt.Sprintf("mock: there is no action %q", m.action), spec.DidYouMean(m.action, r.o.Actions.Names()))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.o.Handlers)) {
		if !strings.HasPrefix(name, "action ") {
			check(name, r.t.Pos, "mock")
		}
	}
	for _, p := range r.t.planned {
		if p.Step != "" {
			check(p.Step, p.pos, "when")
		}
	}
	for _, name := range slices.Concat(r.t.real, r.o.Real) {
		check(name, r.t.Pos, "real")
	}
	if r.t.expect != nil {
		for _, key := range []string{"steps", "logs", "items", "failures"} {
			for _, e := range entries(r.t.expect.node.Lookup(key)) {
				check(e.Key, e.Pos, key)
			}
		}
	}
	return report.Problems().Err()
}

func entries(n *spec.Node) []spec.Entry {
	if n == nil {
		return nil
	}
	return n.Entries
}
