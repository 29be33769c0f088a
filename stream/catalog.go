package stream

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/stream/durable"
)

// Options are the surroundings of all segments.
type Options struct {
	// Dir is where checkpoints and failure records are kept. Defaults to "checkpoints" in the working
	// directory.
	Dir string
	// Shared is a place that all workers reach which may run a segment: another worker goes on with it from there. Defaults
	// to none: the files of a segment stay in Dir, and a worker with another Dir begins anew.
	Shared durable.Shared
	// Secrets redacts secrets from files written there. Default: no redaction.
	Secrets Secrets
}

// catalog is the state of the action stream.segment.
type catalog struct {
	dir     string
	shared  durable.Shared
	secrets Secrets
	modules map[string]*Module // by name and alias
	checks  *action.Registry
}

// Register adds modules to a registry, so that they are known and described as actions are, and the actions
// that run them: stream.segment and stream.report. A module with a contradictory Spec, without a role or
// with a name that is taken is an error. It is called once for a registry.
func Register(r *action.Registry, o Options, modules ...Module) error {
	if o.Dir == "" {
		o.Dir = "checkpoints"
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return fmt.Errorf("checkpoint directory: %w", err)
	}
	if o.Secrets == nil {
		o.Secrets = noSecrets{}
	}
	c := &catalog{dir: dir, shared: o.Shared, secrets: o.Secrets, modules: map[string]*Module{}, checks: r}
	for i := range modules {
		m := &modules[i]
		if m.Open == nil || m.Spec.Stream == nil {
			return &stepwell.Error{Code: stepwell.CodeInvalid, Message: fmt.Sprintf("module %q has no Open or no role", m.Spec.Name)}
		}
		about := m.Spec
		role := *m.Spec.Stream
		role.Report = ReportAction
		about.Outputs, about.Stream = slices.Concat(m.Spec.Outputs, commonOutputs), &role
		if err := r.Add(action.Action{Spec: about, Handler: moduleHandler{m}}); err != nil {
			return err
		}
		for _, name := range append([]string{m.Spec.Name}, m.Spec.Aliases...) {
			c.modules[name] = m
		}
	}
	return r.Add(action.Action{Spec: segmentSpec(), Handler: c},
		action.Action{Spec: reportSpec(), Handler: &reporter{catalog: c, now: time.Now}})
}

// moduleHandler registers a module in the registry of actions.
type moduleHandler struct{ module *Module }

// Run implements action.Handler.
func (h moduleHandler) Run(context.Context, *action.Call) (any, error) {
	return nil, action.Fail(&stepwell.Error{Code: stepwell.CodeInvalid, Message: h.module.Spec.Name + " is a stream module, not an action",
		Hint: "write `module: " + h.module.Spec.Name + "` with its settings under `config:` instead of `action:`"})
}

// Validate implements action.Validator.
func (h moduleHandler) Validate(params map[string]any) []error {
	if h.module.Check == nil {
		return nil
	}
	return h.module.Check(params)
}

// segmentSpec describes stream.segment.
func segmentSpec() spec.Spec {
	return spec.Spec{
		Name: "stream.segment", Summary: "Runs the stream steps that items connect, in one process.",
		Doc: "Not for pipeline files: the steps that have a `module:` are put together to segments, and each is run by this action.",
		Params: []spec.Field{
			{Name: "workflow", Type: spec.String, Doc: "The pipeline's name."},
			{Name: "entry", Type: spec.String, Doc: "The matrix entry that this is for."},
			{Name: "steps", Type: spec.Any, Required: true, Doc: "The steps: id, module, config, inputs, log_level."},
			{Name: "each", Type: spec.Any, Doc: "The element that this is for, behind a source that fans out: a collection of a discovery."},
			{Name: "settings", Type: spec.Object, Doc: "How items flow: ordered, workers, batch, max_failures, strict, resume, checkpoint, checkpoint_interval."},
		},
		OpenParams: true,
		Internal:   true,
		Timeout:    10 * 365 * 24 * time.Hour, // items may come for as long as they like
	}
}

// Step is one step of a segment.
type Step struct {
	ID       string         `json:"id"`
	Module   string         `json:"module"`
	Config   map[string]any `json:"config"`
	Inputs   []string       `json:"inputs"` // steps of the segment whose items it takes, in depends_on order
	LogLevel string         `json:"log_level"`
	Merge    string         `json:"merge"` // how conflicts of its inputs are handled: fail, first or last. Defaults to fail
}

// Settings say how items flow.
type Settings struct {
	Ordered     bool    `json:"ordered"`             // items keep their order
	Workers     int     `json:"workers"`             // for each parallel stage. Defaults to GOMAXPROCS
	Batch       int     `json:"batch"`               // items at most. Defaults to 256
	MaxFailures string  `json:"max_failures"`        // "10", "5%". Defaults to no limit
	Strict      bool    `json:"strict"`              // the first failure ends the segment
	StopAll     bool    `json:"stop_all"`            // a module that cannot work ends the whole segment, not only its dependents
	Resume      bool    `json:"resume"`              // go on from the checkpoint
	Checkpoint  bool    `json:"checkpoint"`          // keep one
	Interval    float64 `json:"checkpoint_interval"` // seconds. Defaults to 1
}

// params are the parameters of stream.segment.
type params struct {
	Workflow   string         `json:"workflow"`
	Entry      string         `json:"entry"`
	Steps      []Step         `json:"steps"`
	Collection map[string]any `json:"each"` // that the segment is for, nil for none
	Settings   Settings       `json:"settings"`
}

// bind reads the parameters.
func bind(call *action.Call) (*params, error) {
	p := &params{Settings: Settings{Ordered: true, Resume: true, Checkpoint: true}}
	if err := call.Bind(p); err != nil {
		return nil, err
	}
	if len(p.Steps) == 0 {
		return nil, action.Fail(&stepwell.Error{Code: stepwell.CodeInvalid, Message: "the segment has no steps"})
	}
	if p.Workflow == "" {
		p.Workflow = call.Pipeline
	}
	return p, nil
}

// Run implements action.Handler: it runs one segment.
func (c *catalog) Run(ctx context.Context, call *action.Call) (any, error) {
	p, err := bind(call)
	if err != nil {
		return nil, err
	}
	s := c.segment(call, p)
	if err = s.prepare(c); err == nil {
		err = s.run(ctx)
	}
	if err != nil {
		err = permanent(s.about(err))
	}
	return s.result(ctx, err)
}

// permanent marks an error that every attempt would meet: a ConfigurationError, or one with CodeInvalid.
func permanent(err error) error {
	if action.IsFail(err) {
		return err
	}
	if e, ok := errors.AsType[*Error](err); ok && e.Type == ConfigurationError || stepwell.CodeOf(err) == stepwell.CodeInvalid {
		return action.Fail(err)
	}
	return err
}
