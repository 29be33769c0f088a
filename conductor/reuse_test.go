package conductor_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/secret"
	"github.com/stepwell/stepwell/store"
)

const reuseText = `name: p
settings: {sequential: true}
parameters: [{name: tone, type: string, default: calm}, {name: key, type: string, secret: true, default: none}]
steps:
  - {id: a, action: t.large, source: media, params: {}}
  - {id: b, action: t.echo, params: {n: "{{ steps.a.outputs.n }} {{ lesson.name }} {{ params.key | length > 0 }}"}}
  - {id: c, action: t.echo, for_each: "{{ [1, 2] }}", params: {n: "{{ item }} {{ params.tone }}"}}
  - {id: d, action: t.fail, params: {}}
`

// reuseRig is a rig with an execution that has failed at its last step.
type reuseRig struct {
	*rig
	failed string
}

func newReuseRig(t *testing.T, b build) *reuseRig {
	r := &reuseRig{rig: newRig(t, b)}
	r.failed = r.startReusing(reuseText, aLesson, map[string]any{"key": "hunter2"})
	r.end(r.failed, stepwell.ExecutionFailed)
	return r
}

func (r *reuseRig) request(text, about string, params map[string]any, from ...string) conductor.Request {
	r.t.Helper()
	return conductor.Request{Pipeline: r.register(pipeline(r.t, text)), About: json.RawMessage(about), Params: params, Reuse: from}
}

func (r *reuseRig) startReusing(text, about string, params map[string]any, from ...string) string {
	r.t.Helper()
	id, err := r.Start(r.t.Context(), r.request(text, about, params, from...))
	if err != nil {
		r.t.Fatal(err)
	}
	return id
}

