package bench

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/lab"
	"github.com/stepwell/stepwell/scenario"
	"github.com/stepwell/stepwell/sim"
)

// nightly is a pipeline of 11 rows with two retries, a loop, a step that is skipped and one at the end: nine minutes of its own time.
const nightly = `
name: nightly
parameters: [{name: region, type: string, enum: [eu, us], default: eu}]
steps:
  - {id: fetch, action: util.http, params: {url: "https://api.example.com/{{ params.region }}/orders"}, retry: {max_attempts: 3, backoff_seconds: 60}}
  - {id: each, action: util.http, depends_on: [fetch], for_each: {items: "{{ steps.fetch.outputs.body.orders }}", max_failures: 1}, params: {url: "https://api.example.com/orders/{{ item.id }}"}}
  - {id: deploy, action: util.exec, depends_on: [each], params: {command: [deploy, "{{ params.region }}"]}}
  - {id: charge, action: util.exec, depends_on: [each], idempotent: false, params: {command: [charge, "{{ steps.each.outputs.completed }}"]}}
  - {id: rollback, action: util.exec, depends_on: [deploy], trigger_rule: one_failed, params: {command: [rollback]}}
  - {id: report, action: util.log, depends_on: [deploy, rollback, charge], trigger_rule: none_failed, params: {message: "{{ steps.each.outputs.completed }} orders"}}
finally: [{id: tell, action: util.log, params: {message: "{{ execution.status }}"}}]
outputs: {orders: "{{ steps.each.outputs.completed }}"}
`

const nightlyTest = `
pipeline: nightly.yaml
mock:
  fetch:
    - {fail: "503", code: unavailable, times: 2, takes: 3s}
    - {outputs: {status: 200, body: {orders: [{id: 7}, {id: 8}, {id: 9}, {id: 10}]}}}
  each[*]: {outputs: {status: 200}, takes: 200ms}
  each[1]: {fail: "404", permanent: true}
  action util.exec: {outputs: {exit_code: 0}, takes: 5m}
tests:
  - name: the third attempt succeeds
    expect:
      status: completed_with_failures
      outputs: {orders: 3}
      steps: {fetch: {status: completed, attempts: 3, after: 2m}, rollback: {status: skipped, why: trigger_rule}}
      logs: {report: ["3 orders"]}
`

// chainOf is a pipeline of n steps, each after the one before it.
func chainOf(n int) string {
	b := strings.Builder{}
	b.WriteString("name: chain\nsteps:\n")
	for i := range n {
		fmt.Fprintf(&b, "  - {id: s%d, action: util.exec, idempotent: true, params: {command: [run]}", i)
		if i > 0 {
			fmt.Fprintf(&b, ", depends_on: [s%d]", i-1)
		}
		b.WriteString("}\n")
	}
	return b.String()
}

const chainTest = `
pipeline: chain.yaml
mock: {action util.exec: {outputs: {exit_code: 0}, takes: 1m}}
tests: [{name: chain}]
`

// chainSteps is how many steps the pipeline has whose crashes are counted.
const chainSteps = 50

// testsResult is one measurement of tests and of the crash lab.
type testsResult struct {
	Workload  string  `json:"workload"`
	Tests     int     `json:"tests"`
	PerSecond float64 `json:"tests_per_second"` // compiling the pipeline included
	CPU       float64 `json:"test_cpu_us"`      // user and system, of one test
	Points    int     `json:"crash_points"`     // runs with one fault, of a pipeline of 50 steps
	Crashed   float64 `json:"crash_points_per_second"`
	CrashCPU  float64 `json:"crash_point_cpu_us"`
	Cores     int     `json:"cores"`
	Peak      float64 `json:"peak_mb"`
}

func (r *testsResult) head() string { return "" }

