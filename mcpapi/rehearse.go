package mcpapi

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/rehearsal"
	"github.com/stepwell/stepwell/resource"
)

// Subject names a definition: its text, or a stored pipeline.
type Subject struct {
	Document string `json:"document,omitempty" maxLength:"1000000" doc:"The pipeline, in YAML or JSON. Or name a stored one under pipeline."`
	Pipeline string `json:"pipeline,omitempty" maxLength:"255" doc:"Name or id of a stored pipeline."`
	Version  int    `json:"version,omitempty" minimum:"1" maximum:"1000000" doc:"A version of the stored pipeline. Defaults to the one that is started."`
}

// stored is a version of a stored pipeline.
type stored struct {
	*api.Pipeline
	tag      string // its ETag
	version  int
	document string
}

// stored reads a version; 0 stands for the one that is started.
func (k *call) stored(ctx context.Context, name string, version int) (*stored, error) {
	p, tag, err := k.Pipelines().Get(ctx, name)
	if err != nil {
		return nil, err
	}
	s := &stored{p, tag, version, p.Document}
	if s.version == 0 {
		s.version = p.Active
	}
	if s.version != 0 && s.version != p.Version {
		v, err := k.PipelineVersion(ctx, p.ID, s.version)
		if err != nil {
			return nil, err
		}
		s.document = v.Document
	}
	return s, nil
}

// text is the text of the definition.
func (k *call) text(ctx context.Context, of Subject) (string, error) {
	switch {
	case (of.Document == "") == (of.Pipeline == ""):
		return "", stepwell.Invalid("give its text as document, or name a stored one as pipeline", "exactly one of document and pipeline is needed")
	case of.Document != "" && of.Version != 0:
		return "", stepwell.Invalid("leave it out", "version goes with pipeline")
	case of.Document != "":
		return of.Document, nil
	}
	s, err := k.stored(ctx, of.Pipeline, of.Version)
	if err != nil {
		return "", err
	}
	return s.document, nil
}

// together are the stored pipelines that a definition runs, and those that these run, by name. What there is not is left out: the
// check of the definition says so.
func (k *call) together(ctx context.Context, text string) (map[string]string, error) {
	all := map[string]string{}
	for todo := []string{text}; len(todo) > 0; todo = todo[1:] {
		d, _ := definition.Parse([]byte(todo[0]), definition.ParseOptions{Sent: true})
		if d == nil {
			continue
		}
		for _, name := range d.Calls() {
			if _, known := all[name]; known || d.Pipelines[name] != nil {
				continue
			}
			if len(all) == rehearsal.MaxFiles {
				return nil, stepwell.Errorf(stepwell.CodeLimit, "", "the pipeline runs more than %d others", rehearsal.MaxFiles)
			}
			s, err := k.stored(ctx, name, 0)
			switch {
			case stepwell.CodeOf(err) == stepwell.CodeNotFound:
				continue
			case err != nil:
				return nil, err
			}
			all[name], todo = s.document, append(todo, s.document)
		}
	}
	return all, nil
}

// rehearse has a rehearsal of a definition.
func (k *call) rehearse(ctx context.Context, r *rehearsal.Request) (*rehearsal.Answer, error) {
	var err error
	if r.Pipelines, err = k.together(ctx, r.Document); err != nil {
		return nil, err
	}
	actions, err := k.Actions(ctx)
	if err != nil {
		return nil, err
	}
	r.Actions = actions.Actions
	return k.company.Perform(ctx, r)
}

// enter begins something that a caller has one of at a time.
func (k *call) enter(ctx context.Context) (context.Context, func(), error) {
	who, err := k.caller(ctx)
	if err != nil {
		return nil, nil, err
	}
	leave, err := k.company.Enter(who.name)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, rehearsal.MaxTime+2*time.Second, stepwell.Errorf(stepwell.CodeTimeout, "ask for less", "it has taken longer than %s", rehearsal.MaxTime))
	return ctx, func() { cancel(); leave() }, nil
}

// checked is what is wrong with a definition.
type checked struct {
	Valid    bool              `json:"valid"`
	Name     string            `json:"name"`
	Problems []resource.Detail `json:"problems"`
	Lint     []resource.Detail `json:"lint"` // mistakes in a definition that can be run
}

