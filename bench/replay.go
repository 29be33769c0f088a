package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"time"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/rehearsal"
	"github.com/stepwell/stepwell/scenario"
	"github.com/stepwell/stepwell/sim"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/store"
)

// recorded is a pipeline of 12 rows: a loop, a condition, outputs that are read, and a step that fails once in every third execution.
const recorded = `
name: bench-recorded
parameters: [{name: n, type: integer}]
settings: {max_parallel_steps: 4}
steps:
  - {id: fetch, action: bench.call, params: {url: "https://example.com/{{ params.n }}"}}
  - {id: list, action: util.set_output, depends_on: [fetch], params: {items: [1, 2, 3]}}
  - {id: each, action: bench.call, depends_on: [list], for_each: {items: "{{ steps.list.outputs.items }}", max_concurrency: 2}, params: {item: "{{ item }}"}}
  - {id: flaky, action: bench.call, depends_on: [fetch], retry: {max_attempts: 2, backoff_seconds: 0}, params: {flaky: "{{ params.n % 3 == 0 }}"}}
  - {id: odd, action: bench.call, depends_on: [each], condition: "{{ params.n % 2 == 1 }}", params: {size: "{{ steps.fetch.outputs.size }}"}}
  - {id: join, action: bench.call, depends_on: [each, flaky], params: {size: "{{ steps.fetch.outputs.size }}", of: "{{ steps.each.outputs.completed }}"}}
  - {id: left, action: bench.call, depends_on: [join], params: {from: "{{ steps.join.outputs.size }}"}}
  - {id: right, action: bench.call, depends_on: [join], params: {from: "{{ steps.join.outputs.size }}"}}
finally: [{id: tell, action: util.set_output, params: {status: "{{ execution.status }}"}}]
outputs: {size: "{{ steps.join.outputs.size }}"}
`

// rerecorded is the same pipeline with one at a time, a step less, and another call.
const rerecorded = `
name: bench-recorded
parameters: [{name: n, type: integer}]
settings: {max_parallel_steps: 2}
steps:
  - {id: fetch, action: bench.call, params: {url: "https://example.com/{{ params.n }}"}}
  - {id: list, action: util.set_output, depends_on: [fetch], params: {items: [1, 2, 3]}}
  - {id: each, action: bench.call, depends_on: [list], for_each: {items: "{{ steps.list.outputs.items }}", max_concurrency: 1}, params: {item: "{{ item }}"}}
  - {id: flaky, action: bench.call, depends_on: [fetch], retry: {max_attempts: 3, backoff_seconds: 1}, params: {flaky: "{{ params.n % 3 == 0 }}"}}
  - {id: odd, action: bench.call, depends_on: [each], condition: "{{ params.n % 4 == 1 }}", params: {size: "{{ steps.fetch.outputs.size }}"}}
  - {id: join, action: bench.call, depends_on: [each, flaky], params: {size: "{{ steps.fetch.outputs.size + params.n % 2 }}", of: "{{ steps.each.outputs.completed }}"}}
  - {id: left, action: bench.call, depends_on: [join], params: {from: "{{ steps.join.outputs.size }}"}}
  - {id: right, action: bench.call, depends_on: [join], params: {from: "{{ steps.join.outputs.size }}"}}
finally: [{id: tell, action: util.set_output, params: {status: "{{ execution.status }}"}}]
outputs: {size: "{{ steps.join.outputs.size }}"}
`

var callSpec = spec.Spec{Name: "bench.call", Summary: "Calls something.", OpenParams: true, OpenOutputs: true}

// call is an action whose calls nobody can know beforehand. A flaky one fails at its first attempt.
var call = action.Action{Spec: callSpec, Handler: action.HandlerFunc(func(_ context.Context, c *action.Call) (any, error) {
	if flaky, _ := c.Params["flaky"].(bool); flaky && c.Attempt == 1 {
		return nil, errors.New("not yet")
	}
	return map[string]any{"size": int64(len(c.StepKey)), "status": int64(200), "body": map[string]any{"id": c.StepKey, "text": "some forty bytes of an answer in JSON"}}, nil
})}

func addCall(r *action.Registry) error { return r.Add(call) }

// replayResult is one measurement of replays.
type replayResult struct {
	Workload   string  `json:"workload"`
	Executions int     `json:"executions"`
	Fill       float64 `json:"fill_s"`
	Seconds    float64 `json:"backtest_s"`
	PerSecond  float64 `json:"replays_per_second"`
	CPU        float64 `json:"replay_cpu_us"` // user and system, of one execution: read, and played with two definitions
	Few        int     `json:"few"`
	FewSeconds float64 `json:"few_backtest_s"` // of the newest ones, the actions and the definition read anew
	Fold       float64 `json:"fold_s"`         // of the step logs of all, as doctor --upgrade does
	Cores      int     `json:"cores"`
	Peak       float64 `json:"peak_mb"` // of the backtest
	Fsync      float64 `json:"fsync_p50_ms"`
}

