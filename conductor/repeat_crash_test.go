package conductor_test

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/queue"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/worker"
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
	repeat func(ctx context.Context, r *rig, id string) (again string, err error)
	may    []string // steps of t.mend that it repeats
	steps  int
}

var repetitions = []repetition{
	{"retry", func(ctx context.Context, r *rig, id string) (string, error) {
		again, _, err := r.RetryOnce(ctx, id, "", store.Origin{Key: "again", KeyHash: []byte("same")})
		return again, err
	}, []string{"each[1]", "each[3]", "group.b"}, 17},
	{"restart of what failed", func(ctx context.Context, r *rig, id string) (string, error) {
		return id, r.Restart(ctx, id, "each", true)
	}, []string{"each[1]", "each[3]"}, 17},
	{"restart of a step", func(ctx context.Context, r *rig, id string) (string, error) {
		return id, r.Restart(ctx, id, "group", false)
	}, []string{"group.b"}, 17},
}

// The process dies at every passage of every point from the request of a retry or a restart to its end: between the
// commit of the new execution and its first dispatch, say. A repeated request gets the same execution, kept steps do
// not run, and the end is that of the undisturbed one.
func TestCrashWhileRepeating(t *testing.T) {
	t.Parallel()
	for _, rep := range repetitions {
		t.Run(rep.name, func(t *testing.T) {
			t.Parallel()
			calm := rep.run(t, &world{})
			want := calm.facts()
			calm.stop()
			if len(want.steps) != rep.steps || rep.name == "retry" && (want.status != "completed" || want.outputs != `{"total":405}`) {
				t.Fatalf("undisturbed: %s %s, %d steps %v", want.status, want.outputs, len(want.steps), slices.Sorted(maps.Keys(want.steps)))
			}
			kills := 0
			for _, point := range []string{"before commit", "after commit", "before push", "after push", "after pull", "before report", "after report", "before ack"} {
				step := 1
				if testing.Short() {
					step = 4
				}
				for n := 1; ; n += step {
					w := &world{point: point, n: n}
					run := rep.run(t, w)
					got := run.facts()
					run.stop()
					if !got.equal(want) {
						t.Fatalf("killed at passage %d of %q:\n%s", n, point, cmp.Diff(want, got, cmp.AllowUnexported(facts{})))
					}
					if !w.dead {
						break // there are fewer passages
					}
					kills++
				}
			}
			t.Logf("%d kills", kills)
		})
	}
}

func (rep *repetition) run(t *testing.T, w *world) crashed {
	t.Helper()
	w.died = make(chan struct{})
	db, m := filepath.Join(t.TempDir(), "repeat.db"), &mender{}
	calm := newRig(t, build{db: db, actions: m.actions()})
	id := calm.begin(pipeline(t, brokenPipeline))
	calm.end(id, stepwell.ExecutionCompletedWithFailures)
	calm.stop()
	m.mend()

	f := &faulty{before: func(int) error { return w.pass("before commit") }, after: func(int) error { return w.pass("after commit") }}
	r := newRig(t, build{db: db, faulty: f, workers: 3, actions: m.actions(),
		queue:  func(q queue.Queue) queue.Queue { return mortalQueue{q, w} },
		report: func(r worker.Reporter) worker.Reporter { return mortalReporter{r, w} }})
	again, err := rep.repeat(t.Context(), r, id)
	if err == nil {
		ended := make(chan error, 1)
		go func() { _, err := r.Wait(t.Context(), again); ended <- err }()
		select {
		case err = <-ended:
		case <-w.died:
			err = errDead
			r.stop()
			<-ended
		}
	}
	if err != nil || w.pass("end") != nil {
		r.stop()
		r = newRig(t, build{db: db, actions: m.actions()})
		again = rep.askAgain(t, r, id)
	}
	if _, err := r.Wait(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	for key := range m.ran {
		if !slices.Contains(rep.may, key) {
			t.Errorf("%s is kept, and ran", key)
		}
	}
	if len(m.ran) != len(rep.may) {
		t.Errorf("%v ran, of %v", m.ran, rep.may)
	}
	return crashed{r, again}
}

// askAgain recovers and asks for the same again: a retry by its key; a restart unless it is seen to have begun.
func (rep *repetition) askAgain(t *testing.T, r *rig, id string) string {
	t.Helper()
	if err := r.RecoverAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	x, err := r.store.Execution(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	events, err := r.store.Events(t.Context(), x.No, 0, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if e.Type == "restart" {
			return id
		}
	}
	again, err := rep.repeat(t.Context(), r, id)
	if err != nil {
		t.Fatal(err)
	}
	all, err := r.store.Executions(t.Context(), store.Filter{})
	if err != nil || len(all) > 2 || again != id && (len(all) != 2 || all[0].Parent != id) {
		t.Fatalf("%d executions, error %v", len(all), err)
	}
	return again
}
