package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/dapr/durabletask-go/api/protos"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/ai"
	"github.com/stepwell/stepwell/action/builtin"
	"github.com/stepwell/stepwell/action/httpcall"
	"github.com/stepwell/stepwell/action/outbound"
	"github.com/stepwell/stepwell/action/service"
	"github.com/stepwell/stepwell/dapr"
	"github.com/stepwell/stepwell/dapr/profile"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/plan"
	"github.com/stepwell/stepwell/queue"
	"github.com/stepwell/stepwell/store"
	runner "github.com/stepwell/stepwell/worker"
)

// hostingOptions configure executions without a server.
type hostingOptions struct {
	Dir      string // of pipelines; "": definitions come with the input
	Exec     bool   // steps may start processes
	Workers  int    // steps at once
	HTTP     outbound.Options
	DaprPort int
	Token    string // of the sidecar
	Lines    func(store.LogLine, string)
	Log      *slog.Logger
	// Register adds actions. Defaults to none.
	Register func(*action.Registry) error
}

// hosting runs executions inside workflows: plans, folds and the pool that runs their steps.
type hosting struct {
	o        hostingOptions
	actions  *action.Registry
	client   *outbound.Client
	render   *runner.Runner
	attempts *attempts

	batchTime time.Duration // attempts that take longer have an activity each

	mu    sync.Mutex
	plans map[[32]byte]*plan.Plan
	folds map[string]*folded
	order []string // of folds, oldest first
}

// Bounds of what is remembered; the rest is folded again.
const (
	maxPlans = 100
	maxFolds = 1000
)

func newHosting(o hostingOptions) (*hosting, error) {
	h := &hosting{o: o, batchTime: batchTime, actions: &action.Registry{}, plans: map[[32]byte]*plan.Plan{}, folds: map[string]*folded{}}
	var err error
	if h.client, err = outbound.New(o.HTTP); err != nil {
		return nil, err
	}
	for _, add := range []func() error{
		func() error { return builtin.Register(h.actions, builtin.Options{}) },
		func() error { return httpcall.Register(h.actions, h.client) },
		func() error { return ai.Register(h.actions, h.client) },
		func() error {
			return service.Register(h.actions, service.Options{DaprPort: o.DaprPort, DaprToken: o.Token, Limits: o.HTTP})
		},
		func() error {
			return dapr.RegisterWorkflows(h.actions, dapr.WorkflowOptions{Port: o.DaprPort, Token: o.Token, Limits: o.HTTP})
		},
	} {
		if err := add(); err != nil {
			return nil, err
		}
	}
	if o.Register != nil {
		if err := o.Register(h.actions); err != nil {
			return nil, err
		}
	}
	a := &attempts{queue: &queue.Memory{}, log: o.Log, held: map[attemptID]*attempt{}, last: map[recordID]*attempt{}}
	options := runner.Options{Queue: a.queue, Actions: h.actions, Reporter: a, Records: a, Blobs: noBlobs{}, Concurrency: o.Workers, Allow: h.allow, Lent: true, Log: o.Log}
	if o.Lines != nil {
		options.Lines = func(l store.LogLine) { o.Lines(l, a.execution(l.Execution, l.Step)) }
	}
	if a.pool, err = runner.New(options); err != nil {
		return nil, err
	}
	h.attempts, h.render = a, a.pool.Runner
	return h, nil
}

// allow is CodeDenied for an action that this program does not run.
func (h *hosting) allow(_ *definition.Author, name string) error {
	if name == "util.exec" && !h.o.Exec {
		return &stepwell.Error{Code: stepwell.CodeDenied, Message: "this program starts no processes", Hint: "start dapr-workflow with -exec: whoever may start workflows then runs commands beside it"}
	}
	return nil
}

// plan compiles a snapshot, once for many executions.
func (h *hosting) plan(snapshot []byte) (*plan.Plan, error) {
	key := sha256.Sum256(snapshot)
	h.mu.Lock()
	p := h.plans[key]
	h.mu.Unlock()
	if p != nil {
		return p, nil
	}
	p, err := planOf(snapshot, h.actions)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.plans) >= maxPlans {
		clear(h.plans)
	}
	h.plans[key] = p
	return p, nil
}

// prepare finds, checks and expands the pipeline of an order.
func (h *hosting) prepare(o *Order) (*prepared, error) {
	d, err := h.definition(o)
	if err != nil {
		return nil, err
	}
	var given map[string]any
	if len(o.Params) > 0 {
		v, err := expr.Decode(o.Params)
		if err != nil {
			return nil, stepwell.Invalid("", "params: %v", err)
		}
		var ok bool
		if given, ok = v.(map[string]any); !ok && v != nil {
			return nil, stepwell.Invalid("", "params is not an object")
		}
	}
	params, problems := definition.CheckParams(d, given)
	if err := problems.Err(); err != nil {
		return nil, err
	}
	for name := range d.Policies {
		if about, ok := h.actions.Spec(name); ok {
			name = about.Name
		}
		if err := h.allow(nil, name); err != nil {
			return nil, err
		}
	}
	snapshot, err := definition.Encode(d)
	if err != nil {
		return nil, err
	}
	compiled, err := h.plan(snapshot)
	if err != nil {
		return nil, err
	}
	if err := profile.Check(d, compiled, h.actions, "").Err(); err != nil {
		return nil, err
	}
	p := &prepared{Definition: snapshot, Revision: engine.Revision}
	p.Params, err = expr.Marshal(params)
	return p, err
}