func (r *replayResult) head() string { return "" }

func (r *replayResult) text() string {
	return fmt.Sprintf("%d executions of 12 steps, stored in %.0f s: played with another definition in %.1f s, %.0f/s, %.0f µs of processor time each, peak %.0f MB; %d of them in %.2f s; all step logs folded in %.1f s; %d cores",
		r.Executions, r.Fill, r.Seconds, r.PerSecond, r.CPU, r.Peak, r.Few, r.FewSeconds, r.Fold, r.Cores)
}

// replay runs n executions, and plays them again with another definition.
func (b *bench) replay() error {
	return b.eachRun(func(db string) (row, error) { return b.replayOnce(db) })
}

const fewReplays = 200

func (b *bench) replayOnce(db string) (*replayResult, error) {
	r := &replayResult{Workload: b.workload, Executions: b.n, Few: min(b.n, fewReplays), Cores: runtime.GOMAXPROCS(0), Fsync: b.fsync}
	o := app.Options{DB: db, Synchronous: "normal", Register: addCall, Log: slog.New(slog.DiscardHandler)}
	began := time.Now()
	if err := withApp(b.ctx, o, b.record); err != nil {
		return nil, err
	}
	r.Fill = time.Since(began).Seconds()
	began = time.Now()
	if _, err := b.backtest(o, r.Few, r.Few); err != nil {
		return nil, err
	}
	r.FewSeconds = time.Since(began).Seconds()
	resetPeak()
	began, used := time.Now(), cpuTime()
	report, err := b.backtest(o, b.n, b.n)
	if err != nil {
		return nil, err
	}
	r.Seconds, r.CPU, r.Peak = time.Since(began).Seconds(), microseconds(cpuTime()-used)/float64(b.n), peakMB()
	r.PerSecond = float64(b.n) / r.Seconds
	if b.n >= 4 && (report.Same == b.n || report.Same == 0 || report.Is.P50 == report.Was.P50) {
		return nil, fmt.Errorf("the other definition changes nothing, or all: of %d executions %d are the same", b.n, report.Same)
	}
	began, folded := time.Now(), 0
	err = app.Refold(b.ctx, o, func(_ *store.Execution, wrong error) error {
		folded++
		return wrong
	})
	if err == nil && folded < b.n {
		err = fmt.Errorf("%d of %d step logs were folded", folded, b.n)
	}
	r.Fold = time.Since(began).Seconds()
	return r, err
}

// record runs the executions.
func (b *bench) record(ctx context.Context, a *app.App) error {
	d, err := replayed(recorded, a.Actions)
	if err != nil {
		return err
	}
	p, err := a.Conductor.Register(ctx, d)
	if err != nil {
		return err
	}
	return eachOf(ctx, b.n, func(i int) error {
		id, err := a.Conductor.Start(ctx, conductor.Request{Pipeline: p, Params: map[string]any{"n": int64(i)}})
		if err == nil {
			_, err = a.Conductor.Wait(ctx, id)
		}
		return err
	})
}

func replayed(document string, actions *action.Registry) (*definition.Definition, error) {
	d, problems := definition.Parse([]byte(document), definition.ParseOptions{File: "recorded.yaml"})
	if problems.Err() == nil {
		problems = append(problems, definition.Check(d, actions, "recorded.yaml")...)
	}
	if err := problems.Err(); err != nil {
		return nil, err
	}
	return definition.Expand(d, actions), nil
}

// backtest plays the newest executions, of which so many must be there.
func (b *bench) backtest(o app.Options, last, want int) (report *scenario.Backtest, err error) {
	r, err := app.OpenReading(b.ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	actions, err := app.Actions(o)
	if err != nil {
		return nil, err
	}
	is, err := replayed(rerecorded, actions)
	if err != nil {
		return nil, err
	}
	play := &rehearsal.Player{Actions: actions, How: scenario.ReplayOptions{Is: is}, Runner: func() (*scenario.Runner, func(), error) {
		streams, clock := &scenario.Streams{Dir: filepath.Join(b.dir, "streams")}, &sim.Clock{}
		actions, err := app.Actions(app.Options{Now: clock.Now, Register: addCall, Checkpoints: streams.Dir, Replace: streams.Replace})
		if err != nil {
			return nil, nil, err
		}
		return scenario.NewRunner(scenario.Options{Actions: actions, Clock: clock, Streams: streams}), func() {}, nil
	}}
	report, err = play.Backtest(b.ctx, r.Client, "bench-recorded", last, time.Time{})
	if err == nil && report.Executions != want {
		err = fmt.Errorf("%d of %d executions were played", report.Executions, want)
		if len(report.Failures) > 0 {
			err = fmt.Errorf("%w: %s", err, report.Failures[0].Error)
		}
	}
	return report, err
}
