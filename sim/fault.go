package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/queue"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/store/memory"
)

// Point is a place that what happens passes.
type Point string

// The points, in the order in which an attempt passes them.
const (
	BeforeCommit Point = "before-commit"
	AfterCommit  Point = "after-commit"
	BeforePush   Point = "before-push"
	AfterPush    Point = "after-push"
	AfterPull    Point = "after-pull" // before the action runs
	BeforeMemo   Point = "before-memo"
	AfterMemo    Point = "after-memo"
	BeforeReport Point = "before-report"
	AfterReport  Point = "after-report"
	BeforeSignal Point = "before-signal"
	AfterSignal  Point = "after-signal"
)

// Fate is what becomes of what passes a point.
type Fate string

// The fates.
const (
	Passes  Fate = ""
	Dies    Fate = "dies"    // the process ends
	Refused Fate = "refused" // the store or the queue answers with an error, at an After… point although it has done what was asked
	Twice   Fate = "twice"   // it comes twice: a message, a report, a signal
	Late    Fate = "late"    // a report comes once more, a minute later
	Lost    Fate = "lost"    // the worker is lost, and reports all the same when another one has the step
	Gone    Fate = "gone"    // a push comes to nothing: only another process sends its attempts again
)

// FatesOf are those that a point knows.
type FatesOf struct {
	Point
	Fates []Fate
}

// Fates are those that each point knows, in order.
var Fates = []FatesOf{
	{BeforeCommit, []Fate{Dies, Refused}}, {AfterCommit, []Fate{Dies, Refused}}, {BeforePush, []Fate{Dies, Refused}}, {AfterPush, []Fate{Dies, Twice}},
	{AfterPull, []Fate{Dies, Lost}}, {BeforeMemo, []Fate{Dies}}, {AfterMemo, []Fate{Dies}}, {BeforeReport, []Fate{Dies, Lost}},
	{AfterReport, []Fate{Dies, Twice, Late}}, {BeforeSignal, []Fate{Dies}}, {AfterSignal, []Fate{Dies, Twice}},
}

// lateBy is when a report comes that is Late.
const lateBy = time.Minute

// Passage is that something passes a point.
type Passage struct {
	Point Point
	Key   string // of the step; "" where it is none's: a commit, a push, a signal
	N     int    // counts the passages of the point with the key, from 1, over all lives of the process
}

// String is like after-report:deploy#1.
func (p Passage) String() string {
	if p.Key == "" {
		return fmt.Sprintf("%s#%d", p.Point, p.N)
	}
	return fmt.Sprintf("%s:%s#%d", p.Point, p.Key, p.N)
}

var (
	errDead = stepwell.Errorf(stepwell.CodeInternal, "", "the process has ended")
	errAway = stepwell.Errorf(stepwell.CodeUnavailable, "", "refused by the test")
)

// pass asks for the fate at a point. The error says that the process has ended.
func (w *World) pass(point Point, key string) (Fate, error) {
	if w.dead {
		return Dies, errDead
	}
	if w.o.Fault == nil {
		return Passes, nil
	}
	p := Passage{point, key, 0}
	w.passed[p]++
	n := p
	n.N = w.passed[p]
	fate := w.o.Fault(n)
	if fate == Dies {
		w.dead = true
		return fate, errDead
	}
	return fate, nil
}

// mortalStore, mortalQueue and mortalReporter do nothing once the process has ended.
type mortalStore struct {
	*memory.Store
	w *World
}

func (s mortalStore) Commit(ctx context.Context, commits []store.Commit) error {
	switch fate, err := s.w.pass(BeforeCommit, ""); {
	case err != nil:
		return err
	case fate == Refused:
		return errAway
	}
	if err := s.Store.Commit(ctx, commits); err != nil {
		return err
	}
	s.w.trace(Trace{What: Committed, Commits: commits})
	fate, err := s.w.pass(AfterCommit, "")
	if fate == Refused {
		return errAway
	}
	return err
}