// ran are the steps of an execution that had an attempt, those inside a loop too.
func (r *reuseRig) ran(x *store.Execution) string {
	var list []string
	for key, s := range r.steps(x.No) {
		if s.Attempt > 0 {
			list = append(list, key)
		}
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

// TestReuse: what PreviewReuse tells is what an execution of another version takes over, and the rest runs.
func TestReuse(t *testing.T) {
	r := newReuseRig(t, build{})
	fixed := strings.Replace(reuseText, "t.fail", "t.echo", 1)
	for _, c := range []struct {
		name, old, new string
		about          string // the old and the new text
		params         map[string]any
		steps          int
		why            string
	}{
		{"nothing", "", "", "", nil, 3, "its action changed"},
		{"another name", "name: p\n", "name: q\n", "", nil, 3, "its action changed"},
		{"another id", "id: b,", "id: e,", "", nil, 3, "its action changed"},
		{"params", "params.tone }}", "params.tone | upper }}", "", nil, 2, "the steps inside it changed"},
		{"a parameter", "", "", "", map[string]any{"tone": "loud"}, 2, "params.tone changed"},
		{"a secret parameter", "", "", "", map[string]any{"key": "another"}, 3, "its action changed"},
		{"the lesson's name", "", "", `"Cells"="Stars"`, nil, 1, "lesson.name changed"},
		{"what nobody reads", "", "", `"w1"="w2"`, nil, 3, "its action changed"},
		{"the address", "", "", `http://here=http://there`, nil, 3, "its action changed"},
		{"the file", "", "", `sha256-1=sha256-2`, nil, 0, "the lesson has another file"},
		{"a new first step", "steps:\n", "steps:\n  - {id: z, action: t.nap, params: {}}\n", "", nil, 0, "its action changed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := strings.Replace(fixed, c.old, c.new, 1)
			old, now, _ := strings.Cut(c.about, "=")
			about := strings.Replace(aLesson, old, now, 1)
			u, err := r.PreviewReuse(t.Context(), r.request(text, about, c.params, r.failed))
			if err != nil {
				t.Fatal(err)
			}
			if u.Steps != c.steps || u.Why[0] != c.why || (u.Execution == r.failed) != (c.steps > 0) {
				t.Fatalf("preview: %d of %s, %q", u.Steps, u.Execution, u.Why)
			}
			x := r.end(r.startReusing(text, about, c.params, r.failed), stepwell.ExecutionCompleted)
			graph := r.register(pipeline(t, text)).Plan().Graph
			rows := r.steps(x.No)
			for i := range graph.Steps {
				if s := rows[graph.Steps[i].ID]; s.Status != stepwell.StepCompleted || (s.Attempt == 0) != (i < c.steps) {
					t.Errorf("step %s: %s after %d attempts", s.Key, s.Status, s.Attempt)
				}
			}
			if c.steps > 0 && !engine.IsRef(rows["a"].Output) || c.steps > 1 && string(rows[graph.Steps[1].ID].Output) != `{"v":"5 Cells true"}` {
				t.Errorf("outputs: %.50s, %.50s", rows["a"].Output, rows["b"].Output)
			}
		})
	}
}

// TestReuseOfTheBest: of several executions the one with the longest beginning gives its results, of equal ones the first; those that
// are not there, or go on, give none.
func TestReuseOfTheBest(t *testing.T) {
	g := newGate()
	r := newReuseRig(t, build{actions: actions(g)})
	short := r.end(r.startReusing(strings.Replace(reuseText, "t.echo, params", "t.fail, params", 1), aLesson, nil), stepwell.ExecutionFailed)
	running := r.startReusing(strings.Replace(reuseText, "t.fail", "t.gate", 1), aLesson, nil)
	<-g.begun
	fixed := strings.Replace(reuseText, "t.fail", "t.echo", 1)
	x := r.end(r.startReusing(fixed, aLesson, nil, "0197a1b2-0000-7000-8000-000000000000", running, short.ID, r.failed), stepwell.ExecutionCompleted)
	if got := r.ran(x); got != "d" {
		t.Errorf("these ran: %s", got)
	}
	for _, c := range []struct{ from, why string }{
		{"", "nothing has ended whose results it could take over"},
		{"0197a1b2-0000-7000-8000-000000000000", "the earlier one is not there any more"},
		{running, "the earlier one has not ended: it is running"},
		{short.ID, "its action changed"},
	} {
		var from []string
		if c.from != "" {
			from = []string{c.from}
		}
		u, err := r.PreviewReuse(t.Context(), r.request(fixed, aLesson, nil, from...))
		if err != nil || !slices.Contains(u.Why, c.why) {
			t.Errorf("of %s: %v, %+v", c.from, err, u)
		}
	}
	u, err := r.PreviewReuse(t.Context(), r.request(reuseText, aLesson, nil, r.failed))
	if err != nil || u.Steps != 3 || u.Why[0] != "it did not complete there: it is failed" {
		t.Errorf("of one that failed: %v, %+v", err, u)
	}
	if u, err = r.PreviewReuse(t.Context(), r.request(fixed, aLesson, nil, x.ID)); err != nil || u.Steps != 4 || len(u.Why) != 0 {
		t.Errorf("of one that is done: %v, %+v", err, u)
	}
	again := r.end(r.startReusing(fixed, aLesson, nil, x.ID), stepwell.ExecutionCompleted)
	if got := r.ran(again); got != "" {
		t.Errorf("all is taken over, and these ran: %s", got)
	}
	close(g.open)
	r.end(running, stepwell.ExecutionCompleted)
}

// TestReuseOfWhatChanges: an execution that is removed or restarted while its results are read gives none.
func TestReuseOfWhatChanges(t *testing.T) {
	f := &moving{}
	r := newReuseRig(t, build{set: func(o *conductor.Options) { f.Store, o.Store = o.Store, f }})
	fixed := strings.Replace(reuseText, "t.fail", "t.echo", 1)
	for _, how := range []string{"removed", "restarted"} {
		f.how.Store(&how)
		x := r.end(r.startReusing(fixed, aLesson, nil, r.failed), stepwell.ExecutionCompleted)
		if got := r.ran(x); !strings.HasPrefix(got, "a b c") {
			t.Errorf("%s: these ran: %s", how, got)
		}
	}
	f.how.Store(nil)
	x := r.end(r.startReusing(fixed, aLesson, nil, r.failed), stepwell.ExecutionCompleted)
	if got := r.ran(x); got != "d" {
		t.Errorf("these ran: %s", got)
	}
}

// moving is a store whose executions are removed or restarted once their results have been read.
type moving struct {
	conductor.Store
	how  atomic.Pointer[string]
	read atomic.Int64 // the number of the execution
}

func (m *moving) Outputs(ctx context.Context, no int64) iter.Seq2[engine.StepRow, error] {
	m.read.Store(no)
	return m.Store.Outputs(ctx, no)
}

func (m *moving) Execution(ctx context.Context, id string) (*store.Execution, error) {
	x, err := m.Store.Execution(ctx, id)
	if how := m.how.Load(); how != nil && err == nil && m.read.CompareAndSwap(x.No, 0) {
		if *how == "removed" {
			return nil, &stepwell.Error{Code: stepwell.CodeNotFound, Message: "gone"}
		}
		x.Version++
	}
	return x, err
}

// TestReuseKeepsSecrets: neither what is told nor what is stored holds a secret parameter, and one that cannot be read any more is no
// reason to fail.
func TestReuseKeepsSecrets(t *testing.T) {
	db := filepath.Join(t.TempDir(), "c.db")
	var guard *secret.Guard
	r := newReuseRig(t, build{db: db, set: guarded(t, &guard, 1)})
	r.stop()
	again := &reuseRig{rig: newRig(t, build{db: db, set: func(o *conductor.Options) {
		guarded(t, &guard, 1)(o)
		o.Secrets = lostKey{o.Secrets}
	}}), failed: r.failed}
	fixed := strings.Replace(reuseText, "t.fail", "t.echo", 1)
	u, err := again.PreviewReuse(t.Context(), again.request(fixed, aLesson, map[string]any{"key": "hunter3"}, again.failed))
	if err != nil || u.Steps != 1 || u.Why[0] != "the parameters of that one cannot be read any more" || strings.Contains(fmt.Sprint(u.Why), "hunter") {
		t.Errorf("%v, %+v", err, u)
	}
	again.end(again.startReusing(fixed, aLesson, map[string]any{"key": "hunter3"}, again.failed), stepwell.ExecutionCompleted)
	again.stop()
	raw, err := os.ReadFile(db)
	if err != nil || len(raw) == 0 || bytes.Contains(raw, []byte("hunter")) {
		t.Errorf("the database holds the parameter, or nothing: %d bytes, %v", len(raw), err)
	}
}

// lostKey opens no parameters.
type lostKey struct{ conductor.Secrets }

func (lostKey) OpenParams(string, json.RawMessage) (json.RawMessage, error) {
	return nil, &stepwell.Error{Code: stepwell.CodeInternal, Message: "sealed with a master key that is not here"}
}

// TestReuseSurvives: results that were taken over are there after a restart of the process, and when the earlier execution has been removed.
func TestReuseSurvives(t *testing.T) {
	db := filepath.Join(t.TempDir(), "c.db")
	g := newGate()
	r := newReuseRig(t, build{db: db, actions: actions(g)})
	gated := strings.Replace(reuseText, "t.fail, params: {}", `t.gate, params: {n: "{{ steps.a.outputs.text | length }}"}`, 1)
	id := r.startReusing(gated, aLesson, nil, r.failed)
	<-g.begun
	r.stop()
	g = newGate()
	again := newRig(t, build{db: db, actions: actions(g)})
	for more, err := true, error(nil); more; {
		if _, more, err = again.store.Prune(t.Context(), store.Retention{Executions: time.Now().Add(time.Hour)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := again.store.Execution(t.Context(), r.failed); stepwell.CodeOf(err) != stepwell.CodeNotFound {
		t.Fatal("the earlier execution is there", err)
	}
	if err := again.Recover(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if c := <-g.begun; fmt.Sprint(c.Params["n"]) != fmt.Sprint(100<<10) {
		t.Errorf("a step after those that were taken over gets %v", c.Params["n"])
	}
	close(g.open)
	again.end(id, stepwell.ExecutionCompleted)
}