// check asks the API for what is wrong, and then lint for the rest.
func (k *call) check(ctx context.Context, text string) (*checked, error) {
	v, err := k.ValidatePipeline(ctx, api.Document(text))
	if err != nil {
		return nil, err
	}
	out := &checked{v.Valid, v.Name, v.Problems, []resource.Detail{}}
	if !v.Valid {
		return out, nil
	}
	more, err := k.rehearse(ctx, &rehearsal.Request{Kind: rehearsal.Lint, Document: text})
	if err != nil {
		return nil, err
	}
	for _, p := range more.Problems {
		one := resource.Detail(p)
		if p.Code != "" && !slices.ContainsFunc(v.Problems, func(d resource.Detail) bool { return d.Line == one.Line && d.Message == one.Message }) {
			out.Lint = append(out.Lint, one)
		}
	}
	return out, nil
}

type validateArgs struct{ Subject }

func (k *call) validate(ctx context.Context, a *validateArgs) (*reply, error) {
	text, err := k.text(ctx, a.Subject)
	if err != nil {
		return nil, err
	}
	ctx, leave, err := k.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	out, err := k.check(ctx, text)
	if err != nil {
		return nil, err
	}
	return &reply{data: out}, nil
}

type planArgs struct {
	Subject
	Params api.Object `json:"params,omitempty" doc:"Values of the pipeline's parameters, for the sizes of lists."`
	Cursor string     `json:"cursor,omitempty" maxLength:"1000"`
}

func (k *call) plan(ctx context.Context, a *planArgs) (*reply, error) {
	text, err := k.text(ctx, a.Subject)
	if err != nil {
		return nil, err
	}
	ctx, leave, err := k.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	// In a process of its own first: what the server does afterwards has fitted into the limits there.
	if _, err := k.rehearse(ctx, &rehearsal.Request{Kind: rehearsal.Plan, Document: text, Params: a.Params}); err != nil {
		return nil, err
	}
	return page(a.Cursor, "steps", func(string) (any, error) {
		p, err := k.PlanPipeline(ctx, api.Document(text), api.Object(a.Params))
		if err != nil {
			return nil, err
		}
		out := map[string]any{"valid": p.Valid, "name": p.Name, "steps": []any{}}
		if p.Graph != nil {
			out["steps"], out["truncated"] = p.Graph.Nodes, p.Graph.Truncated
		}
		if a.Cursor == "" {
			out["problems"], out["estimate"] = fit(cleaned(p.Problems), maxRow), fit(cleaned(p.Estimate), maxRow)
		}
		return out, nil
	})
}

// Rehearsed are the arguments that test and lab have in common.
type Rehearsed struct {
	Subject
	Tests string `json:"tests" minLength:"1" maxLength:"1000000" doc:"The text of a test file in YAML, as stepwell://docs/testing describes it: tests, mock, expect. Its tests are of the pipeline given here. Not real, snapshot, or files of items."`
	Run   string `json:"run,omitempty" maxLength:"500" doc:"Only tests whose names match this regular expression."`
	Seed  uint64 `json:"seed,omitempty" doc:"Chooses the order of what happens at one time."`
}

func (k *call) perform(ctx context.Context, a Rehearsed, kind, schedule string) (*rehearsal.Answer, error) {
	text, err := k.text(ctx, a.Subject)
	if err != nil {
		return nil, err
	}
	ctx, leave, err := k.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	return k.rehearse(ctx, &rehearsal.Request{Kind: kind, Document: text, Tests: a.Tests, Run: a.Run, Seed: a.Seed, Schedule: schedule})
}

type testArgs struct{ Rehearsed }

func (k *call) test(ctx context.Context, a *testArgs) (*reply, error) {
	got, err := k.perform(ctx, a.Rehearsed, rehearsal.Test, "")
	if err != nil {
		return nil, err
	}
	return &reply{data: map[string]any{"report": got.Test, "problems": got.Problems}}, nil
}

type labArgs struct {
	Rehearsed
	Schedule string `json:"schedule,omitempty" maxLength:"500" doc:"Run only this schedule, which a report names, and tell what happened."`
}

func (k *call) lab(ctx context.Context, a *labArgs) (*reply, error) {
	got, err := k.perform(ctx, a.Rehearsed, rehearsal.Lab, a.Schedule)
	if err != nil {
		return nil, err
	}
	return &reply{data: map[string]any{"report": got.Lab, "problems": got.Problems}}, nil
}

