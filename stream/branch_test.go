package stream_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/stream"
	"github.com/stepwell/stepwell/stream/streamtest"
)

// branchRig is a segment of a test whose steps may be broken.
type branchRig struct {
	t       *testing.T
	segment streamtest.Segment
	sinks   map[string]*streamtest.Collector
	broken  map[string]*atomic.Bool // by step
	opened  map[string]*atomic.Int64
}

var errBroken = errors.New("the disk is full")

// newBranches makes a segment of steps "id: input input": s… is a source of 100 items, m… a modifier, k… a sink. A step in
// atOpen breaks when it is opened, the others at the 50th item.
func newBranches(t *testing.T, atOpen string, steps ...string) *branchRig {
	r := &branchRig{t: t, sinks: map[string]*streamtest.Collector{}, broken: map[string]*atomic.Bool{}, opened: map[string]*atomic.Int64{}}
	r.segment = streamtest.Segment{Checkpoints: t.TempDir(), Dir: t.TempDir(), Settings: map[string]any{"batch": 7, "checkpoint_interval": 0.001}}
	for _, text := range steps {
		id, inputs, _ := strings.Cut(text, ":")
		r.segment.Steps = append(r.segment.Steps, stream.Step{ID: id, Module: "x." + id, Inputs: strings.Fields(inputs)})
		broken, opened := new(atomic.Bool), new(atomic.Int64)
		r.broken[id], r.opened[id] = broken, opened
		var m stream.Module
		switch id[0] {
		case 's':
			var items []string
			for i := range 100 {
				items = append(items, fmt.Sprintf(`{"id":"%s-%d","n":%d}`, id, i, i))
			}
			m = streamtest.Source("x."+id, items...)
		case 'm':
			m = streamtest.Modifier("x."+id, true, func(_ context.Context, it *stream.Item) (*stream.Item, error) {
				switch n := number(it); {
				case broken.Load() && n == 50:
					return nil, stream.Abort(errBroken)
				case n%10 == 9:
					return nil, errors.New("a bad item")
				}
				return it, nil
			})
		case 'k':
			r.sinks[id] = streamtest.Collect("x." + id)
			m = r.sinks[id].Module()
		}
		open := m.Open
		m.Open = func(ctx context.Context, env *stream.Env, config map[string]any) (any, error) {
			opened.Add(1)
			if broken.Load() && id == atOpen {
				return nil, errBroken
			}
			c, err := open(ctx, env, config)
			if sink, ok := c.(stream.Sink); ok {
				return &breakable{Sink: sink, broken: broken}, err
			}
			return c, err
		}
		r.segment.Modules = append(r.segment.Modules, m)
	}
	return r
}

// breakable is a sink that may break.
type breakable struct {
	stream.Sink
	broken *atomic.Bool
	n      int
}

func (b *breakable) Write(ctx context.Context, batch []*stream.Item) error {
	if b.n += len(batch); b.broken.Load() && b.n >= 50 {
		return errBroken
	}
	return b.Sink.Write(ctx, batch)
}

func (r *branchRig) run(broken ...string) *streamtest.Outcome {
	r.t.Helper()
	for id := range r.broken {
		r.broken[id].Store(slices.Contains(broken, id))
		r.opened[id].Store(0)
	}
	return streamtest.Run(r.t.Context(), r.t, r.segment)
}

// want checks what became of the steps, and how many items the sinks have.
func (r *branchRig) want(out *streamtest.Outcome, failed, stopped, completed string, items string) {
	r.t.Helper()
	names := func(keys iter.Seq[string]) string { return strings.Join(slices.Sorted(keys), " ") }
	if got := names(maps.Keys(out.Failed)); got != failed {
		r.t.Errorf("failed: %q, want %q (%v)", got, failed, out.Err)
	}
	if got := names(maps.Keys(out.Stopped)); got != stopped {
		r.t.Errorf("stopped: %q, want %q", got, stopped)
	}
	if got := names(maps.Keys(out.Outputs)); got != completed {
		r.t.Errorf("completed: %q, want %q", got, completed)
	}
	var have []string
	for _, id := range slices.Sorted(maps.Keys(r.sinks)) {
		n := fmt.Sprint(len(r.sinks[id].Items()))
		if strings.Contains(items, id+"=?") && len(r.sinks[id].Items()) < 50 {
			n = "?" // it is a matter of batches how many were durable
		}
		have = append(have, fmt.Sprintf("%s=%s/%d", id, n, r.sinks[id].Closed()))
	}
	if got := strings.Join(have, " "); got != items {
		r.t.Errorf("items/ends: %s, want %s", got, items)
	}
}

