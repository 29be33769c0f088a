package scenario

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/builtin"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/sim"
	"github.com/stepwell/stepwell/spec"
)

// runner has the built-in actions, and pipelines by name.
func runner(t *testing.T, pipelines map[string]string) *Runner {
	t.Helper()
	clock, r := &sim.Clock{}, &action.Registry{}
	err := errors.Join(builtin.Register(r, builtin.Options{Now: clock.Now}))
	if err != nil {
		t.Fatal(err)
	}
	return NewRunner(Options{Actions: r, Clock: clock, Load: func(file string) (*definition.Definition, definition.Problems, error) {
		d, problems := definition.Parse([]byte(pipelines[file]), definition.ParseOptions{File: file})
		if problems.Err() == nil {
			problems = append(problems, definition.Check(d, r, file)...)
		}
		return d, problems, nil
	}})
}

const flow = `
name: flow
settings: {sla: {expected_seconds: 5000}}
steps:
  - {id: a, action: util.exec, params: {command: [x]}, retry: {max_attempts: 4, backoff_seconds: 3600}}
  - {id: spawner, action: util.exec, depends_on: [a], params: {command: [y]}}
  - {id: wait, action: util.wait_for, depends_on: [a], params: {event: go, timeout_seconds: 90000}}
outputs: {n: "{{ steps.a.outputs.n }}", boxes: "{{ steps.wait.outputs.boxes }}"}
`

// every outcome, played by the engine.
const outcomes = `
pipeline: flow.yaml
mock: {a: {outputs: {exit_code: 0, n: 1}}, spawner: {outputs: {exit_code: 0}}}
tests:
  - name: outcomes
    mock:
      a:
        - {fail: one, takes: 1s}
        - {panic: two}
        - {lose_worker: true, takes: 5s}
        - {defer: 30m}
        - {wait: {for: 2h, again: true}}
        - {outputs: {exit_code: 0, n: "{{ call.attempt }}", calls: "{{ call.number }}"}}
    when: [{after: 1h, signal: {event: go, outputs: {boxes: 3}}}]
    expect:
      outputs: {n: 4, boxes: 3}
      steps: {a: {attempts: 4, outputs: {calls: 6}}}
      duration: {above: 4h, below: 8h}
  - name: large outputs
    mock: {a: {outputs: {exit_code: 0, n: "{{ 'x' * 100000 }}"}}}
    when: [{step: wait, is: waiting, signal: {event: go, outputs: {boxes: "{{ 1 }}"}}}, {after: 2h, restart_process: true}]
    expect: {outputs: {n: {$match: "^x{1000}"}}}
  - name: paused and restarted
    when:
      - {step: spawner, is: completed, pause: true}
      - {after: 10h, resume: true}
      - {after: 11h, restart: spawner}
      - {after: 12h, signal: {event: go, outputs: {boxes: 1}}}
    expect: {calls: {spawner: {$count: 2}}, duration: 12h}
  - name: a price, a promise, and who does not listen
    mock:
      a: [{fail: one, cost: 0.5}, {outputs: {exit_code: 0, n: 1}, cost: 1.25, ignores_stop: true, takes: 50m}]
    when:
      - {after: 80m, cancel: enough}
    expect: {status: cancelled, cost: 1.75, breached: expected, steps: {a: {status: completed, cost: 1.75}, wait: {status: cancelled, why: enough}}}
  - name: "an answer, and the wait is {{ row.wait }}"
    table: [{signal: {event: go, skip: not today}, wait: skipped, status: completed}, {signal: {event: go, fail: broken, permanent: true}, wait: failed, status: failed}]
    when: [{step: wait, is: waiting, signal: "{{ row.signal }}"}]
    expect: {status: "{{ row.status }}", steps: {wait: "{{ row.wait }}"}}
  - name: nobody answers
    expect: {status: failed, steps: {wait: {status: timed_out, why: no answer}}, duration: 25h}
`

