package streamtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/durable"
)

// Segment is a whole segment of stream steps, to be run as an execution runs it.
type Segment struct {
	Modules  []stream.Module // all that Steps name
	Steps    []stream.Step   // as of the action stream.segment
	Settings map[string]any  // of the action stream.segment. Defaults to its defaults

	Checkpoints string         // Options.Dir. Defaults to a directory that is new for every Run
	Shared      durable.Shared // Options.Shared. Defaults to none
	Epoch       uint32         // of the attempt
	Dir         string         // against which modules resolve paths. Defaults to a temporary directory
	Workflow    string         // Defaults to "flow"
	Entry       string         // matrix entry
	Execution   string         // Defaults to "execution"
	GoesOn      string         // the execution that it retries
	Attempt     int            // Defaults to 1, as of a restart in place
	Collection  map[string]any // the collection of the segment, behind a discovery
	Scope       map[string]any // the scope of templates
}

// Outcome is the outcome of a segment.
type Outcome struct {
	Outputs  map[string]map[string]any // by step
	Err      error                     // see action.IsFail, action.MemberError
	Failed   map[string]error          // see action.Members
	Stopped  map[string]string
	Failures []map[string]any         // records of failures.json, in order
	Report   map[string]any           // outputs of stream.report
	Counts   map[string]action.Counts // last told, by step
	Lines    []string                 // of the log
}

// Chain makes steps that take each other's items one after the other, of pairs of a module's name and its
// config; their ids are the names.
func Chain(modules ...any) []stream.Step {
	var steps []stream.Step
	for i := 0; i < len(modules); i += 2 {
		s := stream.Step{ID: modules[i].(string), Module: modules[i].(string)}
		s.Config, _ = modules[i+1].(map[string]any)
		if i > 0 {
			s.Inputs = []string{steps[len(steps)-1].ID}
		}
		steps = append(steps, s)
	}
	return steps
}

// Run runs the segment once, and the report behind it.
func Run(ctx context.Context, t testing.TB, s Segment) *Outcome {
	t.Helper()
	if s.Checkpoints == "" {
		s.Checkpoints = t.TempDir()
	}
	if s.Dir == "" {
		s.Dir = t.TempDir()
	}
	out, err := RunIn(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// RunIn is Run for programs that are no test themselves, such as a process that a test kills. Checkpoints and
// Dir must be set. The error is of the surroundings, not of the segment.
func RunIn(ctx context.Context, s Segment) (*Outcome, error) {
	r := new(action.Registry)
	if err := stream.Register(r, stream.Options{Dir: s.Checkpoints, Shared: s.Shared}, s.Modules...); err != nil {
		return nil, err
	}
	var steps []any
	for _, step := range s.Steps {
		inputs := []any{}
		for _, in := range step.Inputs {
			inputs = append(inputs, in)
		}
		steps = append(steps, map[string]any{"id": step.ID, "module": step.Module, "config": step.Config, "inputs": inputs, "log_level": step.LogLevel, "merge": step.Merge})
	}
	h := &host{scope: s.Scope, counts: map[string]action.Counts{}}
	call := &action.Call{Execution: or(s.Execution, "execution"), GoesOn: s.GoesOn, Pipeline: or(s.Workflow, "flow"), StepKey: "segment", StepName: "segment",
		Action: "stream.segment", Attempt: max(s.Attempt, 1), Epoch: s.Epoch, Dir: s.Dir, Host: h, Params: map[string]any{"workflow": or(s.Workflow, "flow"), "entry": s.Entry, "steps": steps}}
	if s.Settings != nil {
		call.Params["settings"] = s.Settings
	}
	if s.Collection != nil {
		call.Params["each"] = s.Collection
	}
	segment, _ := r.Lookup("stream.segment")
	value, err := segment.Handler.Run(ctx, call)
	out := &Outcome{Err: err, Counts: h.counts, Lines: h.lines, Outputs: map[string]map[string]any{}}
	if members, ok := value.(action.Members); ok {
		out.Failed, out.Stopped = members.Failed, members.Stopped
		for id, outputs := range members.Outputs {
			if out.Outputs[id], err = decoded(outputs); err != nil {
				return nil, err
			}
		}
	}
	return out, out.report(r, call)
}

// report runs stream.report and reads its files.
func (o *Outcome) report(r *action.Registry, call *action.Call) error {
	dir, err := os.MkdirTemp("", "streamtest-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "failures.json")
	report, _ := r.Lookup("stream.report")
	c := *call
	c.Params = map[string]any{"failures": path, "failures_always": true}
	value, err := report.Handler.Run(context.Background(), &c)
	if err != nil {
		return err
	}
	if o.Report, err = decoded(value); err != nil {
		return err
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var file struct {
		Failures []map[string]any `json:"failures"`
	}
	err = json.Unmarshal(raw, &file)
	o.Failures = file.Failures
	return err
}

func decoded(outputs any) (map[string]any, error) {
	raw, err := action.Outputs(outputs)
	if err != nil {
		return nil, err
	}
	v, err := expr.Decode(raw)
	m, _ := v.(map[string]any) // Outputs gives nothing else
	return m, err
}

func or(text, fallback string) string {
	if text == "" {
		return fallback
	}
	return text
}

// host is the action.Host of a segment and, with an id, of one of its steps.
type host struct {
	id     string
	parent *host
	scope  map[string]any

	mu     sync.Mutex
	counts map[string]action.Counts
	lines  []string
}

func (h *host) top() *host {
	if h.parent != nil {
		return h.parent
	}
	return h
}

var errNotHere = errors.New("streamtest has no such thing: a segment does not ask for it")

// Spawn implements action.Host.
func (h *host) Spawn(context.Context, []action.NewStep) error { return errNotHere }

// Log implements action.Host.
func (h *host) Log(level slog.Level, message string, attrs ...slog.Attr) {
	top := h.top()
	top.mu.Lock()
	defer top.mu.Unlock()
	top.lines = append(top.lines, fmt.Sprint(h.id, " ", level, " ", message, " ", attrs))
}

// Progress implements action.Host.
func (h *host) Progress(float64, string) {}

// Scope implements action.Host with the names of Segment.Scope.
func (h *host) Scope() action.Scope { return expr.Vars(h.top().scope) }

// Advance implements action.Host.
func (h *host) Advance() {}

// Count implements action.Host.
func (h *host) Count(c action.Counts) {
	top := h.top()
	top.mu.Lock()
	defer top.mu.Unlock()
	top.counts[h.id] = c
}

// Member implements action.Host.
func (h *host) Member(id string) action.Host { return &host{id: id, parent: h.top()} }

// Data implements action.Host.
func (h *host) Data(context.Context) (map[string]json.RawMessage, error) { return nil, errNotHere }

// Outputs implements action.Host.
func (h *host) Outputs(context.Context, string) (json.RawMessage, error) { return nil, errNotHere }

// Recall implements action.Host.
func (h *host) Own(context.Context, json.RawMessage) error { return nil }
func (h *host) Recall(context.Context, string) (json.RawMessage, bool, error) {
	return nil, false, errNotHere
}

// Record implements action.Host.
func (h *host) Record(context.Context, string, json.RawMessage) error { return errNotHere }

// Eval implements action.Host.
func (h *host) Eval(template string, extra map[string]any) (any, error) {
	t, err := expr.Parse(template)
	if err != nil {
		return nil, err
	}
	scope := map[string]any{}
	for _, names := range []map[string]any{h.top().scope, extra} {
		for name, v := range names {
			scope[name] = v
		}
	}
	return t.Eval(expr.Vars(scope), expr.Limits{})
}
