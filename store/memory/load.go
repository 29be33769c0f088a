package memory

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"iter"
	"slices"
	"sync"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// snapshot is a stored definition. It does not change.
type snapshot struct {
	body  []byte
	steps func() ([]topStep, error) // read once
}

func newSnapshot(body []byte) *snapshot {
	d := &snapshot{body: clone(body)}
	d.steps = sync.OnceValues(func() ([]topStep, error) {
		var read struct {
			Steps []topStep `json:"steps"`
		}
		err := json.Unmarshal(d.body, &read)
		return read.Steps, err
	})
	return d
}

// Definitions are definitions that several stores have, and keep once. The zero value is ready; it may be used by many at once.
type Definitions struct {
	mu    sync.Mutex
	known map[string]*snapshot
}

// maxShared bounds the definitions that are shared.
const maxShared = 256

func (d *Definitions) snapshot(hash, body []byte) *snapshot {
	if d == nil {
		return newSnapshot(body)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.known[string(hash)]; s != nil && bytes.Equal(s.body, body) {
		return s
	}
	if d.known == nil || len(d.known) >= maxShared {
		d.known = map[string]*snapshot{}
	}
	s := newSnapshot(body)
	d.known[string(hash)] = s
	return s
}

// topStep is a step of a definition's top level.
type topStep struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Action string `json:"action"`
}

// top are the steps of a definition's top level. The caller holds the lock.
func (s *Store) top(hash []byte) ([]topStep, error) {
	d := s.definitions[string(hash)]
	if d == nil {
		return nil, nil // it may be stored later
	}
	return d.steps()
}

// Claim implements store.Loader.
func (s *Store) Claim(ctx context.Context, owner int64, limit int) (list []store.Execution, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var free []*execution
	for _, no := range s.numbers {
		if x := s.executions[no]; !x.row.Status.Terminal() && x.row.Owner == 0 {
			free = append(free, x)
		}
	}
	slices.SortStableFunc(free, func(a, b *execution) int { return cmp.Compare(b.row.Priority, a.row.Priority) })
	for _, x := range free[:min(limit, len(free))] {
		x.row.Owner = owner
		list = append(list, x.row)
	}
	return list, nil
}

// Definition implements store.Loader.
func (s *Store) Definition(_ context.Context, hash []byte) ([]byte, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if d := s.definitions[string(hash)]; d != nil {
		return clone(d.body), nil
	}
	return nil, stepwell.Errorf(stepwell.CodeNotFound, "", "no definition %s", hex.EncodeToString(hash))
}

// logPage is how many entries of a step log are read at once: writers go on between two pages.
const logPage = 1000

// StepLog implements store.Loader.
func (s *Store) StepLog(ctx context.Context, execution, after int64) iter.Seq2[store.LogEntry, error] {
	return store.LogPages(ctx, execution, after, func(_ context.Context, no, after int64) (page []store.LogEntry, err error) {
		s.mu.RLock()
		defer s.mu.RUnlock()
		x := s.find(no)
		if x == nil {
			return nil, nil
		}
		from := min(max(after, 0), int64(len(x.log)))
		page = make([]store.LogEntry, 0, min(int64(len(x.log))-from, logPage))
		for v := from; v < int64(len(x.log)) && len(page) < logPage; v++ {
			page = append(page, store.LogEntry{Execution: no, Version: v + 1, Body: slices.Clip(x.log[v])}) // a body never changes
		}
		return page, nil
	})
}

// StepLogs implements store.Loader.
func (s *Store) StepLogs(ctx context.Context, executions []int64) iter.Seq2[store.LogEntry, error] {
	return func(yield func(store.LogEntry, error) bool) {
		for _, no := range executions {
			for entry, err := range s.StepLog(ctx, no, 0) {
				if !yield(entry, err) || err != nil {
					return
				}
			}
		}
	}
}

// Outputs implements store.Loader.
func (s *Store) Outputs(_ context.Context, execution int64) iter.Seq2[engine.StepRow, error] {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var rows []engine.StepRow
	if x := s.find(execution); x != nil {
		for _, row := range x.steps {
			if row.Status == stepwell.StepCompleted && row.Seq != 0 && !row.superseded {
				rows = append(rows, row.StepRow)
			}
		}
	}
	slices.SortFunc(rows, func(a, b engine.StepRow) int { return cmp.Compare(a.Seq, b.Seq) })
	return func(yield func(engine.StepRow, error) bool) {
		for _, row := range rows {
			if !yield(row, nil) {
				return
			}
		}
	}
}

// PutMemo implements store.Records.
func (s *Store) PutMemo(ctx context.Context, m store.Memo) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.ownOf(m.Execution)
	if m.Epoch < x.fences[m.Step] {
		return stepwell.Errorf(stepwell.CodeConflict, "", "step %d of execution %d has been restarted: the attempt no longer counts", m.Step, m.Execution)
	}
	k := memoKey{m.Step, m.Key}
	if _, ok := x.memos[k]; ok {
		return nil
	}
	if x.memos == nil {
		x.memos = map[memoKey][]byte{}
	}
	x.memos[k] = clone(m.Value)
	return nil
}

// ownOf is an execution to keep something for; one that is not stored keeps it for nobody but those who ask by its number.
func (s *Store) ownOf(no int64) *execution {
	x := s.find(no)
	if x == nil {
		if x = s.strays[no]; x == nil {
			x = &execution{}
			s.strays[no] = x
		}
	}
	return x
}

// Memo implements store.Records.
func (s *Store) Memo(_ context.Context, execution int64, step int32, key string) (json.RawMessage, bool, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	x := s.find(execution)
	if x == nil {
		x = s.strays[execution]
	}
	if x == nil {
		return nil, false, nil
	}
	value, ok := x.memos[memoKey{step, key}]
	return clone(value), ok, nil
}

// Output implements store.Records.
func (s *Store) Output(_ context.Context, execution int64, key string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.find(execution); x != nil {
		top, err := s.top(x.row.Definition)
		if err != nil {
			return nil, err
		}
		least := (*step)(nil)
		if idx := slices.IndexFunc(top, func(t topStep) bool { return t.ID == key }); idx >= 0 {
			least = x.steps[int32(idx)]
		} else {
			for _, row := range x.steps {
				if row.Key == key && row.Status == stepwell.StepCompleted && !row.superseded && (least == nil || row.Idx < least.Idx) {
					least = row
				}
			}
		}
		switch {
		case least == nil || least.Status != stepwell.StepCompleted:
		case least.Output == nil:
			return []byte("{}"), nil
		default:
			return clone(least.Output), nil
		}
	}
	return nil, stepwell.Errorf(stepwell.CodeNotFound, "", "step %q has not completed", key)
}