func (s mortalStore) PutSignal(ctx context.Context, x store.Signal) (bool, error) {
	if _, err := s.w.pass(BeforeSignal, ""); err != nil {
		return false, err
	}
	fresh, err := s.Store.PutSignal(ctx, x)
	if err != nil {
		return fresh, err
	}
	if fresh {
		s.w.trace(Trace{What: Signalled, Key: x.Key})
	}
	fate, err := s.w.pass(AfterSignal, "")
	s.w.resend = fate == Twice
	return fresh, err
}

// Signal stores a signal and hands it to the steps that await it.
func (w *World) Signal(ctx context.Context, x store.Signal) (fresh, delivered bool, err error) {
	fresh, delivered, err = w.Conductor.Signal(ctx, x)
	if w.resend && err == nil {
		w.resend = false
		if _, _, err := w.Conductor.Signal(ctx, x); w.dead {
			return fresh, delivered, err
		} // else it is its sender's to know that a repetition is refused
	}
	return fresh, delivered, err
}

func (s mortalStore) PutMemo(ctx context.Context, m store.Memo) error {
	if _, err := s.w.pass(BeforeMemo, s.w.key(m.Execution, m.Step)); err != nil {
		return err
	}
	if err := s.Store.PutMemo(ctx, m); err != nil {
		return err
	}
	s.w.trace(Trace{What: Remembered, Run: m.Execution, Idx: m.Step, Epoch: m.Epoch, Key: m.Key})
	_, err := s.w.pass(AfterMemo, s.w.key(m.Execution, m.Step))
	return err
}

func (s mortalStore) AppendLogs(ctx context.Context, lines []store.LogLine) error {
	if s.w.dead {
		return errDead
	}
	return s.Store.AppendLogs(ctx, lines)
}

type mortalQueue struct {
	*queue.Memory
	w *World
}

func (q mortalQueue) Push(ctx context.Context, messages []queue.Message) error {
	switch fate, err := q.w.pass(BeforePush, ""); {
	case err != nil:
		return err
	case fate == Refused:
		return errAway
	case fate == Gone:
		return nil
	}
	for i := range messages {
		t := messages[i].Body.(*engine.Task)
		q.w.trace(Trace{What: Pushed, Run: t.Run, Idx: t.Idx, Epoch: t.Epoch, Key: t.Key, Once: t.Step.Policy.NotIdempotent})
	}
	if err := q.Memory.Push(ctx, messages); err != nil {
		return err
	}
	fate, err := q.w.pass(AfterPush, "")
	if fate == Twice {
		return q.Memory.Push(ctx, messages)
	}
	return err
}

type mortalReporter struct{ w *World }

// Report implements worker.Reporter.
func (r mortalReporter) Report(ctx context.Context, run int64, ev engine.Event) error {
	w, key := r.w, r.w.key(run, ev.Idx)
	switch fate, err := w.pass(BeforeReport, key); {
	case err != nil:
		return err
	case fate == Lost && ev.Kind != engine.Running && ev.Kind != engine.Spawned:
		late := ev // when another worker has the step
		w.Plan(w.Clock.at, func(ctx context.Context) error { return w.Conductor.Report(ctx, run, late) })
		ev = w.lost(ev.Idx, ev.Epoch)
	}
	if err := w.Conductor.Report(ctx, run, ev); err != nil {
		return err
	}
	if ev.Kind == engine.Running {
		w.trace(Trace{What: Claimed, Run: run, Idx: ev.Idx, Epoch: ev.Epoch, Key: key})
	}
	fate, err := w.pass(AfterReport, key)
	again := func(ctx context.Context) error {
		if err := w.Conductor.Report(ctx, run, ev); stepwell.CodeOf(err) != stepwell.CodeConflict {
			return err
		}
		return nil
	}
	switch fate {
	case Twice:
		return again(ctx)
	case Late:
		w.Plan(w.Clock.at.Add(lateBy), again)
	}
	return err
}

// LostByFault is the name of a worker that a Fault has lost.
const LostByFault = "lost by the test"

// lost says that the worker of an attempt is lost.
func (w *World) lost(idx int32, epoch uint32) engine.Event {
	return engine.Event{Kind: engine.Lost, At: w.Clock.at.UnixMicro(), Idx: idx, Epoch: epoch, Worker: LostByFault}
}
