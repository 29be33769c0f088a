package app_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/store"
)

type object = map[string]any

// platform is what stands in for the services that the documents call: what each action answers, and the
// calls that there were.
type platform struct {
	answers map[string]func(call *action.Call) (any, error)

	mu    sync.Mutex
	calls []string // "action params"
}

func (p *platform) register(r *action.Registry) error {
	for _, name := range slices.Sorted(maps.Keys(p.answers)) {
		handler := action.HandlerFunc(func(_ context.Context, call *action.Call) (any, error) {
			raw, err := json.Marshal(call.Params)
			if err != nil {
				return nil, err
			}
			p.mu.Lock()
			p.calls = append(p.calls, name+" "+string(raw))
			p.mu.Unlock()
			return p.answers[name](call)
		})
		if err := r.Add(action.Action{Spec: spec.Spec{Name: name, OpenParams: true}, Handler: handler}); err != nil {
			return err
		}
	}
	return nil
}

// of are the calls of one action, in order, without its name.
func (p *platform) of(name string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []string
	for _, call := range p.calls {
		if rest, ok := strings.CutPrefix(call, name+" "); ok {
			list = append(list, rest)
		}
	}
	return list
}

func answer(outputs object) func(*action.Call) (any, error) {
	return func(*action.Call) (any, error) { return outputs, nil }
}

// start is a Stepwell over the database that runs until stop.
func start(t *testing.T, db string, o app.Options) (a *app.App, stop func()) {
	t.Helper()
	o.DB, o.Log = db, slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	a, err := app.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- a.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := errors.Join(<-ran, a.Close()); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return a, stop
}

