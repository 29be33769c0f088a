package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/plan"
	"github.com/stepwell/stepwell/queue"
	"github.com/stepwell/stepwell/spec"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/worker"
)

// inbox keeps a pool's reports.
type inbox struct{ events chan engine.Event }

func (i *inbox) Report(_ context.Context, _ int64, ev engine.Event) error {
	i.events <- ev
	return nil
}

// segmentRig is a pool alone, with one task that stands for three steps.
type segmentRig struct {
	*worker.Pool
	inbox
	mu       sync.Mutex
	lines    []store.LogLine
	progress map[int32]worker.Progress
	ended    chan struct{}
	err      error // of Run
}

func newSegment(t *testing.T, f action.HandlerFunc) *segmentRig {
	t.Helper()
	r := &segmentRig{inbox: inbox{make(chan engine.Event, 10)}, progress: map[int32]worker.Progress{}}
	actions := &action.Registry{}
	if err := actions.Add(action.Action{Spec: spec.Spec{Name: plan.SegmentAction, OpenParams: true}, Handler: f}); err != nil {
		t.Fatal(err)
	}
	q := &queue.Memory{}
	pool, err := worker.New(worker.Options{Queue: q, Actions: actions, Reporter: &r.inbox, Records: nothing{}, Blobs: store.NewFolder(t.TempDir()), Log: slog.New(slog.DiscardHandler),
		Lines: func(l store.LogLine) { r.mu.Lock(); r.lines = append(r.lines, l); r.mu.Unlock() },
		Progress: func(_ int64, idx int32, p worker.Progress) {
			r.mu.Lock()
			r.progress[idx] = p
			r.mu.Unlock()
		}})
	if err != nil {
		t.Fatal(err)
	}
	r.Pool = pool
	ctx, cancel := context.WithCancel(context.Background())
	r.ended = make(chan struct{})
	go func() { defer close(r.ended); r.err = pool.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-r.ended; q.Close() })
	step := &plan.Step{ID: "read", Action: plan.SegmentAction, Policy: &plan.Policy{Timeout: time.Minute}}
	task := &engine.Task{Run: 1, Execution: "x", Idx: 4, Epoch: 1, Attempt: 1, Key: "g.read", Step: step, Members: []engine.Member{
		{Idx: 4, ID: "read", Key: "g.read"}, {Idx: 5, ID: "change", Key: "g.change", LogLevel: "error"}, {Idx: 6, ID: "write", Key: "g.write", Keep: true}}}
	if err := q.Push(context.Background(), []queue.Message{{Run: 1, Idx: 4, Epoch: 1, Body: task}}); err != nil {
		t.Fatal(err)
	}
	return r
}

// The steps of a segment get their own outputs, logs (by their own levels) and counts.
func TestMembers(t *testing.T) {
	r := newSegment(t, func(_ context.Context, call *action.Call) (any, error) {
		call.Host.Member("write").Count(action.Counts{In: 7})
		call.Host.Member("change").Log(slog.LevelInfo, "not heard")
		call.Host.Member("write").Log(slog.LevelInfo, "written")
		call.Host.Member("nobody").Log(slog.LevelInfo, "mine")
		return action.Members{Partial: true, Outputs: map[string]any{"read": map[string]any{"n": 1}, "write": map[string]any{"n": 3}}}, nil
	})
	ev := <-r.events
	if ev.Kind != engine.DoneAll || !ev.Partial || string(ev.Output) != `{"n":1}` || len(ev.Parts) != 2 || ev.Parts[0].Idx != 5 || ev.Parts[0].Output != nil ||
		ev.Parts[1].Idx != 6 || string(ev.Parts[1].Output) != `{"n":3}` {
		t.Errorf("reported %+v", ev)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.lines) != 2 || r.lines[0].StepKey != "g.write" || r.lines[0].Step != 6 || r.lines[1].StepKey != "g.read" {
		t.Errorf("logged %+v", r.lines)
	}
	if p := r.progress[6]; p.Counts == nil || p.Counts.In != 7 {
		t.Errorf("counted %+v", r.progress)
	}
}

// The failure of a segment names the step at fault, and a result of another form fails it.
func TestMemberFails(t *testing.T) {
	for _, c := range []struct {
		out    any
		err    error
		member int32
	}{
		{err: &action.MemberError{Member: "write", Err: errors.New("disk full")}, member: 7},
		{err: action.Fail(&action.MemberError{Member: "read", Err: errors.New("no file")})},
		{err: errors.New("nobody's fault")},
		{out: map[string]any{"read": 1}},
		{out: action.Members{Outputs: map[string]any{"change": "no object"}}, member: 6},
	} {
		r := newSegment(t, func(context.Context, *action.Call) (any, error) { return c.out, c.err })
		if ev := <-r.events; ev.Kind != engine.Failed || ev.Member != c.member {
			t.Errorf("%v, %v: reported %+v", c.out, c.err, ev)
		}
	}
}

// A pool that drains stops a stream and puts it back: no attempt is used up, and the next run goes on at its
// checkpoint.
func TestDrainStopsStreams(t *testing.T) {
	begun := make(chan struct{})
	r := newSegment(t, func(ctx context.Context, _ *action.Call) (any, error) {
		close(begun)
		<-ctx.Done()
		return nil, ctx.Err()
	})
	<-begun
	r.Drain()
	<-r.ended
	if r.err != nil {
		t.Error(r.err)
	}
	if ev := <-r.events; ev.Kind != engine.Failed || !ev.Defer || ev.Failure.Code != stepwell.CodeCancelled {
		t.Errorf("reported %+v", ev)
	}
}

// nothing has no records.
type nothing struct{}

func (nothing) Memo(context.Context, int64, int32, string) (json.RawMessage, bool, error) {
	return nil, false, nil
}
func (nothing) PutMemo(context.Context, store.Memo) error { return nil }
func (nothing) Outputs(context.Context, int64) iter.Seq2[engine.StepRow, error] {
	return func(func(engine.StepRow, error) bool) {}
}
func (nothing) Output(context.Context, int64, string) ([]byte, error)   { return nil, nil }
func (nothing) PutOutsideWork(context.Context, store.OutsideWork) error { return nil }
func (nothing) OutsideWork(context.Context, int64, store.OutsideWork, int) ([]store.OutsideWork, error) {
	return nil, nil
}
func (nothing) DeleteOutsideWork(context.Context, int64, int32, uint32) error { return nil }
