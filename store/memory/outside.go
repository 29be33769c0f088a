package memory

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/store"
)

// PutOutsideWork implements store.Records.
func (s *Store) PutOutsideWork(ctx context.Context, w store.OutsideWork) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ownOf(w.Execution).work(w)
	return nil
}

// work stores a row. A held one takes over its predecessors' work.
func (x *execution) work(w store.OutsideWork) {
	if w.Held {
		maps.DeleteFunc(x.outside, func(k workKey, old store.OutsideWork) bool { return k.step == w.Step && k.epoch < w.Epoch && old.Held })
	}
	if x.outside == nil {
		x.outside = map[workKey]store.OutsideWork{}
	}
	k := workKey{w.Step, w.Epoch}
	if old, ok := x.outside[k]; ok {
		w.StepKey, w.Action = old.StepKey, old.Action
	}
	w.State, w.Since, w.Next = clone(w.State), micros(w.Since), micros(w.Next)
	w.ExecutionID, w.Ended, w.Completed = "", false, false
	x.outside[k] = w
}

// OutsideWork implements store.Records.
func (s *Store) OutsideWork(_ context.Context, execution int64, after store.OutsideWork, limit int) (out []store.OutsideWork, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	n := store.Limit(limit, 1000, 10_000)
	for _, no := range s.numbers {
		x := s.executions[no]
		if execution != 0 && no != execution || no < after.Execution || len(x.outside) == 0 {
			continue
		}
		keys := slices.SortedFunc(maps.Keys(x.outside), func(a, b workKey) int {
			return cmp.Or(cmp.Compare(a.step, b.step), cmp.Compare(a.epoch, b.epoch))
		})
		for _, k := range keys {
			if no == after.Execution && cmp.Or(cmp.Compare(k.step, after.Step), cmp.Compare(k.epoch, after.Epoch)) <= 0 {
				continue
			}
			if len(out) == n {
				return out, nil
			}
			w := x.outside[k]
			w.ExecutionID, w.Ended, w.State = x.row.ID, x.row.Status.Terminal(), clone(w.State)
			if row := x.steps[k.step]; row != nil {
				w.Ended = w.Ended || row.Status.Terminal()
				w.Completed = row.Status == stepwell.StepCompleted
			}
			out = append(out, w)
		}
	}
	return out, nil
}

// DeleteOutsideWork implements store.Records.
func (s *Store) DeleteOutsideWork(ctx context.Context, execution int64, step int32, epoch uint32) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.ownOf(execution).outside, workKey{step, epoch})
	return nil
}
