package feed

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/stepwell/stepwell/estimate"
	"github.com/stepwell/stepwell/store"
)

// snapshotAge limits the age of a new subscriber's snapshot of a running execution: later changes follow it.
const snapshotAge = 250 * time.Millisecond

// snapshot is the last one of an execution, shared by concurrent new subscribers.
type snapshot struct {
	mu   sync.Mutex
	at   Cursor
	made time.Time
	data []byte
}

// loadSnapshot gives how things stand, and the place that it is at least as new as.
func (t *topic) loadSnapshot(ctx context.Context) (data []byte, at Cursor, err error) {
	s := &t.snapshot
	s.mu.Lock()
	defer s.mu.Unlock()
	t.mu.Lock()
	head := t.head
	t.mu.Unlock()
	if s.data != nil && (s.at == head || time.Since(s.made) < snapshotAge) {
		return s.data, s.at, nil
	}
	if err := t.hub.reads.Acquire(ctx, 1); err != nil {
		return nil, at, err
	}
	defer t.hub.reads.Release(1)
	x, err := t.hub.o.Store.Execution(ctx, t.id)
	if err != nil {
		return nil, at, err
	}
	steps, err := t.hub.o.Store.Steps(ctx, t.no, store.StepFilter{Limit: t.hub.o.SnapshotSteps + 1})
	if err != nil {
		return nil, at, err
	}
	if data, err = describe(x, t.hub.o.Estimates.Progress(x, &x.Progress), steps, t.hub.o.SnapshotSteps); err != nil {
		return nil, at, err
	}
	s.at, s.made, s.data = head, time.Now(), data
	return data, head, nil
}

func describe(x *store.Execution, progress estimate.Progress, steps []store.Step, most int) ([]byte, error) {
	d := SnapshotData{ExecutionID: x.ID, Pipeline: x.Pipeline, Status: x.Status, Progress: progress, StartedAt: stamp(x.Started),
		CompletedAt: stamp(x.Ended), More: len(steps) > most, Steps: make([]StepData, 0, min(len(steps), most))}
	for i := range steps[:min(len(steps), most)] {
		s := &steps[i]
		d.Steps = append(d.Steps, StepData{StepID: s.Key, Status: s.Status, Attempt: s.Attempt})
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(&d)
	return bytes.TrimRight(b.Bytes(), "\n"), err
}