// A step that cannot work ends with what depends on it; the others go on to their end. The next attempt runs only what
// did not complete (semantics §8).
func TestBranchesThatFail(t *testing.T) {
	for _, c := range []struct {
		name, atOpen, breaks       string
		steps                      []string
		failed, stopped, completed string
		items, after               string // items and ends of the sinks
		again                      string // what the next attempt opens
	}{
		{name: "a sink", steps: []string{"s", "k1: s", "k2: s"}, breaks: "k1", failed: "k1", completed: "k2 s", items: "k1=?/0 k2=100/1", after: "k1=100/1 k2=100/1", again: "k1 s"},
		{name: "a sink at its beginning", atOpen: "k1", steps: []string{"s", "k1: s", "k2: s"}, breaks: "k1", failed: "k1", completed: "k2 s", items: "k1=0/0 k2=100/1", after: "k1=100/1 k2=100/1", again: "k1 s"},
		{name: "a modifier before a sink", atOpen: "m", steps: []string{"s", "m: s", "k1: m", "k2: s"}, breaks: "m", failed: "m", stopped: "k1", completed: "k2 s", items: "k1=0/0 k2=100/1", after: "k1=90/1 k2=100/1", again: "k1 m s"},
		{name: "a modifier whose sink is alone", atOpen: "k1", steps: []string{"s", "m: s", "k1: m", "k2: s"}, breaks: "k1", failed: "k1", stopped: "m", completed: "k2 s", items: "k1=0/0 k2=100/1", after: "k1=90/1 k2=100/1", again: "k1 m s"},
		{name: "one branch of a join", atOpen: "m1", steps: []string{"s", "m1: s", "m2: s", "k1: m1 m2", "k2: m2"}, breaks: "m1", failed: "m1", stopped: "k1", completed: "k2 m2 s", items: "k1=0/0 k2=90/1", after: "k1=90/1 k2=90/1", again: "k1 m1 m2 s"},
		{name: "one of two sources", atOpen: "s1", steps: []string{"s1", "s2", "k1: s1", "k2: s1 s2", "k3: s2"}, breaks: "s1", failed: "s1", stopped: "k1 k2", completed: "k3 s2", items: "k1=0/0 k2=0/0 k3=100/1", after: "k1=100/1 k2=200/1 k3=100/1", again: "k1 k2 s1 s2"},
		{name: "what is done is not read again", atOpen: "s1", steps: []string{"s1", "s2", "m: s2", "k1: s1", "k2: s1 s2", "k3: m"}, breaks: "s1", failed: "s1", stopped: "k1 k2", completed: "k3 m s2", items: "k1=0/0 k2=0/0 k3=90/1", after: "k1=100/1 k2=200/1 k3=90/1", again: "k1 k2 s1 s2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newBranches(t, c.atOpen, c.steps...)
			out := r.run(c.breaks)
			r.want(out, c.failed, c.stopped, c.completed, c.items)
			m, ok := errors.AsType[*action.MemberError](out.Err)
			if !ok || m.Member != c.failed || !errors.Is(out.Err, errBroken) || action.IsFail(out.Err) {
				t.Errorf("error %v", out.Err)
			}
			if out.Report["status"] != "failed" {
				t.Errorf("report: %v", out.Report)
			}
			failures := len(out.Failures)
			r.segment.Attempt = 2
			out = r.run()
			if out.Err != nil {
				t.Fatal(out.Err)
			}
			all := []string{}
			for _, s := range r.segment.Steps {
				all = append(all, s.ID)
			}
			slices.Sort(all)
			r.want(out, "", "", strings.Join(all, " "), c.after)
			var again []string
			for _, id := range all {
				if r.opened[id].Load() > 0 {
					again = append(again, id)
				}
			}
			if got := strings.Join(again, " "); got != c.again {
				t.Errorf("the next attempt opens %q, want %q", got, c.again)
			}
			if len(out.Failures) < failures || strings.Contains(c.after, "=90") && len(out.Failures) < 10 {
				t.Errorf("%d failures after %d", len(out.Failures), failures)
			}
			for id, outputs := range out.Outputs {
				if outputs["items_in"] == nil || id[0] == 'k' && outputs["items_written"] == nil {
					t.Errorf("outputs of %s: %v", id, outputs)
				}
			}
		})
	}
}

