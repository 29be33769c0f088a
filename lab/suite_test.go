package lab

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/scenario"
	"github.com/stepwell/stepwell/sim"
	"github.com/stepwell/stepwell/spec"
)

// The suite has everything that executions can do: retries, spawned steps, memos, secrets, loops, large outputs, waits, signals, approvals,
// groups and conditions; and streams, in a pipeline of their own.
const suitePipeline = `
name: suite
parameters: [{name: region, type: string, default: eu}]
settings: {timeout_seconds: 864000}
steps:
  - {id: fetch, action: util.exec, idempotent: true, params: {command: [fetch, "{{ params.region }}"], env: {TOKEN: "{{ secrets.token }}"}}, retry: {max_attempts: 5, backoff_seconds: 60}}
  - {id: spawn, action: t.spawn, idempotent: true, depends_on: [fetch]}
  - {id: memo, action: t.memo, idempotent: true, depends_on: [fetch], retry: {max_attempts: 4, backoff_seconds: 1}}
  - {id: each, action: util.exec, idempotent: true, depends_on: [fetch], for_each: {items: 4, max_failures: 2}, max_concurrency: 2, params: {command: ["{{ item }}"]}}
  - {id: large, action: t.large, idempotent: true, params: {n: 80000}}
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

// streamPipeline has two segments with a source, modifiers and sinks, one of which loses an item, and steps before and after them.
const streamPipeline = `
name: streams
steps:
  - {id: first, action: util.exec, idempotent: true, params: {command: [first]}}
  - {id: ingest, module: stac.ingest, depends_on: [first], config: {source: nowhere/collection.json}}
  - {id: license, module: stac.update, depends_on: [ingest], config: {updates: {properties.license: CC0-1.0}}}
  - {id: validate, module: stac.validate, depends_on: [license], config: {mode: offline, missing_schema: builtin}}
  - {id: output, module: stac.output, depends_on: [validate], config: {format: ndjson, output_path: items.ndjson}}
  - {id: last, action: util.exec, idempotent: true, depends_on: [output], params: {command: [last, "{{ steps.output.outputs.items_out }}"]}}
`

const streamTests = `
pipeline: streams.yaml
mock: {action util.exec: {outputs: {exit_code: 0}, takes: 1m}}
tests:
  - name: items
    items:
      ingest:
        - {type: Feature, stac_version: 1.0.0, id: a, collection: c, geometry: null, properties: {datetime: "2026-05-01T10:00:00Z"}, links: [], assets: {}}
        - {type: Feature, stac_version: 1.0.0, id: b, collection: c, geometry: null, properties: {}, links: [], assets: {}}
        - {type: Feature, stac_version: 1.0.0, id: c, collection: c, geometry: null, properties: {datetime: "2026-05-01T10:00:00Z"}, links: [], assets: {}}
  - name: a sink that fails
    items: {ingest: [{type: Feature, stac_version: 1.0.0, id: a, collection: c, geometry: null, properties: {datetime: "2026-05-01T10:00:00Z"}, links: [], assets: {}}]}
    mock: {output: {fail: the disk is full}}
`

// suiteOutcomes are how the tests of the suite end undisturbed.
var suiteOutcomes = map[string]string{"everything": "completed_with_failures", "nobody answers": "cancelled", "a wait that times out": "failed",
	"the goods come first, and a step is repeated": "completed_with_failures", "items": "completed_with_failures", "a sink that fails": "failed"}

// suiteActions are those of the suite, for one world.
func suiteActions(t testing.TB, clock *sim.Clock, streams *scenario.Streams) *action.Registry {
	t.Helper()
	r, err := app.Actions(app.Options{Now: clock.Now, Checkpoints: streams.Dir, Replace: streams.Replace})
	if err != nil {
		t.Fatal(err)
	}
	of := func(name string, f action.HandlerFunc, spawns ...string) action.Action {
		return action.Action{Spec: spec.Spec{Name: name, Summary: "For tests.", OpenParams: true, OpenOutputs: true, Spawns: spawns}, Handler: f}
	}
	err = r.Add(
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
		of("t.fragile", func(_ context.Context, c *action.Call) (any, error) {
			if c.Epoch > 2 {
				return nil, action.Fail(errors.New("it stands one repetition, and no more"))
			}
			return nil, nil
		}),
		of("t.large", func(_ context.Context, c *action.Call) (any, error) {
			n, err := strconv.Atoi(fmt.Sprint(c.Params["n"]))
			return map[string]any{"text": strings.Repeat("x", n)}, err
		}))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// newLab is a lab of tests whose pipelines are given by file.
func newLab(t testing.TB, o Options, pipelines map[string]string) *Lab {
	t.Helper()
	o.Runner = func() (*scenario.Runner, func(), error) {
		clock, streams := &sim.Clock{}, &scenario.Streams{Dir: filepath.Join(t.TempDir(), "streams")}
		r := suiteActions(t, clock, streams)
		real := map[string]action.Handler{}
		for _, name := range []string{"t.spawn", "t.memo", "t.seal", "t.large", "t.fragile"} {
			act, _ := r.Lookup(name)
			real["action "+name] = act.Handler
		}
		return scenario.NewRunner(scenario.Options{Actions: r, Clock: clock, Streams: streams, Handlers: real, Load: func(file string) (*definition.Definition, definition.Problems, error) {
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
