package estimate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

var noon = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

// past is executions with the times of their steps.
type past struct {
	executions []store.Execution
	states     map[int64][]store.StepState
	lists      int
	err        error
}

func (p *past) Executions(_ context.Context, f store.Filter) (out []store.Execution, err error) {
	p.lists++
	for _, x := range p.executions {
		if x.Pipeline == f.Pipeline {
			out = append(out, x)
		}
	}
	return out, p.err
}

func (p *past) States(_ context.Context, no int64, _ []int32) ([]store.StepState, error) {
	return p.states[no], nil
}

// step is one that ran from and to so many seconds after the start.
type step struct {
	key      string
	from, to float64
}

// add stores an execution of steps.
func (p *past) add(pipeline string, steps ...step) {
	no, took := int64(len(p.executions)+1), 0.0
	micros := func(s float64) int64 { return noon.UnixMicro() + int64(s*1e6) }
	for i, s := range steps {
		took = max(took, s.to)
		p.states[no] = append(p.states[no], store.StepState{Idx: int32(i), Key: s.key, Status: stepwell.StepCompleted, Queued: micros(s.from), Started: micros(s.from), Ended: micros(s.to)})
	}
	p.executions = append(p.executions, store.Execution{No: no, ID: fmt.Sprint(no), Pipeline: pipeline, Status: stepwell.ExecutionCompleted, Started: noon,
		Ended: noon.Add(time.Duration(took * 1e9)), Progress: engine.Progress{Total: len(steps), Completed: len(steps)}})
}

// asked is what a book that has learned says after a time.
func asked(t *testing.T, p *past, pipeline string, elapsed float64, ended, total int) *float64 {
	t.Helper()
	b := New(p, func() time.Time { return noon.Add(time.Duration(elapsed * 1e9)) })
	if err := b.Learn(t.Context(), pipeline); err != nil {
		t.Fatal(err)
	}
	x := store.Execution{Pipeline: pipeline, Status: stepwell.ExecutionRunning, Started: noon}
	return b.Progress(&x, &engine.Progress{Total: total, Completed: ended}).ETA
}

func near(t *testing.T, what string, got *float64, want, within float64) {
	t.Helper()
	if got == nil || math.Abs(*got-want) > within {
		shown := "null"
		if got != nil {
			shown = fmt.Sprint(*got)
		}
		t.Errorf("%s: %s s, want %v", what, shown, want)
	}
}

func TestChain(t *testing.T) {
	p := &past{states: map[int64][]store.StepState{}}
	if got := asked(t, p, "chain", 1, 0, 3); got != nil {
		t.Errorf("without a past: %v", *got)
	}
	for range 3 {
		p.add("chain", step{"", 0, 10}, step{"", 10, 20}, step{"", 20, 100})
	}
	near(t, "at the start", asked(t, p, "chain", 0, 0, 3), 100, 0)
	near(t, "in the first step", asked(t, p, "chain", 5, 0, 3), 95, 0)
	near(t, "in the long step", asked(t, p, "chain", 50, 2, 3), 50, 0)
	near(t, "the second step hangs", asked(t, p, "chain", 3600, 1, 3), 80, 14)
	near(t, "the last step hangs", asked(t, p, "chain", 3600, 2, 3), 0, 0)
	near(t, "all earlier than before", asked(t, p, "chain", 2, 2, 3), 80, 30)
}

// TestFanOut has an execution with another number of iterations than before: it is known when they begin.
func TestFanOut(t *testing.T) {
	p := &past{states: map[int64][]store.StepState{}}
	steps := []step{{"", 0, 1}, {"", 1, 101}}
	for i := range 100 {
		steps = append(steps, step{fmt.Sprintf("each[%d]", i), float64(1 + i), float64(2 + i)})
	}
	p.add("fan", append(steps, step{"", 101, 102})...)
	near(t, "before the iterations are known", asked(t, p, "fan", 0.5, 0, 3), 101.5, 0.1)
	near(t, "half", asked(t, p, "fan", 51, 51, 103), 51, 2)
	near(t, "half, twice as slow", asked(t, p, "fan", 102, 51, 103), 102, 15)
	near(t, "half of ten times as many", asked(t, p, "fan", 501, 501, 1003), 501, 30)
	near(t, "half of a tenth", asked(t, p, "fan", 6, 6, 13), 6, 3)
	last := math.Inf(1)
	for i := range 1000 {
		got := asked(t, p, "fan", float64(i+1), i+1, 1003)
		if got == nil || *got > last+1 { // it may wait, and jumps by no more than an iteration takes
			t.Fatalf("after %d of 1,000 it is not near the %v of before", i, last)
		}
		last = *got
	}
}

func TestRestOfTheBook(t *testing.T) {
	p := &past{states: map[int64][]store.StepState{}}
	p.add("a", step{"", 0, 10})
	p.executions[0].Parent = "retried"
	if got := asked(t, p, "a", 1, 0, 1); got != nil {
		t.Errorf("from a retry: %v", *got)
	}
	p.add("a", step{"", 0, 10})
	now := noon
	b := New(p, func() time.Time { return now })
	p.lists = 0
	for range 3 {
		if err := b.Learn(t.Context(), "a", "b"); err != nil {
			t.Fatal(err)
		}
	}
	if p.lists != 2 {
		t.Errorf("%d lists read for two pipelines", p.lists)
	}
	x := store.Execution{Pipeline: "a", Status: stepwell.ExecutionPaused, Started: noon}
	if eta := b.Progress(&x, &engine.Progress{Total: 1}).ETA; eta != nil {
		t.Errorf("paused: %v", *eta)
	}
	now, p.err = now.Add(2*time.Minute), errors.New("away")
	if err := b.Learn(t.Context(), "a"); err == nil {
		t.Error("no error")
	}
	x.Status, x.Started = stepwell.ExecutionRunning, now
	near(t, "what was known stays", b.Progress(&x, &engine.Progress{Total: 1}).ETA, 10, 0)
	p.err = nil
	for i := range 3 * pipelines {
		if err := b.Learn(t.Context(), fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	if len(b.pages) > pipelines {
		t.Errorf("%d pipelines are kept", len(b.pages))
	}
}

func BenchmarkProgress(b *testing.B) {
	p := &past{states: map[int64][]store.StepState{}}
	var steps []step
	for i := range 4000 {
		steps = append(steps, step{fmt.Sprintf("each[%d]", i), float64(i), float64(i + 1)})
	}
	for range newest {
		p.add("x", steps...)
	}
	book := New(p, func() time.Time { return noon.Add(time.Hour) })
	if err := book.Learn(b.Context(), "x"); err != nil {
		b.Fatal(err)
	}
	x := store.Execution{Pipeline: "x", Status: stepwell.ExecutionRunning, Started: noon}
	for b.Loop() {
		book.Progress(&x, &engine.Progress{Total: 4000, Completed: 3000})
	}
}
