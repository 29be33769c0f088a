// Package feedtest makes executions in a real database, commit by commit, for tests of the live stream.
package feedtest

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/store/sqlite"
)

// World is a database with executions. It is for one goroutine.
type World struct {
	Store store.Store
	tb    testing.TB
	path  string
	last  int64
}

// Open makes an empty one, which ends with the test.
func Open(tb testing.TB) *World {
	tb.Helper()
	w := &World{tb: tb, path: filepath.Join(tb.TempDir(), "feed.db")}
	w.Reopen()
	tb.Cleanup(func() {
		if err := w.Store.Close(); err != nil {
			tb.Errorf("close: %v", err)
		}
	})
	return w
}

// Reopen closes the database and opens it again.
func (w *World) Reopen() {
	w.tb.Helper()
	if w.Store != nil {
		w.must(w.Store.Close())
	}
	var err error
	w.Store, err = sqlite.Open(w.tb.Context(), sqlite.Options{Path: w.path, Synchronous: "normal"})
	w.must(err)
}

func (w *World) must(err error) {
	w.tb.Helper()
	if err != nil {
		w.tb.Fatal(err)
	}
}

// Execution is one execution, whose steps are s0, s1 and so on, each after the one before.
type Execution struct {
	No      int64
	ID      string
	Version int64
	Steps   int
	world   *World
	next    int32 // the step that runs
	at      time.Time
}

// Begin starts an execution some time ago, so that it ends in the past too.
func (w *World) Begin(steps int) *Execution {
	w.tb.Helper()
	return w.begin(steps, time.Now().Add(-time.Hour))
}

// BeginNow starts an execution now.
func (w *World) BeginNow(steps int) *Execution {
	w.tb.Helper()
	return w.begin(steps, time.Now())
}

func (w *World) begin(steps int, at time.Time) *Execution {
	w.tb.Helper()
	w.last++
	x := &Execution{No: w.last, ID: fmt.Sprintf("0190a000-0000-7000-8000-%012d", w.last), Steps: steps, world: w, at: at}
	var ids []string
	for i := range steps {
		ids = append(ids, fmt.Sprintf(`{"id":"s%d","action":"do"}`, i))
	}
	hash := fmt.Appendf(nil, "steps-%d", steps)
	w.must(w.Store.PutDefinition(w.tb.Context(), hash, []byte(`{"name":"p","steps":[`+strings.Join(ids, ",")+`]}`)))
	now := x.now()
	x.commit([]int32{0}, nil, func(c *store.Commit) {
		c.Create = &store.Execution{No: x.No, ID: x.ID, Pipeline: "p", Definition: hash, Params: []byte("{}"), Trigger: "manual", Status: stepwell.ExecutionRunning,
			Created: now, Started: now, Progress: engine.Progress{Total: steps, Running: 1}}
	}, engine.Event{Kind: engine.Start, At: now.UnixMicro(), Begin: &engine.Begin{Revision: 1}})
	return x
}

// now is a moment later than the one before.
func (x *Execution) now() time.Time {
	x.at = x.at.Add(time.Millisecond)
	return x.at
}

func (x *Execution) commit(queued []int32, rows []engine.StepRow, more func(*store.Commit), events ...engine.Event) {
	x.world.tb.Helper()
	raw, err := engine.AppendBatch(nil, &engine.Batch{At: x.at.UnixMicro(), Events: events, Queued: queued})
	x.world.must(err)
	x.Version++
	c := store.Commit{Execution: x.No, Version: x.Version, Log: raw, Steps: rows}
	if more != nil {
		more(&c)
	}
	x.world.must(x.world.Store.Commit(x.world.tb.Context(), []store.Commit{c}))
}

// Complete ends n steps in one commit.
func (x *Execution) Complete(n int) {
	x.world.tb.Helper()
	var events []engine.Event
	var rows []engine.StepRow
	var queued []int32
	for range n {
		if int(x.next) == x.Steps {
			break
		}
		started, ended := x.now().UnixMicro(), x.now().UnixMicro()
		events = append(events, engine.Event{Kind: engine.Done, At: ended, Idx: x.next, Epoch: 1, Started: started})
		rows = append(rows, engine.StepRow{Idx: x.next, Seq: x.next + 1, Status: stepwell.StepCompleted, Attempt: 1, Output: []byte("{}"), Worker: "w",
			Queued: started, Started: started, Ended: ended})
		if x.next++; int(x.next) < x.Steps {
			queued = append(queued, x.next)
		}
	}
	if len(events) > 0 {
		x.commit(queued, rows, nil, events...)
	}
}

// Nothing is a commit that tells nothing.
func (x *Execution) Nothing() { x.commit(nil, nil, nil) }

// Lines appends log lines of the running step, at the levels in turn.
func (x *Execution) Lines(n int, levels ...string) {
	x.world.tb.Helper()
	if len(levels) == 0 {
		levels = []string{"info"}
	}
	step := min(int(x.next), x.Steps-1)
	lines := make([]store.LogLine, n)
	for i := range lines {
		lines[i] = store.LogLine{Execution: x.No, Step: int32(step), StepKey: fmt.Sprintf("s%d", step), Attempt: 1, At: x.now(),
			Level: levels[i%len(levels)], Message: fmt.Sprintf("line %d of the step, with as much text as such a line usually has", i)}
	}
	x.world.must(x.world.Store.AppendLogs(x.world.tb.Context(), lines))
}

// End ends the execution, with what is left of its steps.
func (x *Execution) End() {
	x.world.tb.Helper()
	x.Complete(x.Steps)
	x.commit(nil, nil, func(c *store.Commit) {
		c.Update = &store.Update{Status: stepwell.ExecutionCompleted, Ended: x.now().UnixMicro(), Outputs: []byte(`{"answer":42}`),
			Progress: engine.Progress{Total: x.Steps, Completed: x.Steps, Percent: 100}}
	})
}

// Restart begins again with a step.
func (x *Execution) Restart(step int) {
	x.world.tb.Helper()
	x.next = int32(step)
	at := x.now().UnixMicro()
	rows := []engine.StepRow{}
	for i := step; i < x.Steps; i++ {
		rows = append(rows, engine.StepRow{Idx: int32(i), Status: stepwell.StepPending})
	}
	x.commit([]int32{x.next}, rows, func(c *store.Commit) { c.Update = &store.Update{Status: stepwell.ExecutionRunning} },
		engine.Event{Kind: engine.Restart, At: at, Step: fmt.Sprintf("s%d", step)})
}

// Queue queues a step by its number.
func (x *Execution) Queue(idx int32) {
	x.now()
	x.commit([]int32{idx}, nil, nil)
}

// LinesFrom appends lines whose messages begin with "line" and their number, from one to before another.
func (x *Execution) LinesFrom(from, to int) {
	x.world.tb.Helper()
	lines := make([]store.LogLine, 0, to-from)
	for i := from; i < to; i++ {
		lines = append(lines, store.LogLine{Execution: x.No, Step: x.next, StepKey: fmt.Sprintf("s%d", x.next), Attempt: 1, At: x.now(), Level: "info",
			Message: fmt.Sprintf("line %d of the step, with as much text as such a line usually has", i)})
	}
	x.world.must(x.world.Store.AppendLogs(x.world.tb.Context(), lines))
}
