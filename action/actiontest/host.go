package actiontest

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/expr"
)

// host is an action.Host that keeps everything in memory.
type host struct {
	call *Call

	mu       sync.Mutex
	logs     []Line
	progress []Progress
	spawned  []action.NewStep
	owned    json.RawMessage
}

// Spawn implements action.Host: all of the steps or, when one is wrong, none of them.
func (h *host) Spawn(ctx context.Context, steps []action.NewStep) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	spawned := h.spawned
	for _, s := range steps {
		s, err := h.call.Registry.Complete(s)
		if err != nil {
			return err
		}
		same := slices.IndexFunc(spawned, func(other action.NewStep) bool { return other.StepKey() == s.StepKey() })
		if same < 0 {
			spawned = append(spawned, s)
			continue
		}
		if equal, err := equalParams(spawned[same].Params, s.Params); err != nil || !equal {
			return &stepwell.Error{Code: stepwell.CodeConflict, Err: err,
				Message: fmt.Sprintf("step %s was spawned with other params", s.StepKey())}
		}
	}
	h.spawned = spawned
	return nil
}

// equalParams compares params as they are stored.
func equalParams(a, b map[string]any) (bool, error) {
	left, err := json.Marshal(a)
	if err != nil {
		return false, err
	}
	right, err := json.Marshal(b)
	return string(left) == string(right), err
}

// Log implements action.Host.
func (h *host) Log(level slog.Level, message string, attrs ...slog.Attr) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.logs = append(h.logs, Line{level, message, slices.Clone(attrs)})
}

// Progress implements action.Host.
func (h *host) Progress(fraction float64, note string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.progress = append(h.progress, Progress{fraction, note})
}

// Advance implements action.Host.
func (h *host) Advance() {}

// Count implements action.Host.
func (h *host) Count(action.Counts) {}

// Scope implements action.Host with the names of Call.Scope.
func (h *host) Scope() action.Scope { return expr.Vars(h.call.Scope) }

// Member implements action.Host: a member's host is the step's.
func (h *host) Member(string) action.Host { return h }

// Data implements action.Host.
func (h *host) Data(context.Context) (map[string]json.RawMessage, error) {
	data := map[string]json.RawMessage{}
	for key, value := range h.call.Data {
		raw, err := json.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("data %s: %w", key, err)
		}
		data[key] = raw
	}
	return data, nil
}

// Outputs implements action.Host.
func (h *host) Outputs(_ context.Context, key string) (json.RawMessage, error) {
	value, ok := h.call.Outputs[key]
	if !ok {
		return nil, &stepwell.Error{Code: stepwell.CodeNotFound, Message: fmt.Sprintf("step %q has no outputs", key)}
	}
	return json.Marshal(value)
}

// Recall implements action.Host.
func (h *host) Recall(_ context.Context, key string) (json.RawMessage, bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	raw, ok := h.call.Memory[key]
	return slices.Clone(raw), ok, nil
}

// Record implements action.Host.
func (h *host) Record(_ context.Context, key string, value json.RawMessage) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.call.Memory[key] = slices.Clone(value)
	return nil
}

// Eval implements action.Host with the names of Call.Scope and extra.
// Own implements action.Host.
func (h *host) Own(_ context.Context, state json.RawMessage) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.owned = state
	return nil
}

func (h *host) Eval(template string, extra map[string]any) (any, error) {
	t, err := expr.Parse(template)
	if err != nil {
		return nil, err
	}
	scope := maps.Clone(h.call.Scope)
	if scope == nil {
		scope = map[string]any{}
	}
	maps.Copy(scope, extra)
	return t.Eval(expr.Vars(scope), expr.Limits{})
}