// begin checks a document, as the command does, and starts it.
func begin(t *testing.T, a *app.App, src string, params object) (id string, d *definition.Definition) {
	t.Helper()
	d, problems := definition.Parse([]byte(src), definition.ParseOptions{})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	if err := definition.Check(d, a.Actions, "").Err(); err != nil {
		t.Fatal(err)
	}
	p, err := a.Conductor.Register(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	if id, err = a.Conductor.Start(t.Context(), conductor.Request{Pipeline: p, Params: params}); err != nil {
		t.Fatal(err)
	}
	return id, d
}

// ended waits for the end of an execution, with its steps by key.
func ended(t *testing.T, a *app.App, id string) (*store.Execution, map[string]store.Step) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	x, err := a.Conductor.Wait(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	list, err := a.Store.Steps(ctx, x.No, store.StepFilter{})
	if err != nil {
		t.Fatal(err)
	}
	steps := map[string]store.Step{}
	for _, s := range list {
		steps[s.Key] = s
	}
	return x, steps
}

// statuses are the steps of the document that did not simply complete.
func statuses(steps map[string]store.Step) map[string]string {
	odd := map[string]string{}
	for key, s := range steps {
		if s.Status != stepwell.StepCompleted {
			odd[key] = s.Status.String()
		}
	}
	return odd
}

// ordered checks that every step ended after the steps that it depends on.
func ordered(t *testing.T, d *definition.Definition, steps map[string]store.Step) {
	t.Helper()
	for i := range d.Steps {
		for _, on := range d.Steps[i].DependsOn {
			before, after := steps[on], steps[d.Steps[i].ID]
			if before.Seq == 0 || before.Seq >= after.Seq || after.Started > 0 && after.Started < before.Ended {
				t.Errorf("%s (%d) does not follow %s (%d)", d.Steps[i].ID, after.Seq, on, before.Seq)
			}
		}
	}
}

func outputs(t *testing.T, raw json.RawMessage) object {
	t.Helper()
	if len(raw) == 0 {
		return nil
	}
	var m object
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func diff(t *testing.T, what string, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

// document is one of the documents that the definition package accepts.
func document(t *testing.T, name string) string {
	t.Helper()
	src, err := os.ReadFile(filepath.Join("..", "definition", "testdata", "good", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(src)
}

// for_each, while, switch, filter and conditional with target_step, under budpipeline's names.
func TestBudpipelineControlFlow(t *testing.T) {
	tests := map[string]struct {
		params  object
		end     string // what the desk says the third time
		status  stepwell.ExecutionStatus
		odd     map[string]string
		results []any
		outputs object
		asked   []string
	}{
		"standard": {nil, "settled", stepwell.ExecutionCompleted,
			map[string]string{"skim": "skipped", "study": "skipped", "rest": "skipped", "refused": "skipped"},
			[]any{object{"id": "t1", "weight": 6.0, "priority": "high", "place": 0.0}, object{"id": "t2", "weight": 10.0, "priority": "low", "place": 1.0}, object{"id": "t3", "weight": 16.0, "priority": "high", "place": 2.0}},
			object{"job": "j-7", "status": "settled", "summary": object{"total": 32.0, "urgent": 2.0, "asked": 3.0, "way": "Some urgent"}},
			[]string{`{"asked":0,"before":"unknown","job":"j-7"}`, `{"asked":1,"before":"open","job":"j-7"}`, `{"asked":2,"before":"open","job":"j-7"}`}},
		"fast, refused": {object{"mode": "fast"}, "refused", stepwell.ExecutionFailed,
			map[string]string{"read": "skipped", "study": "skipped", "rest": "skipped", "settled": "skipped", "refused": "failed", "end": "skipped"},
			[]any{object{"id": "t1", "weight": 3.0, "priority": "high", "place": 0.0}, object{"id": "t3", "weight": 8.0, "priority": "high", "place": 1.0}},
			nil, []string{`{"asked":0,"before":"unknown","job":"j-7"}`, `{"asked":1,"before":"open","job":"j-7"}`, `{"asked":2,"before":"open","job":"j-7"}`}},
		"thorough, nothing there": {object{"mode": "thorough", "tickets": []any{}}, "settled", stepwell.ExecutionCompleted,
			map[string]string{"skim": "skipped", "read": "skipped", "study": "skipped", "submit": "skipped", "poll": "skipped", "settled": "skipped", "refused": "skipped"},
			[]any{}, object{"job": nil, "status": nil, "summary": object{"total": 0.0, "urgent": 0.0, "asked": 0.0, "way": "Nothing urgent"}}, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p := &platform{answers: map[string]func(*action.Call) (any, error){
				"desk.submit": answer(object{"job": "j-7"}),
				"desk.status": func(call *action.Call) (any, error) {
					if call.Params["asked"] == int64(2) {
						return object{"status": test.end}, nil
					}
					return object{"status": "open"}, nil
				},
			}}
			a, _ := start(t, filepath.Join(t.TempDir(), "db"), app.Options{Register: p.register})
			id, d := begin(t, a, document(t, "budpipeline-control-flow.json"), test.params)
			x, steps := ended(t, a, id)
			if x.Status != test.status {
				t.Errorf("the execution is %s: %+v", x.Status, x.Failure)
			}
			diff(t, "statuses", test.odd, statuses(steps))
			ordered(t, d, steps)
			diff(t, "results", test.results, outputs(t, steps["weigh"].Output)["results"].([]any))
			if test.outputs != nil {
				diff(t, "outputs", test.outputs, outputs(t, x.Outputs))
			}
			diff(t, "calls", test.asked, p.of("desk.status"))
		})
	}
}

// The iterations of a for_each with parallel: false run one after the other, also after one that failed.
func TestBudpipelineForEachInTurn(t *testing.T) {
	var mu sync.Mutex
	var order []string
	note := func(what string, n any) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, fmt.Sprint(what, n))
	}
	p := &platform{answers: map[string]func(*action.Call) (any, error){"desk.work": func(call *action.Call) (any, error) {
		note("+", call.Params["n"])
		defer note("-", call.Params["n"])
		if call.Params["n"] == int64(3) {
			return nil, errors.New("the third does not work")
		}
		return object{"n": call.Params["n"]}, nil
	}}}
	a, _ := start(t, filepath.Join(t.TempDir(), "db"), app.Options{Register: p.register})
	const doc = `{"name": "turns", "steps": [{"id": "each", "action": "for_each", "params": {"items": [1, 2, 3, 4, 5, 6], "action": "desk.work",
		"action_params": {"n": "{{ item }}"}, "parallel": false, "continue_on_error": true}}], "outputs": {"failed": "{{ steps.each.outputs.failed }}", "completed": "{{ steps.each.outputs.completed }}"}}`
	id, _ := begin(t, a, doc, nil)
	x, _ := ended(t, a, id)
	diff(t, "outputs", object{"failed": 1.0, "completed": 5.0}, outputs(t, x.Outputs))
	diff(t, "order", strings.Fields("+1 -1 +2 -2 +3 -3 +4 -4 +5 -5 +6 -6"), order)
}

// fleet answers as the rollout document expects, but for what the test says.
func fleet(other map[string]func(*action.Call) (any, error)) *platform {
	p := &platform{answers: map[string]func(*action.Call) (any, error){
		"fleet.model": answer(object{"gpus": 2}), "fleet.cluster": answer(object{"gpus": 8}), "fleet.tune": answer(object{"config": object{"tp": 2}}),
		"fleet.existing": answer(object{"exists": true, "endpoint": "e-1"}), "fleet.backup": answer(object{"backup": "b-1"}),
		"fleet.deploy": func(call *action.Call) (any, error) {
			return object{"deployment": fmt.Sprint("d-", call.Params["kind"])}, nil
		},
		"fleet.progress": func(call *action.Call) (any, error) {
			if call.Params["asked"] == int64(0) {
				return object{"status": "starting"}, nil
			}
			return object{"status": "ready", "url": "https://e-1"}, nil
		},
		"fleet.health": answer(object{"healthy": true}), "fleet.promote": answer(nil), "fleet.rollback": answer(object{"done": true}), "fleet.register": answer(nil)}}
	maps.Copy(p.answers, other)
	return p
}

// Fan-in, on_failure: continue, canary and rollback with `is defined`.
func TestBudpipelineRollout(t *testing.T) {
	unhealthy := map[string]func(*action.Call) (any, error){"fleet.health": answer(object{"healthy": false})}
	tests := map[string]struct {
		params  object
		other   map[string]func(*action.Call) (any, error)
		status  stepwell.ExecutionStatus
		odd     map[string]string
		outputs object
		deploys []string
	}{
		"full": {nil, nil, stepwell.ExecutionCompleted, map[string]string{"canary": "skipped", "promote": "skipped", "rollback": "skipped", "bad_news": "skipped"},
			object{"success": true, "deployment": "d-rolling", "tuned": true, "rolled_back": false}, []string{`{"config":{"tp":2},"kind":"rolling"}`}},
		"canary": {object{"canary": true}, nil, stepwell.ExecutionCompleted, map[string]string{"full": "skipped", "rollback": "skipped", "bad_news": "skipped"},
			object{"success": true, "deployment": "d-canary", "tuned": true, "rolled_back": false}, []string{`{"config":{"tp":2},"kind":"canary"}`}},
		"canary, rolled back": {object{"canary": true}, unhealthy, stepwell.ExecutionCompleted,
			map[string]string{"full": "skipped", "promote": "skipped", "register": "skipped", "good_news": "skipped"},
			object{"success": false, "deployment": "d-canary", "tuned": true, "rolled_back": true}, []string{`{"config":{"tp":2},"kind":"canary"}`}},
		"nothing to roll back to": {object{"tune": false}, map[string]func(*action.Call) (any, error){"fleet.existing": answer(object{"exists": false}), "fleet.health": unhealthy["fleet.health"]}, stepwell.ExecutionCompleted,
			map[string]string{"tune": "skipped", "backup": "skipped", "canary": "skipped", "promote": "skipped", "rollback": "skipped", "register": "skipped", "good_news": "skipped"},
			object{"success": false, "deployment": "d-rolling", "tuned": false, "rolled_back": false}, []string{`{"config":null,"kind":"rolling"}`}},
		"nobody knows what exists": {object{"canary": true}, map[string]func(*action.Call) (any, error){"fleet.existing": func(*action.Call) (any, error) { return nil, action.Fail(errors.New("no registry")) }}, stepwell.ExecutionCompletedWithFailures,
			map[string]string{"existing": "failed", "backup": "skipped", "canary": "skipped", "promote": "skipped", "rollback": "skipped", "bad_news": "skipped"},
			object{"success": true, "deployment": "d-rolling", "tuned": true, "rolled_back": false}, []string{`{"config":{"tp":2},"kind":"rolling"}`}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p := fleet(test.other)
			a, _ := start(t, filepath.Join(t.TempDir(), "db"), app.Options{Register: p.register})
			params := object{"model_id": "m", "cluster_id": "c"}
			maps.Copy(params, test.params)
			id, d := begin(t, a, document(t, "budpipeline-rollout.yaml"), params)
			x, steps := ended(t, a, id)
			if x.Status != test.status {
				t.Errorf("the execution is %s: %+v", x.Status, x.Failure)
			}
			diff(t, "statuses", test.odd, statuses(steps))
			ordered(t, d, steps)
			diff(t, "outputs", test.outputs, outputs(t, x.Outputs))
			diff(t, "deployments", test.deploys, p.of("fleet.deploy"))
		})
	}
}

// RETRY in capitals, and a branch by the output `branch`.
func TestBudpipelineHealth(t *testing.T) {
	tests := map[string]struct {
		params  object
		healthy bool
		odd     map[string]string
		told    []string
		issues  any
	}{
		"healthy":   {nil, true, map[string]string{"say_fine": "skipped", "issues": "skipped", "alert": "skipped"}, nil, []any{}},
		"tell":      {object{"tell_good_news": true}, true, map[string]string{"issues": "skipped", "alert": "skipped"}, []string{`{"channel":"slack","message":"ok"}`}, []any{}},
		"unhealthy": {object{"channel": "email"}, false, map[string]string{"fine": "skipped", "say_fine": "skipped"}, []string{`{"channel":"email","message":"gpu lost, api slow"}`}, []any{"gpu lost", "api slow"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p := &platform{answers: map[string]func(*action.Call) (any, error){
				"desk.notify": answer(nil),
				"fleet.check": func(call *action.Call) (any, error) {
					if call.Attempt < 3 {
						return nil, errors.New("no answer")
					}
					if test.healthy {
						return object{"healthy": true, "status": "ok", "issues": []any{}}, nil
					}
					return object{"healthy": false, "status": "bad", "issues": []any{"gpu lost", "api slow"}}, nil
				}}}
			a, _ := start(t, filepath.Join(t.TempDir(), "db"), app.Options{Register: p.register})
			params := object{"cluster_id": "c"}
			maps.Copy(params, test.params)
			id, d := begin(t, a, document(t, "budpipeline-health.json"), params)
			x, steps := ended(t, a, id)
			if x.Status != stepwell.ExecutionCompleted || steps["check"].Attempt != 3 {
				t.Errorf("the execution is %s after %d attempts: %+v", x.Status, steps["check"].Attempt, x.Failure)
			}
			diff(t, "statuses", test.odd, statuses(steps))
			ordered(t, d, steps)
			diff(t, "told", test.told, p.of("desk.notify"))
			diff(t, "issues", test.issues, outputs(t, x.Outputs)["issues"])
		})
	}
}

// Only the targets of the branch that is taken run, whatever conditions of their own they have.
func TestBudpipelineTargets(t *testing.T) {
	a, _ := start(t, filepath.Join(t.TempDir(), "db"), app.Options{})
	src := document(t, "targets.yaml")
	for n, chosen := range map[int][]string{
		1: {"shared", "shared[0]", "shared[1]"}, 2: {"bare", "late"}, 3: {"late", "own-expression"}, 4: {"late", "own-template"}, 5: {"late", "own-block"},
		6: {"bare", "late"}, 7: {"late", "own-literal"}, 8: {"late"}, 9: {"late", "shared", "shared[0]", "shared[1]"},
		10: {"group", "group[0].inner", "group[0].zero", "late"}, 200: {"late"},
	} {
		id, _ := begin(t, a, src, object{"n": n})
		x, steps := ended(t, a, id)
		if x.Status != stepwell.ExecutionCompleted {
			t.Errorf("%d: the execution is %s: %+v", n, x.Status, x.Failure)
		}
		var ran []string
		for _, key := range slices.Sorted(maps.Keys(steps)) {
			always := key == "first" || key == "second" || key == "mapped" || strings.HasPrefix(key, "finally.")
			inside := strings.HasPrefix(key, "group[") && !strings.HasPrefix(key, "group[0].")
			if steps[key].Status == stepwell.StepCompleted && !always && !inside {
				ran = append(ran, key)
			}
		}
		diff(t, fmt.Sprint("what ran for ", n), chosen, ran)
		if steps["finally.thanks"].Status != stepwell.StepCompleted || n == 10 && steps["group[1].zero"].Status != stepwell.StepSkipped {
			t.Errorf("%d: thanks %s, group[1].zero %s", n, steps["finally.thanks"].Status, steps["group[1].zero"].Status)
		}
	}
}

// A step that fails or is skipped chooses nothing.
func TestBudpipelineNothingChosen(t *testing.T) {
	const doc = `
name: nothing
steps:
  - {id: fails, action: switch, on_failure: continue, params: {value: 1, cases: [{value: 1, result: "{{ none.x }}", target_step: a}]}}
  - {id: skips, action: conditional, condition: false, params: {branches: [{id: x, target_step: b}]}}
  - {id: chooses, action: conditional, params: {branches: [{id: x, target_step: c}]}}
  - {id: also, action: conditional, condition: false, params: {branches: [{id: x, target_step: c}]}}
  - {id: a, action: log, params: {message: a}}
  - {id: b, action: log, params: {message: b}}
  - {id: c, action: log, params: {message: c}}
  - {id: after, action: log, depends_on: [a, b], params: {message: after}}
`
	a, _ := start(t, filepath.Join(t.TempDir(), "db"), app.Options{})
	id, d := begin(t, a, doc, nil)
	x, steps := ended(t, a, id)
	diff(t, "status", stepwell.ExecutionCompletedWithFailures, x.Status)
	diff(t, "statuses", map[string]string{"fails": "failed", "skips": "skipped", "also": "skipped", "a": "skipped", "b": "skipped"}, statuses(steps))
	ordered(t, d, steps)
}

// A rate limit goes on with the run that met it; a retry begins anew.
func TestBudpipelineWhileTriesAgain(t *testing.T) {
	const doc = `{"name": "again", "steps": [{"id": "poll", "action": "while", "retry": {"max_attempts": 2, "backoff_seconds": 0, "jitter": 0}, "params": {"condition": "{{ result.n < 3 }}",
		"action": "desk.count", "action_params": {"n": "{{ iteration + 1 }}"}}}], "outputs": {"iterations": "{{ steps.poll.outputs.iterations }}"}}`
	for name, test := range map[string]struct {
		err   error
		calls string
	}{
		"deferred": {action.Defer(time.Millisecond, errors.New("too many requests")), `{"n":1} {"n":2} {"n":2} {"n":3}`},
		"failed":   {errors.New("reset"), `{"n":1} {"n":2} {"n":1} {"n":2} {"n":3}`},
	} {
		t.Run(name, func(t *testing.T) {
			var once sync.Once
			p := &platform{answers: map[string]func(*action.Call) (any, error){"desk.count": func(call *action.Call) (out any, err error) {
				if call.Params["n"] == int64(2) {
					once.Do(func() { err = test.err })
				}
				return object{"n": call.Params["n"]}, err
			}}}
			a, _ := start(t, filepath.Join(t.TempDir(), "db"), app.Options{Register: p.register})
			id, _ := begin(t, a, doc, nil)
			x, _ := ended(t, a, id)
			diff(t, "outputs", object{"iterations": 3.0}, outputs(t, x.Outputs))
			diff(t, "calls", strings.Fields(test.calls), p.of("desk.count"))
		})
	}
}

// A loop between two runs and a wait go on in another process where they were; what was decided stays decided.
func TestBudpipelineRestart(t *testing.T) {
	const doc = `
name: restart
parameters: [{name: wake, type: string}]
steps:
  - {id: nap, action: wait_until, params: {until_time: "{{ params.wake }}", timezone: Europe/Berlin}}
  - {id: decide, action: conditional, params: {branches: [{id: a, condition: "{{ params.wake == '' }}", target_step: never}, {id: b, target_step: poll}]}}
  - {id: never, action: log, params: {message: never}}
  - {id: poll, action: while, params: {condition: "{{ result.n < 3 }}", action: desk.count, action_params: {n: "{{ iteration + 1 }}"}, delay_seconds: 0.3}}
outputs: {n: "{{ steps.poll.outputs.result.n }}", iterations: "{{ steps.poll.outputs.iterations }}", waited: "{{ steps.nap.outputs.waited }}"}
`
	db := filepath.Join(t.TempDir(), "db")
	p := &platform{answers: map[string]func(*action.Call) (any, error){"desk.count": func(call *action.Call) (any, error) { return object{"n": call.Params["n"]}, nil }}}
	var mu sync.Mutex
	waits := map[int32]bool{}
	both := make(chan struct{})
	observe := func(u *conductor.Update) {
		mu.Lock()
		defer mu.Unlock()
		for _, row := range u.Rows {
			if row.Status == stepwell.StepWaiting && !waits[row.Idx] {
				if waits[row.Idx] = true; len(waits) == 2 {
					close(both)
				}
			}
		}
	}
	t.Parallel() // it takes as long as the nap
	a, stop := start(t, db, app.Options{Register: p.register, Observe: observe})
	wake := time.Now().Add(3 * time.Second).UTC()
	id, _ := begin(t, a, doc, object{"wake": wake.Format(time.RFC3339Nano)})
	select {
	case <-both:
	case <-time.After(time.Minute):
		t.Fatal("the steps do not wait")
	}
	stop()
	a, _ = start(t, db, app.Options{Register: p.register})
	if err := a.Conductor.Recover(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	x, steps := ended(t, a, id)
	diff(t, "outputs", object{"n": 3.0, "iterations": 3.0, "waited": true}, outputs(t, x.Outputs))
	diff(t, "statuses", map[string]string{"never": "skipped"}, statuses(steps))
	diff(t, "calls", []string{`{"n":1}`, `{"n":2}`, `{"n":3}`}, p.of("desk.count"))
	if woke, err := time.Parse(time.RFC3339, outputs(t, steps["nap"].Output)["actual_wake_time"].(string)); err != nil || woke.Before(wake.Truncate(time.Millisecond)) {
		t.Errorf("woke at %v (%v), before %v", woke, err, wake)
	}
}
