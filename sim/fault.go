package sim

import (
	"context"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/queue"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/store/memory"
)

// Point is a place at which the process may end.
type Point string

// The points, in the order in which an attempt passes them.
const (
	BeforeCommit Point = "before commit"
	AfterCommit  Point = "after commit"
	BeforePush   Point = "before push"
	AfterPush    Point = "after push"
	AfterPull    Point = "after pull" // before the action runs
	BeforeReport Point = "before report"
	AfterReport  Point = "after report"
	BeforeSignal Point = "before signal"
	AfterSignal  Point = "after signal"
)

// Points are all points.
var Points = []Point{BeforeCommit, AfterCommit, BeforePush, AfterPush, AfterPull, BeforeReport, AfterReport, BeforeSignal, AfterSignal}

var errDead = stepwell.Errorf(stepwell.CodeInternal, "", "the process has ended")

// pass is an error when the process has ended, or ends at this point.
func (w *World) pass(p Point) error {
	if !w.dead && w.o.Fault(p) != nil {
		w.dead = true
	}
	if w.dead {
		return errDead
	}
	return nil
}

// mortalStore, mortalQueue and mortalReporter do nothing once the process has ended.
type mortalStore struct {
	*memory.Store
	w *World
}

func (s mortalStore) Commit(ctx context.Context, commits []store.Commit) error {
	if err := s.w.pass(BeforeCommit); err != nil {
		return err
	}
	if err := s.Store.Commit(ctx, commits); err != nil {
		return err
	}
	return s.w.pass(AfterCommit)
}

func (s mortalStore) PutSignal(ctx context.Context, x store.Signal) (bool, error) {
	if err := s.w.pass(BeforeSignal); err != nil {
		return false, err
	}
	fresh, err := s.Store.PutSignal(ctx, x)
	if err != nil {
		return fresh, err
	}
	return fresh, s.w.pass(AfterSignal)
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
	if err := q.w.pass(BeforePush); err != nil {
		return err
	}
	if err := q.Memory.Push(ctx, messages); err != nil {
		return err
	}
	return q.w.pass(AfterPush)
}

type mortalReporter struct{ w *World }

// Report implements worker.Reporter.
func (r mortalReporter) Report(ctx context.Context, run int64, ev engine.Event) error {
	if err := r.w.pass(BeforeReport); err != nil {
		return err
	}
	if err := r.w.Report(ctx, run, ev); err != nil {
		return err
	}
	return r.w.pass(AfterReport)
}
