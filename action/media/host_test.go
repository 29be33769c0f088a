package media

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"reflect"
	"sync"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
)

// host keeps what a step tells the system, with the rules of action.Host.
type host struct {
	mu       sync.Mutex
	records  map[string]json.RawMessage
	steps    map[string]action.NewStep
	order    []string
	fraction float64
	logs     []string
	onSpawn  func(action.NewStep) error
	onRecord func(key string) error

	sourceChanges bool // the test itself changes the source
}

func newHost() *host {
	return &host{records: map[string]json.RawMessage{}, steps: map[string]action.NewStep{}}
}

func (h *host) Spawn(_ context.Context, steps []action.NewStep) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range steps {
		if h.onSpawn != nil {
			if err := h.onSpawn(s); err != nil {
				return err
			}
		}
		key := s.Name + ":" + s.Key
		if old, ok := h.steps[key]; ok {
			if !reflect.DeepEqual(old, s) {
				return &stepwell.Error{Code: stepwell.CodeConflict, Message: "step " + key + " exists with other params"}
			}
			continue
		}
		h.steps[key] = s
		h.order = append(h.order, key)
	}
	return nil
}

func (h *host) Log(_ slog.Level, message string, attrs ...slog.Attr) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range attrs {
		message += " " + a.String()
	}
	h.logs = append(h.logs, message)
}

func (h *host) Progress(fraction float64, _ string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fraction = fraction
}

func (h *host) Data(context.Context) (map[string]json.RawMessage, error) { return nil, nil }

func (h *host) Outputs(context.Context, string) (json.RawMessage, error) {
	return nil, &stepwell.Error{Code: stepwell.CodeNotFound, Message: "no outputs"}
}

func (h *host) Count(action.Counts) {}

func (h *host) Advance() {}

func (h *host) Scope() action.Scope { return nil }

func (h *host) Own(context.Context, json.RawMessage) error { return nil }

func (h *host) Member(string) action.Host { return h }

func (h *host) Recall(_ context.Context, key string) (json.RawMessage, bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	raw, ok := h.records[key]
	return raw, ok, nil
}

func (h *host) Record(_ context.Context, key string, value json.RawMessage) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.onRecord != nil {
		if err := h.onRecord(key); err != nil {
			return err
		}
	}
	if _, there := h.records[key]; !there { // the first one stays
		h.records[key] = value
	}
	return nil
}

func (h *host) Eval(string, map[string]any) (any, error) { return nil, errors.New("no templates here") }
