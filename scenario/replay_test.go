package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/expr"
)

// drawn is a pipeline that random edits change.
type drawn struct {
	name    string
	steps   []map[string]any
	outputs map[string]any
	count   int
}

func (d *drawn) source(t *testing.T) []byte {
	doc := map[string]any{"name": d.name, "steps": d.steps, "finally": []any{map[string]any{"id": "tell", "action": "util.log", "params": map[string]any{"message": "{{ execution.status }}"}}}}
	if len(d.outputs) > 0 {
		doc["outputs"] = d.outputs
	}
	raw, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// draw makes a pipeline of two to seven steps: commands, values, loops, conditions, retries and trigger rules.
func draw(r *rand.Rand) *drawn {
	d := &drawn{name: "drawn", outputs: map[string]any{}}
	for range 2 + r.IntN(6) {
		d.add(r, len(d.steps))
	}
	if r.IntN(2) == 0 {
		d.outputs["last"] = d.read(r, len(d.steps))
	}
	return d
}

// read is a template that reads one of the first n steps, or nothing.
func (d *drawn) read(r *rand.Rand, n int) string {
	if n == 0 {
		return fmt.Sprint("plain ", r.IntN(3))
	}
	s := d.steps[r.IntN(n)]
	return fmt.Sprintf("{{ steps.%v.outputs.n | default(0) }}", s["id"])
}

func (d *drawn) add(r *rand.Rand, at int) {
	d.count++
	s := map[string]any{"id": fmt.Sprint("s", d.count), "action": "util.exec", "params": map[string]any{"command": []any{"do", d.read(r, at)}}}
	var deps []any
	for i := range at {
		if r.IntN(at) < 2 {
			deps = append(deps, d.steps[i]["id"])
		}
	}
	if deps != nil {
		s["depends_on"] = deps
	}
	switch r.IntN(6) {
	case 0:
		s["action"], s["params"] = "util.set_output", map[string]any{"n": d.read(r, at)}
	case 1:
		s["for_each"] = map[string]any{"items": []any{1, 2, r.IntN(3)}, "max_failures": r.IntN(3)}
		s["params"] = map[string]any{"command": []any{"each", "{{ item }}"}}
	case 2:
		s["condition"] = fmt.Sprintf("{{ %d > 1 }}", r.IntN(4))
	case 3:
		s["retry"] = map[string]any{"max_attempts": 1 + r.IntN(3), "backoff_seconds": 1}
	case 4:
		s["on_failure"] = "continue"
	}
	if len(deps) > 0 && r.IntN(4) == 0 {
		s["trigger_rule"] = []string{"all_done", "one_failed", "none_failed", "all_success"}[r.IntN(4)]
	}
	d.steps = append(d.steps[:at:at], append([]map[string]any{s}, d.steps[at:]...)...)
}

// edit changes one thing, which may matter or not.
func (d *drawn) edit(r *rand.Rand) {
	i := r.IntN(len(d.steps))
	s := map[string]any{}
	for k, v := range d.steps[i] {
		s[k] = v
	}
	d.steps = append([]map[string]any{}, d.steps...)
	d.steps[i] = s
	switch r.IntN(12) {
	case 0:
		s["params"] = map[string]any{"command": []any{"do", "changed"}}
		s["action"] = "util.exec"
	case 1:
		s["condition"] = fmt.Sprintf("{{ %d > 1 }}", r.IntN(4))
	case 2:
		delete(s, "condition")
	case 3:
		s["retry"] = map[string]any{"max_attempts": 1 + r.IntN(4), "backoff_seconds": 5}
	case 4:
		s["on_failure"] = []string{"continue", "fail"}[r.IntN(2)]
	case 5:
		s["timeout_seconds"] = []float64{1, 2, 500}[r.IntN(3)]
	case 6:
		d.steps = append(d.steps[:i:i], d.steps[i+1:]...)
	case 7:
		d.add(r, i)
	case 8:
		s["name"] = "only a name"
	case 9:
		if s["for_each"] != nil {
			s["for_each"] = map[string]any{"items": []any{2, 1, 5}, "max_failures": r.IntN(3)}
		}
	case 10:
		d.outputs = map[string]any{"last": d.read(r, len(d.steps))}
	case 11:
		s["params"] = map[string]any{"command": []any{"do", d.read(r, i)}}
		s["action"] = "util.exec"
	}
}

// effect is what util.exec does in these tests: equal calls end alike, as far as attempts are concerned too.
func effect(c *action.Call) (any, error) {
	raw, err := expr.Marshal(map[string]any(c.Params))
	if err != nil {
		return nil, err
	}
	h := fnv.New32a()
	h.Write(raw)
	switch n := h.Sum32() % 8; {
	case n == 0:
		return nil, action.Fail(errors.New("no"))
	case n == 1 && c.Attempt == 1:
		return nil, errors.New("not yet")
	default:
		return map[string]any{"exit_code": int64(0), "n": int64(n)}, nil
	}
}

// live plays a definition whose commands have effects.
func live(t *testing.T, o *Runner, d *definition.Definition) *Played {
	t.Helper()
	p, err := o.Play(t.Context(), &Test{Name: "live", Open: true, def: d}, How{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// recordingOf is what the API would tell of a played execution.
func recordingOf(t *testing.T, p *Played) *Recording {
	t.Helper()
	r := &Recording{ID: p.Execution.ID, Pipeline: "drawn", Status: p.Execution.Status.String(), Created: p.Execution.Created}
	at := map[string]int{}
	for _, key := range p.Keys {
		s := p.Steps[key]
		one := RecordedStep{Key: key, Status: s.Status.String(), Attempts: int(s.Attempt)}
		if s.Started > 0 {
			one.Started, one.Ended = time.UnixMicro(s.Started), time.UnixMicro(s.Ended)
		}
		if calls := p.CallsOf(key); len(calls) > 0 {
			one.Action = calls[0].Action
		} else if def := p.StepOf(key); def != nil {
			one.Action = def.Action
		}
		if s.Outputs != nil {
			raw, err := expr.Marshal(s.Outputs)
			if err != nil {
				t.Fatal(err)
			}
			one.Outputs = raw
		}
		if s.Error != nil {
			one.Code, one.Error = string(s.Error.Code), s.Error.Message
		}
		at[key] = len(r.Steps)
		r.Steps = append(r.Steps, one)
	}
	events, err := p.World.Store.Events(t.Context(), p.Execution.No, 0, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if i, known := at[e.StepKey]; known && e.Type == "failed" && len(r.Steps[i].Tries) < r.Steps[i].Attempts-1 {
			r.Steps[i].Tries = append(r.Steps[i].Tries, Try{Error: e.Detail})
		}
	}
	return r
}

// Over 1,000 random edits of random pipelines: what the replay calls the same is the same when the changed pipeline runs for real, and
// what it says without assuming anything is what comes of it.
func TestReplayNeverSaysTheSameWrongly(t *testing.T) {
	played, replays := runner(t, nil), runner(t, nil)
	played.o.Handlers = map[string]action.Handler{"action util.exec": action.HandlerFunc(func(_ context.Context, c *action.Call) (any, error) { return effect(c) })}
	most := 1000
	if testing.Short() {
		most = 100
	}
	same, certain, edits := 0, 0, 0
	for seed := uint64(1); edits < most; seed++ {
		r := rand.New(rand.NewPCG(seed, 17))
		d := draw(r)
		was, ok := parsed(t, replays.o.Actions, d)
		if !ok {
			continue
		}
		d.edit(r)
		is, ok := parsed(t, replays.o.Actions, d)
		if !ok {
			continue
		}
		edits++
		before := live(t, played, was)
		rec := recordingOf(t, before)
		out, err := replays.Replay(t.Context(), rec, ReplayOptions{Was: was, Is: is})
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, d.source(t))
		}
		after := live(t, played, is)
		wrong := ""
		if out.Assumed == 0 {
			certain++
			if after.Execution.Status.String() != out.Is.Status {
				wrong = fmt.Sprintf("the execution is %s", after.Execution.Status)
			}
			for i := range out.Steps {
				if s := after.Steps[out.Steps[i].Key]; s != nil && s.Status.String() != out.Steps[i].Is {
					wrong = fmt.Sprintf("%s is %s, not %s", out.Steps[i].Key, s.Status, out.Steps[i].Is)
				}
			}
		}
		if out.Same {
			same++
			if before.Execution.Status != after.Execution.Status || !reflect.DeepEqual(before.Outputs, after.Outputs) {
				wrong = "not the same"
			}
			for key, s := range before.Steps {
				if before.Steps[key+"[0]"] != nil {
					continue // its results are kept where something reads them
				}
				if n := after.Steps[key]; n == nil || n.Status != s.Status || !reflect.DeepEqual(n.Outputs, s.Outputs) {
					wrong = fmt.Sprintf("not the same: %s: %+v, was %+v", key, n, s)
				}
			}
		}
		if wrong != "" {
			var text strings.Builder
			_ = out.WriteText(&text)
			t.Fatalf("seed %d: %s\n%s\nnow: %s", seed, wrong, text.String(), d.source(t))
		}
	}
	if same < most/10 || certain-same < most/20 || certain == edits {
		t.Errorf("%d edits: %d the same, %d certain: the edits test nothing", edits, same, certain)
	}
	t.Logf("%d edits: %d the same, %d certain", edits, same, certain)
}

// parsed is a checked definition; false: the edit has made it invalid.
func parsed(t *testing.T, actions *action.Registry, d *drawn) (*definition.Definition, bool) {
	def, problems := definition.Parse(d.source(t), definition.ParseOptions{File: "drawn.yaml"})
	if problems.Err() != nil || definition.Check(def, actions, "drawn.yaml").Err() != nil {
		return nil, false
	}
	return definition.Expand(def, actions), true
}

// Changes that an incautious replay would call the same, or certain: a template that failed before the action was called, another secret,
// a step that was cut off, ids with dots, and answers of people.
func TestReplayIsCareful(t *testing.T) {
	const cutOff = "  - {id: b, action: util.exec, params: {command: [y]}}\n  - {id: a, action: util.exec, params: {command: [x]}, "
	played, replays := runner(t, nil), runner(t, nil)
	played.o.Handlers = map[string]action.Handler{"action util.exec": action.HandlerFunc(func(context.Context, *action.Call) (any, error) {
		return map[string]any{"exit_code": int64(0)}, nil
	})}
	parse := func(steps string) *definition.Definition {
		t.Helper()
		d, problems := definition.Parse([]byte("name: careful\nsteps:\n"+steps), definition.ParseOptions{File: "careful.yaml"})
		if problems = append(problems, definition.Check(d, replays.o.Actions, "careful.yaml")...); problems.Err() != nil {
			t.Fatal(problems)
		}
		return definition.Expand(d, replays.o.Actions)
	}
	for _, c := range []struct{ name, was, is, step, verdict, mock string }{
		{"a template that is repaired", "  - {id: a, action: util.exec, retry: {max_attempts: 1}, params: {command: [x, \"{{ 1 // 0 }}\"]}}\n",
			"  - {id: a, action: util.exec, retry: {max_attempts: 1}, params: {command: [x, \"{{ 1 // 1 }}\"]}}\n", "a", "now runs", ""},
		{"another secret", "  - {id: a, action: util.exec, params: {command: [x], env: {T: \"{{ secrets.one }}\"}}}\n",
			"  - {id: a, action: util.exec, params: {command: [x], env: {T: \"{{ secrets.two }}\"}}}\n", "a", "other call", ""},
		{"an id with a dot", "  - {id: load, action: util.set_output, params: {n: 1}}\n  - {id: load.v2, action: util.noop}\n",
			"  - {id: load, action: util.set_output, params: {n: 2}}\n  - {id: load.v2, action: util.noop}\n", "load", "changed", ""},
		{"what depends on an id with a dot", "  - {id: load.v2, action: util.exec, params: {command: [x]}}\n  - {id: b, action: util.noop, depends_on: [load.v2]}\n",
			"  - {id: load.v2, action: util.exec, params: {command: [y]}}\n  - {id: b, action: util.noop, depends_on: [load.v2]}\n", "b", "assumed", ""},
		{"a step that was cut off", cutOff + "on_failure: fail}\nsettings: {fail_fast: cancel}\n", cutOff + "on_failure: continue}\nsettings: {fail_fast: cancel}\n", "b", "now runs",
			"mock: {a: {fail: no, permanent: true, takes: 5s}, b: {outputs: {exit_code: 0}, takes: 60s}}\ntests: [{name: t}]\n"},
		{"another question", "  - {id: ask, action: util.approval, params: {message: \"a?\"}}\n", "  - {id: ask, action: util.approval, params: {message: \"b?\"}}\n", "ask", "other call",
			"tests: [{name: t, when: [{step: ask, is: waiting, approve: {by: anna}}]}]\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			test, o := &Test{Name: c.name, Secrets: map[string]string{"one": "first-secret", "two": "second-secret"}}, played
			if c.mock != "" {
				list, problems := Parse("careful.test.yaml", []byte("pipeline: careful.yaml\n"+c.mock))
				if problems.Err() != nil {
					t.Fatal(problems)
				}
				test, o = list[0], replays
			}
			test.Open, test.def = true, parse(c.was)
			p, err := o.Play(t.Context(), test, How{})
			if err != nil {
				t.Fatal(err)
			}
			out, err := replays.Replay(t.Context(), recordingOf(t, p), ReplayOptions{Was: parse(c.was), Is: parse(c.is)})
			if err != nil {
				t.Fatal(err)
			}
			var text strings.Builder
			if err := out.WriteText(&text); err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(out.Steps, func(s ReplayedStep) bool { return s.Key == c.step })
			if out.Same || i < 0 || string(out.Steps[i].Verdict) != c.verdict || strings.Contains(text.String(), "***s") {
				t.Errorf("want %s %s:\n%s", c.step, c.verdict, text.String())
			}
		})
	}
}