func TestOutcomes(t *testing.T) {
	tests, problems := Parse("flow.test.yaml", []byte(outcomes))
	if problems.Err() != nil {
		t.Fatal(problems)
	}
	r := runner(t, map[string]string{"flow.yaml": flow})
	first := ""
	rounds := 1000
	if testing.Short() {
		rounds = 50
	}
	for round := range rounds {
		report := &Report{}
		for _, test := range tests {
			result, err := r.Run(t.Context(), test)
			if err != nil {
				t.Fatal(err)
			}
			report.Add(result)
		}
		var text bytes.Buffer
		if err := report.WriteText(&text, true); err != nil {
			t.Fatal(err)
		}
		if report.Failed > 0 {
			t.Fatal(text.String())
		}
		if round == 0 {
			first = text.String()
		} else if text.String() != first {
			t.Fatalf("round %d gave another report:\n%s\nthe first was\n%s", round, text.String(), first)
		}
	}
}

func TestComparison(t *testing.T) {
	got := map[string]any{"n": int64(3), "f": 2.5, "s": "hello world", "list": []any{int64(1), "two", map[string]any{"three": nil}}, "none": nil}
	for text, want := range map[string]string{
		`{n: 3, s: hello world}`:             "",
		`{n: 3.0}`:                           "",
		`{n: "3"}`:                           `x.n: expected "3", got 3`,
		`{n: {$above: 2, $below: 4}}`:        "",
		`{n: {$above: 3}}`:                   "x.n: expected more than 3, got 3",
		`{s: {$match: "^hello .*d$"}}`:       "",
		`{s: {$match: "^w"}}`:                `x.s: expected a text that matches ^w, got "hello world"`,
		`{s: {$contains: lo w}}`:             "",
		`{list: {$contains: two}}`:           "",
		`{list: {$count: 3}}`:                "",
		`{list: {$count: 2}}`:                "x.list: expected 2 of them, got 3",
		`{list: [1, two, {}]}`:               "",
		`{list: [1, two]}`:                   `x.list: expected a list of 2, got [1,"two",{"three":null}]`,
		`{list: [1, two, {$exact: {}}]}`:     `x.list[2]: expected exactly {}, got {"three":null}`,
		`{missing: 1}`:                       "x.missing: expected 1, it is not there; there are f, list, n, none, s",
		`{missing: {$not: 1}, n: {$not: 4}}`: "",
		`{n: {$not: 3}}`:                     "x.n: expected anything but 3, got 3",
		`{none: null, n: {$any: true}}`:      "",
		`{none: {$any: true}}`:               "x.none: expected anything, got null",
		`{f: 2.5, n: "{{ 1 + 2 }}"}`:         "",
		`[1]`:                                "x: expected a list of 1, got {",
	} {
		n, report := definition.Nodes("x.yaml", []byte(text))
		if n == nil {
			t.Fatal(report.Problems())
		}
		var found []string
		(&comparison{fail: func(pos spec.Pos, message string) {
			if pos.Line == 0 {
				t.Errorf("%s: no place", text)
			}
			found = append(found, message)
		}, scope: exprVars{}}).value(n, "x", got)
		if all := strings.Join(found, "; "); (want == "") != (all == "") || !strings.HasPrefix(all, want) {
			t.Errorf("%s\n got %q\nwant %q", text, all, want)
		}
	}
}

type exprVars struct{}

func (exprVars) Lookup(string) (any, bool) { return nil, false }

func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		name, key, id string
		want          int
	}{{"each[1]", "each[1]", "each", 3}, {"each[*]", "each[1]", "each", 2}, {"each", "each[1]", "each", 1}, {"each[*]", "each", "each", 0}, {"g[*].in", "g[3].in", "in", 2},
		{"in", "g[3].in", "in", 1}, {"s:*", "s:a.jpg", "s", 2}, {"*", "anything", "anything", 2}, {"a*b*c", "abc", "x", 2}, {"a*b*c", "acb", "x", 0}, {"other", "each", "each", 0}} {
		if got := matches(c.name, c.key, c.id); got != c.want {
			t.Errorf("matches(%q, %q, %q) is %d, want %d", c.name, c.key, c.id, got, c.want)
		}
	}
}
