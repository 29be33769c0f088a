package bench

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/plugin"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/worker/link"
)

// PlugIn is the workload of the process that `bench plugin` has as a plugin.
const PlugIn = "plugged"

// pluggedChain is how many steps the chains of `bench plugin` have.
const pluggedChain = 1000

// plugged is the no-op of the plugin.
var plugged = action.Action{Spec: spec.Spec{Name: "plugged.noop", Summary: "Does nothing."},
	Handler: action.HandlerFunc(func(context.Context, *action.Call) (any, error) { return nil, nil })}

// pluginResult is the result of a run of `bench plugin`: steps of a plugin, and the same with the no-op of the program.
type pluginResult struct {
	Workload  string  `json:"workload"`
	N         int     `json:"n"`
	Chain     float64 `json:"chain_ms_per_step"`
	Own       float64 `json:"own_chain_ms_per_step"`
	Over      float64 `json:"over_ms_per_step"`
	StepsPerS float64 `json:"steps_per_s"` // of a fan-out of N
	OwnPerS   float64 `json:"own_steps_per_s"`
	Sync      string  `json:"sync"`
	Fsync     float64 `json:"fsync_p50_ms"`
}

func (r *pluginResult) head() string { return "" }

func (r *pluginResult) text() string {
	return fmt.Sprintf("plugin: chain %.4f ms/step, of the program's own no-op %.4f, %.4f more; fan-out of %d: %.0f steps/s, own %.0f; fsync %.3f ms", r.Chain, r.Own, r.Over, r.N, r.StepsPerS, r.OwnPerS, r.Fsync)
}

// plugin measures what a step costs that a plugin runs.
func (b *bench) plugin() error {
	return b.eachRun(func(db string) (row, error) {
		r := &pluginResult{Workload: "plugin", N: b.n, Sync: b.Sync, Fsync: b.fsync}
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		programs := map[string]plugin.Program{"plugged": {Command: []string{self, "bench", PlugIn}}}
		err = b.serving(b.ctx, app.ServerOptions{Options: app.Options{DB: db, Synchronous: b.Sync, Workers: b.Workers}, Plugins: programs}, func(ctx context.Context, s *app.Server) error {
			if err := awaitPlugged(ctx, s.App); err != nil {
				return err
			}
			return b.measurePlugin(ctx, s.App, r)
		})
		return r, err
	})
}

// measurePlugin runs a chain and a fan-out of each kind; the first of each warms up.
func (b *bench) measurePlugin(ctx context.Context, a *app.App, r *pluginResult) error {
	for _, m := range []struct {
		action    string
		ms, perS  *float64
		steps     int
		connected bool
	}{{"util.noop", &r.Own, nil, pluggedChain, true}, {plugged.Spec.Name, &r.Chain, nil, pluggedChain, true}, {"util.noop", nil, &r.OwnPerS, b.n, false}, {plugged.Spec.Name, nil, &r.StepsPerS, b.n, false}} {
		l := &load{bench: b, app: a, result: &result{}}
		steps := make([]definition.Step, m.steps)
		for i := range steps {
			steps[i] = definition.Step{ID: fmt.Sprintf("s%d", i), Action: m.action}
			if m.connected && i > 0 {
				steps[i].DependsOn = []string{steps[i-1].ID}
			}
		}
		p, err := l.pipeline(ctx, "bench-plugin", steps...)
		if err != nil {
			return err
		}
		began := time.Now()
		if err := l.run(ctx, p); err != nil {
			return err
		}
		took := time.Since(began)
		if m.ms != nil {
			*m.ms = ms(took) / float64(m.steps)
		} else {
			*m.perS = float64(m.steps) / took.Seconds()
		}
	}
	r.Over = r.Chain - r.Own
	return nil
}

// awaitPlugged waits until the plugin has joined.
func awaitPlugged(ctx context.Context, a *app.App) error {
	ctx, end := context.WithTimeout(ctx, joinPatience)
	defer end()
	for {
		if _, known := a.Actions.Spec(plugged.Spec.Name); known {
			return nil
		}
		if err := action.Pause(ctx, 5*time.Millisecond); err != nil {
			return fmt.Errorf("the plugin has not joined: %w", err)
		}
	}
}

// plug is the plugin.
func plug() error {
	app.KeepHeadroom()
	return link.Serve("", plugged)
}
