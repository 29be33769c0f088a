package lab

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/builtin"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/scenario"
	"github.com/stepwell/stepwell/sim"
	"github.com/stepwell/stepwell/spec"
)

// The suite has everything that executions can do but streams, which the examples have.
const suitePipeline = `
name: suite
parameters: [{name: region, type: string, default: eu}]
settings: {timeout_seconds: 864000}
steps:
  - {id: fetch, action: util.exec, idempotent: true, params: {command: [fetch, "{{ params.region }}"], env: {TOKEN: "{{ secrets.token }}"}}, retry: {max_attempts: 5, backoff_seconds: 60}}
  - {id: spawn, action: t.spawn, idempotent: true, depends_on: [fetch]}
  - {id: memo, action: t.memo, idempotent: true, depends_on: [fetch], retry: {max_attempts: 4, backoff_seconds: 1}}
  - {id: each, action: util.exec, idempotent: true, depends_on: [fetch], for_each: {items: 4, max_failures: 2}, max_concurrency: 2, params: {command: ["{{ item }}"]}}
  - {id: large, action: t.large, idempotent: true, params: {n: 40000}}
  - {id: nap, action: util.wait, params: {duration: 3h}}
  - {id: ask, action: util.approval, depends_on: [nap], params: {message: "go?"}}
  - {id: goods, action: util.wait_for, depends_on: [fetch], params: {event: goods, timeout_seconds: 400000}}
  - {id: charge, action: util.exec, idempotent: false, depends_on: [ask], params: {command: [charge]}}
  - {id: never, action: util.log, depends_on: [fetch], condition: "{{ params.region == 'us' }}", params: {message: no}}
  - {id: more, action: util.wait_for, depends_on: [goods], on_failure: continue, params: {event: goods, timeout_seconds: 600}}
  - {id: seal, action: t.seal, idempotent: false, depends_on: [fetch], on_failure: continue, params: {}}
  - id: group
    depends_on: [goods]
    steps:
      - {id: a, action: util.exec, idempotent: true, on_failure: continue, params: {command: [a]}}
      - {id: b, action: util.log, depends_on: [a], trigger_rule: one_failed, params: {message: "it failed"}}
  - {id: join, action: util.log, depends_on: [leaf, each, never, large, charge, group, memo], params: {message: "{{ steps.each.outputs.completed }} of {{ steps.large.outputs.text | length }}"}}
finally: [{id: tell, action: util.log, params: {message: "{{ execution.status }}"}}]
outputs: {done: "{{ steps.each.outputs.completed }}", by: "{{ steps.ask.outputs.by }}", boxes: "{{ steps.goods.outputs.boxes }}", memo: "{{ steps.memo.outputs.value }}"}
`

const suiteTests = `
pipeline: suite.yaml
secrets: {token: s3cr3t-value}
mock:
  fetch:
    - {fail: "503", times: 2, takes: 3s}
    - {outputs: {exit_code: 0}, takes: 2s, logs: [hello]}
  each[2]: {fail: "404", permanent: true}
  group.a: {fail: exit 1, permanent: true, takes: 1s}
  action util.exec: {outputs: {exit_code: 0}, takes: 5m}
tests:
  - name: everything
    when:
      - {step: ask, is: waiting, for: 30m, approve: {by: anna}}
      - {step: goods, is: waiting, for: 12h, signal: {event: goods, outputs: {boxes: 3}}}
  - name: nobody answers
    when: [{step: goods, is: waiting, for: 1h, signal: {event: goods, outputs: {boxes: 3}}}, {after: 9h, cancel: too late}]
  - name: a wait that times out
    when: [{step: ask, is: waiting, approve: {by: anna}}]
  - name: the goods come first, and a step is repeated
    when:
      - {after: 1m, signal: {event: goods, outputs: {boxes: 4}}}
      - {step: charge, is: running, for: 1m, pause: true}
      - {after: 8h, resume: true}
      - {step: ask, is: waiting, for: 1m, approve: {by: anna}}
      - {after: 20h, restart: each}
`

// suiteOutcomes are how the tests of the suite end undisturbed.
var suiteOutcomes = map[string]string{"everything": "completed_with_failures", "nobody answers": "cancelled", "a wait that times out": "failed",
	"the goods come first, and a step is repeated": "completed_with_failures"}

// suiteActions are those of the suite, for one world.
func suiteActions(t testing.TB, clock *sim.Clock) *action.Registry {
	t.Helper()
	r := &action.Registry{}
	of := func(name string, f action.HandlerFunc, spawns ...string) action.Action {
		return action.Action{Spec: spec.Spec{Name: name, Summary: "For tests.", OpenParams: true, OpenOutputs: true, Spawns: spawns}, Handler: f}
	}
	err := errors.Join(builtin.Register(r, builtin.Options{Now: clock.Now}), r.Add(
		of("t.spawn", func(ctx context.Context, c *action.Call) (any, error) {
			return nil, c.Spawn(ctx, action.NewStep{Name: "leaf", Key: "a", Action: "util.noop"}, action.NewStep{Name: "leaf", Key: "b", Action: "util.log", Params: map[string]any{"message": "spawned"}})
		}, "leaf"),
		of("t.memo", func(ctx context.Context, c *action.Call) (any, error) {
			value, err := action.Once(ctx, c, "token", func(context.Context) (string, error) {
				return fmt.Sprint(clock.Now().Unix(), " ", c.Attempt), nil
			})
			if err == nil && c.Attempt == 1 {
				err = errors.New("after the memo")
			}
			return map[string]any{"value": strings.Fields(value + " ")[0] != ""}, err
		}),
		of("t.seal", func(context.Context, *action.Call) (any, error) { return map[string]any{"sealed": true}, nil }),
		of("t.large", func(_ context.Context, c *action.Call) (any, error) {
			n, err := strconv.Atoi(fmt.Sprint(c.Params["n"]))
			return map[string]any{"text": strings.Repeat("x", n)}, err
		})))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// newLab is a lab of tests whose pipelines are given by file.
func newLab(t testing.TB, o Options, pipelines map[string]string) *Lab {
	t.Helper()
	o.Runner = func() (*scenario.Runner, func(), error) {
		clock := &sim.Clock{}
		r := suiteActions(t, clock)
		real := map[string]action.Handler{}
		for _, name := range []string{"t.spawn", "t.memo", "t.seal", "t.large"} {
			act, _ := r.Lookup(name)
			real["action "+name] = act.Handler
		}
		return scenario.NewRunner(scenario.Options{Actions: r, Clock: clock, Handlers: real, Load: func(file string) (*definition.Definition, definition.Problems, error) {
			d, problems := definition.Parse([]byte(pipelines[file]), definition.ParseOptions{File: file})
			if problems.Err() == nil {
				problems = append(problems, definition.Check(d, r, file)...)
			}
			return d, problems, nil
		}}), func() {}, nil
	}
	l, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

func parseTests(t testing.TB, file, text string) []*scenario.Test {
	t.Helper()
	tests, problems := scenario.Parse(file, []byte(text))
	if problems.Err() != nil {
		t.Fatal(problems)
	}
	return tests
}
