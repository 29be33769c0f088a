package storetest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// RandomCommit is a later version of an execution. It has the shapes that the engine makes, in no order that it would, but that an attempt
// is reported once, and perhaps seen running before.
func RandomCommit(t testing.TB, random *rand.Rand, running map[int32]uint32, no, version int64) store.Commit {
	now := version * 1_000_000
	b := engine.Batch{At: now}
	c := store.Commit{Execution: no, Version: version}
	steps := map[int32]bool{}
	for range random.IntN(6) {
		ev := engine.Event{Kind: engine.Kind(2 + random.IntN(16)), At: now - random.Int64N(1_000_000), Idx: random.Int32N(8)}
		if steps[ev.Idx] {
			continue
		}
		ev.Epoch = cmp.Or(running[ev.Idx], uint32(version))
		ev.Started = 1000*int64(ev.Idx) + int64(ev.Epoch) // one moment for each attempt
		switch ev.Kind {
		case engine.Failed:
			ev.Failure, ev.Worker = &engine.Failure{Message: "why"}, fmt.Sprint("w", random.IntN(3))
		case engine.Spawned:
			ev.Spawns, ev.Started = []engine.Spawn{{Key: "s:1"}, {Key: "s:2"}}, 0
		case engine.Waiting:
			ev.Wait = &engine.Wait{Until: now}
		case engine.Running, engine.Lost:
			ev.Worker = "w9"
		case engine.Cancel, engine.Skipped:
			ev.Reason = "a reason"
		case engine.Restart:
			ev.Step = "b"
		case engine.DoneAll:
			ev.Parts = []engine.Part{{Idx: 7}}
		case engine.Settled:
			switch ev.Worker = "kim"; random.IntN(3) {
			case 0:
				ev.Failure = &engine.Failure{Message: "refused"}
			case 1:
				ev.Reason = "not needed"
			}
		}
		switch {
		case ev.Kind == engine.Running:
			running[ev.Idx] = ev.Epoch
		case ev.Kind < engine.Running:
			delete(running, ev.Idx)
		case ev.Kind >= engine.TimerDue:
			ev.Started = 0
		}
		b.Events = append(b.Events, ev)
		steps[ev.Idx] = true
	}
	for range random.IntN(4) {
		b.Queued = append(b.Queued, random.Int32N(10))
	}
	slices.Sort(b.Queued)
	b.Queued = slices.Compact(b.Queued)
	for idx := range steps {
		if random.IntN(3) == 0 {
			continue
		}
		r := engine.StepRow{Idx: idx, Status: stepwell.StepStatus(random.IntN(10)), Attempt: 1, Ended: now}
		if r.Worker = "w5"; idx > 3 {
			r.Key = fmt.Sprintf("s:%d", idx)
		}
		if r.Status == stepwell.StepFailed {
			r.Error = &engine.Failure{Message: "row's why"}
		}
		c.Steps = append(c.Steps, r)
	}
	slices.SortFunc(c.Steps, func(a, b engine.StepRow) int { return cmp.Compare(a.Idx, b.Idx) })
	var err error
	if c.Log, err = engine.AppendBatch(nil, &b); err != nil {
		t.Fatal(err)
	}
	return c
}
