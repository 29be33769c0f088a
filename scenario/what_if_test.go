package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// Over random executions: what is told of each event that then happened, before it had, is what was really dispatched and what the
// execution's status really became; and so it is with restarts and retries that are really made afterwards. Asking writes nothing.
func TestWhatIfIsWhatHappens(t *testing.T) {
	o := runner(t, nil)
	o.o.Handlers = map[string]action.Handler{"action util.exec": action.HandlerFunc(func(_ context.Context, c *action.Call) (any, error) { return effect(c) })}
	most := 300
	if testing.Short() {
		most = 40
	}
	told, dispatched := map[engine.Verb]int{}, 0
	for seed, played := uint64(1), 0; played < most; seed++ {
		r := rand.New(rand.NewPCG(seed, 23))
		d := draw(r)
		def, ok := parsed(t, o.o.Actions, d)
		if !ok {
			continue
		}
		played++
		p := live(t, o, def)
		w := &asking{t: t, p: p, about: fmt.Sprintf("seed %d\n%s", seed, d.source(t))}
		was := w.stored()
		for version, b := range w.log(p.Execution.ID) {
			a, ok := w.assumption(int64(version), b)
			if !ok {
				continue
			}
			told[a.Verb]++
			dispatched += w.same(p.Execution.ID, a, int64(version), p.Execution.ID, version+1)
		}
		if now := w.stored(); was != now {
			t.Fatalf("asking has written: %s\nwas %s\n%s", now, was, w.about)
		}
		last := len(w.log(p.Execution.ID))
		if _, _, err := p.World.Conductor.WhatIf(t.Context(), p.Execution.ID, &engine.Assumption{Verb: engine.VerbRetry}, 0, time.Time{}); err == nil {
			told[engine.VerbRetry]++
			retry := func() string {
				id, err := p.World.Conductor.Retry(t.Context(), p.Execution.ID, "")
				w.must(err)
				return id
			}
			dispatched += w.sameAfter(&engine.Assumption{Verb: engine.VerbRetry}, 1, retry)
		}
		step := fmt.Sprint(d.steps[r.IntN(len(d.steps))]["id"])
		told[engine.VerbRestart]++
		dispatched += w.sameAfter(&engine.Assumption{Verb: engine.VerbRestart, Step: step}, last+1, func() string {
			w.must(p.World.Conductor.Restart(t.Context(), p.Execution.ID, step, false))
			return p.Execution.ID
		})
	}
	if told[engine.VerbComplete] < most || told[engine.VerbFail] < most/4 || told[engine.VerbRetry] < most/10 || dispatched < most {
		t.Errorf("%v, %d dispatched: that tests little", told, dispatched)
	}
	t.Logf("%v, %d dispatched", told, dispatched)
}

// asking compares what is told of an execution with what is in its log.
type asking struct {
	t     *testing.T
	p     *Played
	about string
}

func (w *asking) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("%v\n%s", err, w.about)
	}
}

// log is an execution's commits, the first one of version 1.
func (w *asking) log(id string) (list []*engine.Batch) {
	row, err := w.p.World.Store.Execution(w.t.Context(), id)
	w.must(err)
	for entry, err := range w.p.World.Store.StepLog(w.t.Context(), row.No, 0) {
		w.must(err)
		b, err := engine.DecodeBatch(entry.Version, entry.Body)
		w.must(err)
		list = append(list, b)
	}
	return list
}

// stored is all that the store has of the execution, and how many executions there are.
func (w *asking) stored() string {
	s, ctx := w.p.World.Store, w.t.Context()
	row, err := s.Execution(ctx, w.p.Execution.ID)
	w.must(err)
	steps, err := s.Steps(ctx, row.No, store.StepFilter{Limit: 10_000})
	w.must(err)
	all, err := s.Executions(ctx, store.Filter{Limit: 100})
	w.must(err)
	raw, err := json.Marshal([]any{row, steps, len(all), len(w.log(row.ID))})
	w.must(err)
	return string(raw)
}

// assumption is what came true with the commit after a version, if that was one thing.
func (w *asking) assumption(version int64, b *engine.Batch) (*engine.Assumption, bool) {
	if version == 0 || len(b.Events) != 1 {
		return nil, false
	}
	ev := b.Events[0]
	run, err := w.p.World.Conductor.At(w.t.Context(), w.p.Execution.ID, version)
	w.must(err)
	a := &engine.Assumption{Permanent: ev.Permanent}
	if ev.Kind == engine.Cancel {
		a.Verb = engine.VerbCancel
		return a, true
	}
	task := run.Task(ev.Idx)
	if task == nil {
		return nil, false
	}
	switch a.Step = task.Key; ev.Kind {
	case engine.Done:
		a.Verb, a.Outputs = engine.VerbComplete, ev.Output
	case engine.Failed:
		a.Verb = engine.VerbFail
		return a, !ev.Defer && ev.Failure.Code != stepwell.CodeTimeout
	case engine.Skipped:
		a.Verb = engine.VerbSkip
	default:
		return nil, false
	}
	return a, true
}

// same compares what is told at a version with what a commit of an execution did.
func (w *asking) same(id string, a *engine.Assumption, version int64, really string, at int) int {
	would, from, err := w.p.World.Conductor.WhatIf(w.t.Context(), id, a, version, time.Time{})
	w.must(err)
	if version > 0 && from != version {
		w.t.Fatalf("told from version %d, not %d", from, version)
	}
	return w.compare(a, would, really, at)
}

func (w *asking) sameAfter(a *engine.Assumption, at int, do func() string) int {
	would, _, err := w.p.World.Conductor.WhatIf(w.t.Context(), w.p.Execution.ID, a, 0, time.Time{})
	w.must(err)
	return w.compare(a, would, do(), at)
}

func (w *asking) compare(a *engine.Assumption, would *engine.Consequence, really string, at int) int {
	run, err := w.p.World.Conductor.At(w.t.Context(), really, int64(at))
	w.must(err)
	if run.Status() != would.Is {
		w.t.Fatalf("%+v: told %v, is %v\n%s", a, would.Is, run.Status(), w.about)
	}
	told, calls := map[string]int{}, map[string]any{}
	for _, task := range would.Tasks {
		told[task.Key] = task.Attempt
		if call, known, _ := task.Call(); known {
			calls[task.Key] = call
		}
	}
	is := map[string]int{}
	for _, idx := range w.log(really)[at-1].Queued {
		task := run.Task(idx)
		if task == nil {
			w.t.Fatalf("%+v: %d was queued and is not in flight\n%s", a, idx, w.about)
		}
		is[task.Key] = task.Attempt
		if call, known, _ := task.Call(); known && !reflect.DeepEqual(call, calls[task.Key]) {
			w.t.Fatalf("%+v: %s: told %v, is %v\n%s", a, task.Key, calls[task.Key], call, w.about)
		}
	}
	if !reflect.DeepEqual(told, is) {
		w.t.Fatalf("%+v: told %v, is %v\n%s", a, told, is, w.about)
	}
	for i := range would.Steps {
		one := &would.Steps[i]
		if why, err := run.Why(one.Key); err == nil && len(one.Why) > 0 && one.Is.Terminal() && !slices.EqualFunc(why, one.Why, func(a, b engine.Reason) bool { return a.Code == b.Code }) {
			w.t.Fatalf("%+v: %s: told %v, is %v\n%s", a, one.Key, one.Why, why, w.about)
		}
	}
	return len(told)
}
