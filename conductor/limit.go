package conductor

import (
	"fmt"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// Limits in bytes of an event in a commit. A larger event is refused alone, before it is encoded, so that it exhausts
// neither the memory nor the store for all executions.
const (
	maxEvent      = 64 << 20  // of one event
	maxBegin      = 256 << 20 // of a start, with the results that it takes over
	maxTurn       = 128 << 20 // of the events of one turn; more wait for the next
	maxWaiting    = 256 << 20 // of the queued outcomes; workers keep any beyond
	maxParams     = 16 << 20
	maxAbout      = 64 << 10
	maxDefinition = 64 << 20 // of a snapshot
	maxText       = 16 << 10 // of a reason
	maxOrigin     = 64 << 10 // of all that says where an execution comes from
)

// eventOverhead is the size of an event without its texts.
const eventOverhead = 200

// eventSize estimates the size of an event in a commit.
func eventSize(ev *engine.Event) int {
	n := eventOverhead + len(ev.Output) + len(ev.Input) + len(ev.Reason) + len(ev.Step) + len(ev.Worker)
	if f := ev.Failure; f != nil {
		n += len(f.Message) + len(f.Hint)
	}
	if w := ev.Wait; w != nil {
		n += len(w.State) + len(w.Output) + len(w.External) + len(w.Require)
	}
	for i := range ev.Parts {
		n += len(ev.Parts[i].Output)
	}
	for i := range ev.Spawns {
		s := &ev.Spawns[i]
		n += eventOverhead + len(s.Name) + len(s.Key) + len(s.Action) + len(s.Params)
		for _, name := range s.DependsOn {
			n += len(name)
		}
	}
	if b := ev.Begin; b != nil {
		n += len(b.Params) + len(b.About) + seedsSize(b.Seeds)
	}
	return n + seedsSize(ev.Seeds)
}

func seedsSize(seeds []engine.Seed) (n int) {
	for i := range seeds {
		n += eventOverhead + len(seeds[i].Output)
		if s := seeds[i].Spawn; s != nil {
			n += len(s.Params)
		}
	}
	return n
}

// checkSize refuses an event that is too large to be committed.
func checkSize(ev *engine.Event) error {
	limit := maxEvent
	if ev.Kind == engine.Start {
		limit = maxBegin
	}
	if n := eventSize(ev); n > limit {
		return &stepwell.Error{Code: stepwell.CodeLimit, Message: fmt.Sprintf("what is to be recorded is %d bytes, the limit is %d MiB", n, limit>>20),
			Hint: "hand large values over in files"}
	}
	return nil
}

// fitting is how many of the items fit into one turn, at least one.
func fitting(batch []item) int {
	left := maxTurn
	for i := range batch {
		if left -= batch[i].size; left < 0 && i > 0 {
			return i
		}
	}
	return len(batch)
}

// failing makes the outcome of an attempt that is too large its failure.
func failing(ev engine.Event, err error) engine.Event {
	return engine.Event{Kind: engine.Failed, At: ev.At, Idx: ev.Idx, Epoch: ev.Epoch, Started: ev.Started, Worker: ev.Worker, Permanent: true,
		Failure: &engine.Failure{Code: stepwell.CodeLimit, Message: err.Error(), Hint: stepwell.HintOf(err)}}
}

// checkOrigin bounds the texts that say where an execution comes from.
func checkOrigin(o *store.Origin, dir string) error {
	if n := len(o.Workflow) + len(o.Job) + len(o.Actor) + len(o.Project) + len(o.Lesson) + len(o.Key) + len(o.KeyHash) + len(o.Concurrency) + len(dir); n > maxOrigin {
		return &stepwell.Error{Code: stepwell.CodeLimit, Message: fmt.Sprintf("what says where the execution comes from is %d bytes, the limit is %d KiB", n, maxOrigin>>10)}
	}
	return nil
}
