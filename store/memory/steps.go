package memory

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// queued is when the log of an execution that has not ended last queued a step.
type queued struct{ version, at int64 }

// queuedBy reads the lists of queued steps.
func (x *execution) queuedBy() (map[int32]queued, error) {
	found := map[int32]queued{}
	if x.row.Status.Terminal() {
		return found, nil
	}
	var b engine.Batch
	for i, body := range x.log {
		if err := b.Decode(int64(i+1), body); err != nil {
			return nil, err
		}
		for _, idx := range b.Queued {
			found[idx] = queued{b.Version, b.At}
		}
	}
	return found, nil
}

// Steps implements store.Reader.
func (s *Store) Steps(_ context.Context, execution int64, f store.StepFilter) (out []store.Step, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.find(execution)
	if x == nil {
		return nil, nil
	}
	top, err := s.top(x.row.Definition)
	if err != nil {
		return nil, err
	}
	waits, err := x.queuedBy()
	if err != nil {
		return nil, err
	}
	indexes := make([]int32, 0, len(top)+len(x.steps))
	for i := range top {
		indexes = append(indexes, int32(i))
	}
	indexes = slices.AppendSeq(slices.AppendSeq(indexes, maps.Keys(x.steps)), maps.Keys(waits))
	slices.Sort(indexes)
	limit, indexes := store.Limit(f.Limit, 1000, 10_000), slices.Compact(indexes)
	if len(f.Statuses) == 0 && f.Key == "" {
		out = make([]store.Step, 0, min(limit, len(indexes)))
	}
	for _, idx := range indexes {
		if len(out) == limit {
			break
		}
		if row := x.steps[idx]; idx < f.From || row != nil && row.superseded {
			continue
		}
		one := x.step(idx, top, waits[idx])
		if (len(f.Statuses) == 0 || slices.Contains(f.Statuses, one.Status)) && (f.Key == "" || f.Key == one.Key) {
			out = append(out, one)
		}
	}
	return out, nil
}

// StepsAt implements store.Reader.
func (s *Store) StepsAt(_ context.Context, execution int64, of []int32) (out []store.Step, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	x := s.find(execution)
	if x == nil {
		return nil, nil
	}
	for _, idx := range slices.Compact(slices.Sorted(slices.Values(of))) {
		if row := x.steps[idx]; row != nil && !row.superseded {
			one := store.Step{StepRow: row.StepRow}
			one.Output, one.Input = clone(row.Output), clone(row.Input)
			out = append(out, one)
		}
	}
	return out, nil
}

// step is a step as readers see it.
func (x *execution) step(idx int32, top []topStep, last queued) store.Step {
	one := store.Step{StepRow: engine.StepRow{Idx: idx}}
	version := int64(0)
	if row := x.steps[idx]; row != nil {
		one.StepRow, version = row.StepRow, row.version
		one.Output, one.Input = clone(row.Output), clone(row.Input)
	}
	if int(idx) < len(top) {
		one.Key, one.Action, one.Name = cmp.Or(one.Key, top[idx].ID), cmp.Or(one.Action, top[idx].Action), top[idx].Name
	}
	one.Key = cmp.Or(one.Key, fmt.Sprintf("#%d", idx))
	if last.version > 0 && !one.Status.Terminal() && last.version >= version {
		one.Status, one.Queued = stepwell.StepQueued, last.at
	}
	return one
}

// States implements store.StateReader.
func (s *Store) States(_ context.Context, execution int64, of []int32) (states []store.StepState, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	x := s.find(execution)
	if x == nil {
		return nil, nil
	}
	for _, idx := range slices.Sorted(maps.Keys(x.steps)) {
		if of != nil && !slices.Contains(of, idx) {
			continue
		}
		row := x.steps[idx]
		one := store.StateOf(&row.StepRow)
		one.Version, one.Superseded = row.version, row.superseded
		states = append(states, one)
	}
	if of != nil {
		return states, nil
	}
	waits, err := x.queuedBy()
	runs := make([]store.QueuedRun, 0, len(waits))
	for idx, q := range waits {
		runs = append(runs, store.QueuedRun{First: idx, End: idx + 1, Version: q.version, At: q.at})
	}
	return store.WithQueued(states, runs, engine.MaxSteps), err
}

// waiters calls f with each step that waits for a signal, by number and index, until it returns false.
func (s *Store) waiters(f func(x *execution, row *step) bool) {
	for _, no := range s.numbers {
		x := s.executions[no]
		if len(x.waiting) == 0 || x.row.Status.Terminal() {
			continue
		}
		for _, idx := range slices.Sorted(maps.Keys(x.waiting)) {
			row := x.steps[idx]
			if row != nil && row.Status == stepwell.StepWaiting && row.External == x.waiting[idx] && !row.superseded && !f(x, row) {
				return
			}
		}
	}
}

// WaitingSteps implements store.Reader.
func (s *Store) WaitingSteps(_ context.Context, prefix string, after *store.WaitingStep, limit int) (out []store.WaitingStep, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	no, from := int64(0), int32(-1)
	if after != nil {
		var ok bool
		if no, ok = s.ids[after.Execution]; !ok {
			return nil, stepwell.Errorf(stepwell.CodeNotFound, "", "no execution %q", after.Execution)
		}
		from = after.Idx
	}
	n := store.Limit(limit, 1000, 10_000)
	s.waiters(func(x *execution, row *step) bool {
		if x.row.No < no || x.row.No == no && row.Idx <= from || !strings.HasPrefix(row.External, prefix) {
			return true
		}
		var top []topStep
		if top, err = s.top(x.row.Definition); err != nil {
			return false
		}
		out = append(out, store.WaitingStep{Execution: x.row.ID, Pipeline: x.row.Pipeline, Step: x.step(row.Idx, top, queued{})})
		return len(out) < n
	})
	return out, err
}
