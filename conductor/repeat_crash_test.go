package conductor_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/sim"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/store"
)

// brokenPipeline ends with failures in a for_each, a group and a spawned step; some outputs are large, so that some
// seeds are in blobs.
const brokenPipeline = `
name: broken
steps:
  - {id: first, action: t.large}
  - {id: each, action: t.mend, depends_on: [first], for_each: {items: 4, max_failures: 4}, params: {n: "{{ item }}"}}
  - id: group
    depends_on: [first]
    steps:
      - {id: a, action: t.echo, params: {n: 1}}
      - {id: b, action: t.mend, depends_on: [a], on_failure: continue, params: {n: 1}}
      - {id: c, action: t.echo, depends_on: [b], params: {n: 2}}
  - {id: spawn, action: t.spawn, depends_on: [first]}
  - {id: leaves, action: t.echo, depends_on: [leaf], params: {n: 4}}
  - {id: join, action: t.echo, depends_on: [each, group, leaves], params: {n: "{{ steps.each.outputs.completed * 100 + steps.first.outputs.n }}"}}
finally:
  - {id: swept, action: t.echo, params: {n: 1}}
outputs:
  total: "{{ steps.join.outputs.v }}"
`

// mender fails for odd n until it is mended, and lists the steps that ran since.
type mender struct {
	mu     sync.Mutex
	mended bool
	ran    map[string]bool
}

func (m *mender) mend() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mended, m.ran = true, map[string]bool{}
}

// actions are those of the rig, watched.
func (m *mender) actions() []action.Action {
	return []action.Action{{Spec: spec.Spec{Name: "t.mend", Summary: "For tests.", Params: []spec.Field{{Name: "n", Type: spec.Integer}}},
		Handler: callHandler(func(c *action.Call) (any, error) {
			m.mu.Lock()
			defer m.mu.Unlock()
			if m.mended {
				m.ran[c.StepKey] = true
			} else if strings.HasSuffix(c.StepKey, "[1]") || strings.HasSuffix(c.StepKey, "[3]") || c.StepKey == "group.b" {
				return nil, errors.New("broken")
			}
			return map[string]any{"v": c.Params["n"]}, nil
		})}}
}

// repetition is a retry or a restart that is cut off.
type repetition struct {
	name   string
	repeat func(ctx context.Context, r *crashed, id string) (again string, err error)
	may    []string // steps of t.mend that it repeats
	steps  int
}

var repetitions = []repetition{
	{"retry", func(ctx context.Context, r *crashed, id string) (string, error) {
		again, _, err := r.RetryOnce(ctx, id, "", store.Origin{Key: "again", KeyHash: []byte("same")})
		return again, err
	}, []string{"each[1]", "each[3]", "group.b"}, 17},
	{"restart of what failed", func(ctx context.Context, r *crashed, id string) (string, error) {
		return id, r.Conductor.Restart(ctx, id, "each", true)
	}, []string{"each[1]", "each[3]"}, 17},
	{"restart of a step", func(ctx context.Context, r *crashed, id string) (string, error) {
		return id, r.Conductor.Restart(ctx, id, "group", false)
	}, []string{"group.b"}, 17},
}

// The process dies, and all else happens that everywhere knows, from the request of a retry or a restart to its end: between the
// commit of the new execution and its first dispatch, say. A repeated request gets the same execution, kept steps do not run, and
// the end is that of the undisturbed one.
func TestCrashWhileRepeating(t *testing.T) {
	t.Parallel()
	for _, rep := range repetitions {
		t.Run(rep.name, func(t *testing.T) {
			t.Parallel()
			want := rep.run(t, nil).facts()
			if len(want.steps) != rep.steps || rep.name == "retry" && (want.status != "completed" || want.outputs != `{"total":405}`) {
				t.Fatalf("undisturbed: %s %s, %d steps %v", want.status, want.outputs, len(want.steps), slices.Sorted(maps.Keys(want.steps)))
			}
			t.Logf("%d disturbed runs", everywhere(t, want, rep.run))
		})
	}
}

func (rep *repetition) run(t *testing.T, fault func(sim.Passage) sim.Fate) crashed {
	t.Helper()
	m, calm := &mender{}, true
	r := newCrashed(t, func(p sim.Passage) sim.Fate {
		if calm || fault == nil {
			return sim.Passes
		}
		return fault(p)
	}, m.actions()...)
	first := ""
	r.live(func() (err error) {
		first, err = r.Begin(t.Context(), pipeline(t, brokenPipeline), conductor.Request{})
		return err
	})
	r.id = first
	if f := r.facts(); f.status != stepwell.ExecutionCompletedWithFailures.String() {
		t.Fatalf("at first: %s", f.status)
	}
	m.mend()
	calm = false
	asked := false
	r.live(func() (err error) {
		if asked && rep.begun(t, &r, first) {
			return nil
		}
		asked = true
		r.id, err = rep.repeat(t.Context(), &r, first)
		return err
	})
	if r.id == "" || rep.name != "retry" {
		r.id = first
	}
	all, err := r.Store.Executions(t.Context(), store.Filter{})
	if err != nil || len(all) > 2 || r.id != first && (len(all) != 2 || all[0].Parent != first) {
		t.Fatalf("%d executions, error %v", len(all), err)
	}
	for key := range m.ran {
		if !slices.Contains(rep.may, key) {
			t.Errorf("%s is kept, and ran", key)
		}
	}
	if len(m.ran) != len(rep.may) {
		t.Errorf("%v ran, of %v", m.ran, rep.may)
	}
	return r
}

// begun reports whether a restart is seen to have begun. A retry has a key: it is asked for again.
func (rep *repetition) begun(t *testing.T, r *crashed, id string) bool {
	t.Helper()
	x, err := r.Store.Execution(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	events, err := r.Store.Events(t.Context(), x.No, 0, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(events, func(e engine.HistoryEvent) bool { return e.Type == "restart" })
}