// strict, and fail_fast: cancel, stop all branches for one.
func TestAllBranchesStop(t *testing.T) {
	for _, setting := range []string{"strict", "stop_all"} {
		r := newBranches(t, "k1", "s", "k1: s", "k2: s")
		r.segment.Settings[setting] = true
		out := r.run("k1")
		if out.Err == nil || out.Failed != nil || r.sinks["k2"].Closed() > 0 {
			t.Errorf("%s: %v, %v, k2 was ended %d times", setting, out.Err, out.Failed, r.sinks["k2"].Closed())
		}
	}
}

// A source that finds nothing ends only itself: what others have goes where it should.
func TestEmptySource(t *testing.T) {
	nothing := &stepwell.Error{Code: stepwell.CodeNotFound, Message: "no file matches *.x"}
	missing := func(name string, atOpen bool) stream.Module {
		return stream.Module{Spec: spec.Spec{Name: name, Summary: "Finds nothing.", Stream: &spec.Stream{Role: spec.Source}},
			Open: func(context.Context, *stream.Env, map[string]any) (any, error) {
				if atOpen {
					return nil, nothing
				}
				return noItems{nothing}, nil
			}}
	}
	for _, atOpen := range []bool{true, false} {
		r := newBranches(t, "", "s1", "s2", "m: s1", "k1: m s2", "k2: s1", "k3: s2")
		r.segment.Modules[0] = missing("x.s1", atOpen)
		out := r.run()
		r.want(out, "s1", "k2", "k1 k3 m s2", "k1=100/1 k2=0/0 k3=100/1")
		r = newBranches(t, "", "s1", "k1: s1")
		r.segment.Modules[0] = missing("x.s1", atOpen)
		if out := r.run(); out.Err == nil || out.Failed != nil || r.sinks["k1"].Closed() > 0 {
			t.Errorf("alone: %v, %v", out.Err, out.Failed)
		}
	}
	r := newBranches(t, "", "s1", "s2", "k1: s1 s2")
	whole := r.segment.Modules[0]
	r.segment.Modules[0] = missing("x.s1", true)
	r.want(r.run(), "s1", "", "k1 s2", "k1=100/1")
	r.segment.Modules[0] = whole
	out := r.run() // the files have come: the sink takes them in too
	r.want(out, "", "", "k1 s1 s2", "k1=200/2")
}

type noItems struct{ err error }

func (s noItems) Read(context.Context, iter.Seq[*stream.Item], stream.Out) error { return s.err }

// A retry, which is an execution of its own, runs what did not complete, and completed branches on which items have failed.
func TestRetryOfBranches(t *testing.T) {
	r := newBranches(t, "k1", "s", "m: s", "k1: s", "k2: m", "k3: s")
	r.segment.Execution = "first"
	r.want(r.run("k1"), "k1", "", "k2 k3 m s", "k1=0/0 k2=90/1 k3=100/1")
	r.segment.Execution, r.segment.GoesOn = "second", "first"
	out := r.run()
	r.want(out, "", "", "k1 k2 k3 m s", "k1=100/1 k2=90/2 k3=100/1")
	if r.opened["k3"].Load() > 0 || r.opened["k2"].Load() == 0 || len(out.Failures) != 10 {
		t.Errorf("k2 is opened %d times, k3 %d; %d items failed", r.opened["k2"].Load(), r.opened["k3"].Load(), len(out.Failures))
	}
	r.segment.Execution, r.segment.GoesOn = "third", "" // not a retry: everything is looked at
	r.run()
	if r.opened["k3"].Load() == 0 {
		t.Error("a run that retries nothing leaves k3 out")
	}
}