// definition reads the pipeline of an order, and those that it runs, checked and expanded.
func (h *hosting) definition(o *Order) (*definition.Definition, error) {
	var d *definition.Definition
	var err error
	if o.Pipeline != "" {
		d, err = h.load(o.Pipeline)
	} else {
		src := []byte(o.Definition)
		var text string
		if json.Unmarshal(src, &text) == nil {
			src = []byte(text)
		}
		d, err = parseDefinition("", src)
	}
	if err != nil {
		return nil, err
	}
	others := map[string]*definition.Definition{}
	for todo := []*definition.Definition{d}; len(todo) > 0; todo = todo[1:] {
		for _, name := range todo[0].Calls() {
			if others[name] != nil || len(others) >= 100 || h.o.Dir == "" {
				continue // Check says that it is unknown, and where
			}
			sub, err := h.load(name)
			if stepwell.CodeOf(err) == stepwell.CodeNotFound {
				continue
			}
			if err != nil {
				return nil, err
			}
			others[name] = sub
			todo = append(todo, sub)
		}
	}
	if len(others) > 0 {
		d.Pipelines = others
	}
	if err := definition.Check(d, h.actions, "").Err(); err != nil {
		return nil, err
	}
	return definition.Expand(d, h.actions), nil
}

func parseDefinition(file string, src []byte) (*definition.Definition, error) {
	if len(src) > maxCarry {
		return nil, stepwell.Errorf(stepwell.CodeLimit, "", "the definition is %d KiB; inside Dapr Workflow the limit is %d KiB", len(src)>>10, profile.MaxDefinition>>10)
	}
	d, problems := definition.Parse(src, definition.ParseOptions{File: file})
	return d, problems.Err()
}

// load reads a pipeline of the folder. Its name is that of the file, without its extension.
func (h *hosting) load(name string) (*definition.Definition, error) {
	missing := &stepwell.Error{Code: stepwell.CodeNotFound, Message: fmt.Sprintf("there is no pipeline %q", stepwell.Clip(name, 200))}
	if h.o.Dir == "" {
		missing.Hint = "send the definition, or start dapr-workflow with -pipelines DIR"
		return nil, missing
	}
	if name != filepath.Base(name) || strings.HasPrefix(name, ".") || strings.Contains(name, `\`) {
		missing.Hint = "name a file of " + h.o.Dir + " without its extension"
		return nil, missing
	}
	for _, ext := range []string{".yaml", ".yml", ".json"} {
		file := filepath.Join(h.o.Dir, name+ext)
		src, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return parseDefinition(file, src)
	}
	missing.Hint = "put " + name + ".yaml into " + h.o.Dir
	return nil, missing
}

// run runs an activity of an execution.
func (h *hosting) run(ctx context.Context, name string, input []byte) (any, error) {
	if name == prepareActivity {
		var o Order
		if err := json.Unmarshal(input, &o); err != nil {
			return nil, permanent{err}
		}
		p, err := h.prepare(&o)
		if err != nil {
			return nil, permanent{err}
		}
		return p, nil
	}
	if name == batchActivity {
		var calls []*call
		if err := json.Unmarshal(input, &calls); err != nil {
			return nil, permanent{err}
		}
		return h.attempts.runBatch(ctx, calls, h.batchTime)
	}
	var c call
	if err := json.Unmarshal(input, &c); err != nil {
		return nil, permanent{err}
	}
	if name == stopActivity {
		return nil, h.attempts.stop(ctx, &c)
	}
	return h.attempts.run(ctx, &c)
}

// folded is an execution as one of its turns has left it.
type folded struct {
	*hosted
	digest uint64 // of the events of its history
}

// turn answers a turn of stepwell.run.
func (h *hosting) turn(instance string, past, fresh []*protos.HistoryEvent) (actions []*protos.OrchestratorAction, status string) {
	digest := digestOf(0, past)
	h.mu.Lock()
	x := h.folds[instance]
	delete(h.folds, instance) // two turns of one instance never use the same
	h.mu.Unlock()
	if x == nil || x.digest != digest || len(past) == 0 {
		x = &folded{hosted: newHosted(h, instance)}
		x.replays = true
		for _, e := range past {
			x.apply(e)
		}
		x.settle() // the last turn of the history has been answered
	}
	actions, status = x.hosted.turn(fresh)
	h.attempts.revoke(x.no, x.revokes)
	if x.done {
		return actions, status
	}
	x.digest = digestOf(digest, fresh)
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.order) >= maxFolds {
		delete(h.folds, h.order[0])
		h.order = h.order[1:]
	}
	h.folds[instance], h.order = x, append(h.order, instance)
	return actions, status
}

type (
	turnFunc     func(instance string, past, fresh []*protos.HistoryEvent) (actions []*protos.OrchestratorAction, status string)
	activityFunc func(ctx context.Context, name string, input []byte) (any, error)
)

// beside answers the turns of stepwell.run and its children, and leaves those of other workflows to next.
func (h *hosting) beside(next turnFunc) turnFunc {
	return func(instance string, past, fresh []*protos.HistoryEvent) ([]*protos.OrchestratorAction, string) {
		switch workflowOf(past, fresh) {
		case RunWorkflow:
			return h.turn(instance, past, fresh)
		case StepsWorkflow:
			return bundleTurn(instance, past, fresh)
		}
		return next(instance, past, fresh)
	}
}

// besideActivities runs the activities of stepwell.run, and leaves others to next.
func (h *hosting) besideActivities(next activityFunc) activityFunc {
	return func(ctx context.Context, name string, input []byte) (any, error) {
		switch name {
		case prepareActivity, stepActivity, batchActivity, stopActivity:
			return h.run(ctx, name, input)
		}
		return next(ctx, name, input)
	}
}

// serve runs steps while serve does.
func (h *hosting) serve(ctx context.Context, serve func(context.Context) error) error {
	defer h.client.Close()
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- h.attempts.pool.Run(ctx) }()
	err := serve(ctx)
	stop()
	<-ended
	return err
}