func (r *testsResult) text() string {
	return fmt.Sprintf("tests of a pipeline of 11 rows: %d, %.0f/s, %.0f µs of processor time each; crash points of one of %d steps: %d, %.0f/s, %.0f µs each; %d cores, peak %.0f MB",
		r.Tests, r.PerSecond, r.CPU, chainSteps, r.Points, r.Crashed, r.CrashCPU, r.Cores, r.Peak)
}

func (b *bench) tests() error {
	return b.eachRun(func(string) (row, error) { return b.testsOnce() })
}

func (b *bench) testsOnce() (*testsResult, error) {
	r := &testsResult{Workload: b.workload, Tests: b.n, Cores: cmp.Or(b.Workers, runtime.GOMAXPROCS(0))}
	began, used := time.Now(), cpuTime()
	if err := b.testAll(r); err != nil {
		return nil, err
	}
	r.PerSecond, r.CPU = float64(b.n)/time.Since(began).Seconds(), microseconds(cpuTime()-used)/float64(b.n)
	l, err := lab.New(lab.Options{Budget: time.Hour, Orders: 1, Pairs: 1, Seconds: 1, Workers: r.Cores, Runner: func() (*scenario.Runner, func(), error) { return b.runner() }})
	if err != nil {
		return nil, err
	}
	defer l.Close()
	tests, problems := scenario.Parse("chain.test.yaml", []byte(chainTest))
	if err := problems.Err(); err != nil {
		return nil, err
	}
	began, used = time.Now(), cpuTime()
	res, err := l.Run(b.ctx, tests[0])
	if err != nil {
		return nil, err
	}
	if res.Worst() != "" {
		return nil, fmt.Errorf("the lab has found %s", res.Findings[0].Message)
	}
	r.Points = res.Runs
	r.Crashed, r.CrashCPU, r.Peak = float64(res.Runs)/time.Since(began).Seconds(), microseconds(cpuTime()-used)/float64(res.Runs), peakMB()
	return r, nil
}

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// testAll runs the test as often as it is asked for, on all cores.
func (b *bench) testAll(r *testsResult) error {
	tests, problems := scenario.Parse("nightly.test.yaml", []byte(nightlyTest))
	if err := problems.Err(); err != nil {
		return err
	}
	var next atomic.Int64
	failed := make([]error, r.Cores)
	var all sync.WaitGroup
	for i := range r.Cores {
		all.Go(func() {
			runner, done, err := b.runner()
			if err != nil {
				failed[i] = err
				return
			}
			defer done()
			for next.Add(1) <= int64(b.n) && failed[i] == nil {
				var res *scenario.Result
				if res, failed[i] = runner.Run(b.ctx, tests[0]); failed[i] == nil && !res.Passed {
					failed[i] = fmt.Errorf("the test has failed: %s", res.Failures[0].Message)
				}
			}
		})
	}
	all.Wait()
	for _, err := range failed {
		if err != nil {
			return err
		}
	}
	return nil
}

// runner runs tests of the two pipelines. done deletes what it has written.
func (b *bench) runner() (*scenario.Runner, func(), error) {
	dir, err := os.MkdirTemp(b.dir, "tests-")
	if err != nil {
		return nil, nil, err
	}
	streams, clock := &scenario.Streams{Dir: filepath.Join(dir, "streams")}, &sim.Clock{}
	actions, err := app.Actions(app.Options{Now: clock.Now, Checkpoints: streams.Dir, Replace: streams.Replace})
	if err != nil {
		return nil, nil, err
	}
	sources := map[string]string{"nightly.yaml": nightly, "chain.yaml": chainOf(chainSteps)}
	load := func(file string) (*definition.Definition, definition.Problems, error) {
		d, problems := definition.Parse([]byte(sources[file]), definition.ParseOptions{File: file})
		if problems.Err() == nil {
			problems = append(problems, definition.Check(d, actions, file)...)
		}
		return d, problems, nil
	}
	return scenario.NewRunner(scenario.Options{Actions: actions, Clock: clock, Streams: streams, Load: load}), func() {}, nil // b.dir is deleted
}