type replayArgs struct {
	Execution string `json:"execution" minLength:"1" maxLength:"36" doc:"Its id, or the beginning of it. It must have ended."`
	Subject
	Unknown string `json:"unknown,omitempty" enum:"empty,fail" doc:"What becomes of steps that did not run then: they complete without outputs, or fail. Defaults to empty."`
}

// recorded reads an execution with its definition.
func (k *call) recorded(ctx context.Context, id string) (rehearsal.Recorded, error) {
	x, err := k.Execution(ctx, id)
	if err != nil {
		return rehearsal.Recorded{}, err
	}
	if x.MoreSteps != "" {
		return rehearsal.Recorded{}, stepwell.Errorf(stepwell.CodeLimit, "use `stepwell executions replay` for larger ones", "the execution %s has more than %d steps", x.ID, len(x.Steps))
	}
	r, err := rehearsal.Record(ctx, k.Client, id, func(string) bool { return false })
	if err != nil {
		return rehearsal.Recorded{}, err
	}
	body, err := k.Definition(ctx, r.ID)
	return rehearsal.Recorded{Recording: r, Definition: body}, err
}

func (k *call) replay(ctx context.Context, a *replayArgs) (*reply, error) {
	text, err := k.text(ctx, a.Subject)
	if err != nil {
		return nil, err
	}
	ctx, leave, err := k.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	one, err := k.recorded(ctx, a.Execution)
	if err != nil {
		return nil, err
	}
	got, err := k.rehearse(ctx, &rehearsal.Request{Kind: rehearsal.Replay, Document: text, Fails: a.Unknown == "fail", Recorded: []rehearsal.Recorded{one}})
	if err != nil {
		return nil, err
	}
	return &reply{data: map[string]any{"replay": got.Replay, "problems": got.Problems}}, nil
}

// maxPast bounds the executions of a backtest, which has ten seconds, and maxPastBytes their results.
const (
	maxPast      = 50
	maxPastBytes = 32 << 20
)

type backtestArgs struct {
	Pipeline string    `json:"pipeline" minLength:"1" maxLength:"255" doc:"Name of the pipeline whose executions are played."`
	Document string    `json:"document" minLength:"1" maxLength:"1000000" doc:"The changed definition, in YAML or JSON."`
	Last     int       `json:"last,omitempty" minimum:"1" maximum:"50" doc:"The newest executions that have ended. Defaults to 20."`
	From     time.Time `json:"from,omitempty" doc:"Only those created at this time or later."`
	Unknown  string    `json:"unknown,omitempty" enum:"empty,fail" doc:"What becomes of steps that did not run then. Defaults to empty."`
}

func (k *call) backtest(ctx context.Context, a *backtestArgs) (*reply, error) {
	ctx, leave, err := k.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	last := a.Last
	if last == 0 {
		last = 20
	}
	f := api.ListExecutions{Status: []string{"completed", "completed_with_failures", "failed", "cancelled", "timed_out"}, Limit: min(last, maxPast)}
	f.Pipeline, f.From = a.Pipeline, a.From
	list, err := k.Executions(ctx, f)
	if err != nil {
		return nil, err
	}
	if len(list.Executions) == 0 {
		return nil, stepwell.Errorf(stepwell.CodeNotFound, "list_executions shows those there are", "no execution of %s has ended", strconv.Quote(a.Pipeline))
	}
	r, size := &rehearsal.Request{Kind: rehearsal.Past, Document: a.Document, Fails: a.Unknown == "fail"}, 0
	for i := range list.Executions {
		one, err := k.recorded(ctx, list.Executions[i].ID)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", list.Executions[i].ID, err)
		}
		if size += one.Size(); size > maxPastBytes {
			return nil, stepwell.Errorf(stepwell.CodeLimit, "ask for fewer: last", "the executions have more than %d MB of results", maxPastBytes>>20)
		}
		r.Recorded = append(r.Recorded, one)
	}
	got, err := k.rehearse(ctx, r)
	if err != nil {
		return nil, err
	}
	return &reply{data: map[string]any{"backtest": got.Past, "problems": got.Problems}}, nil
}
