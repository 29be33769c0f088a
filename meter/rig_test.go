package meter_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/meter"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// flaky fails the first time, well works, bad never does.
func actions() func(*action.Registry) error {
	var tries atomic.Int32
	add := func(name string, f func() error) action.Action {
		return action.Action{Spec: spec.Spec{Name: name, Summary: "For tests."}, Handler: action.HandlerFunc(func(context.Context, *action.Call) (any, error) {
			return map[string]any{"ok": true}, f()
		})}
	}
	return func(r *action.Registry) error {
		return r.Add(add("t.well", func() error { return nil }), add("t.bad", func() error { return action.Fail(errors.New("never works")) }),
			add("t.flaky", func() error {
				if tries.Add(1) == 1 {
					return errors.New("not yet")
				}
				return nil
			}))
	}
}

// play runs pipelines to their ends with a meter watching.
func play(t *testing.T, m *meter.Meter, started func(id string), list ...*definition.Definition) (rows []*store.Execution, steps [][]store.Step) {
	t.Helper()
	a, err := app.New(t.Context(), app.Options{DB: filepath.Join(t.TempDir(), "m.db"), Register: actions(), Observe: m.Observe, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	defer func() {
		cancel()
		if err := errors.Join(<-done, a.Close()); err != nil {
			t.Error(err)
		}
	}()
	for _, d := range list {
		p, err := a.Conductor.Register(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		id, err := a.Conductor.Start(t.Context(), conductor.Request{Pipeline: p})
		if err != nil {
			t.Fatal(err)
		}
		started(id)
		x, err := a.Conductor.Wait(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		list, err := a.Store.Steps(t.Context(), x.No, store.StepFilter{})
		if err != nil {
			t.Fatal(err)
		}
		rows, steps = append(rows, x), append(steps, list)
	}
	return rows, steps
}

func good() *definition.Definition {
	return &definition.Definition{Name: "good", Steps: []definition.Step{{ID: "a", Action: "t.well"},
		{ID: "b", Action: "t.flaky", DependsOn: []string{"a"}, Retry: &definition.Retry{MaxAttempts: 3, BackoffSeconds: 0.001}}}}
}

func bad() *definition.Definition {
	return &definition.Definition{Name: "bad", Steps: []definition.Step{{ID: "a", Action: "t.bad"}, {ID: "b", Action: "t.well", DependsOn: []string{"a"}}}}
}

// text is the metrics in Prometheus's text format.
func text(t *testing.T, m *meter.Meter) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	raw, err := io.ReadAll(w.Body)
	if err != nil || w.Code != 200 {
		t.Fatalf("%d %v", w.Code, err)
	}
	return string(raw)
}

// want checks lines of the text.
func want(t *testing.T, text string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains(text, "\n"+line+"\n") {
			name, _, _ := strings.Cut(line, "{")
			var there []string
			for l := range strings.SplitSeq(text, "\n") {
				if strings.HasPrefix(l, name) {
					there = append(there, l)
				}
			}
			t.Errorf("no line %s, but\n%s", line, strings.Join(there, "\n"))
		}
	}
}
