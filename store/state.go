package store

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
)

// StepState is the part of a step that tables of all steps show.
type StepState struct {
	Idx     int32
	Version int64 // of the commit that wrote the row or queued the step, the later of the two
	Status  stepwell.StepStatus
	Attempt int
	Key     string // "" for steps of the definition's top level
	Worker  string
	Queued  int64 // µs, as Started and Ended; 0: not yet
	Started int64
	Ended   int64
	Cost    int64
	// Superseded steps are no longer steps of the execution.
	Superseded bool
}

// StateOf is the state in a row.
func StateOf(row *engine.StepRow) (s StepState) {
	s.Idx, s.Status, s.Attempt, s.Key, s.Worker = row.Idx, row.Status, row.Attempt, row.Key, row.Worker
	s.Queued, s.Started, s.Ended, s.Cost = row.Queued, row.Started, row.Ended, row.Cost
	return s
}

// StateReader reads the states of all steps at once.
type StateReader interface {
	// States lists the steps of an execution that have a row, in order of index, superseded ones included: those of a list,
	// or with nil all, and then also those without a row that the log of a running execution has queued. A row that has not
	// ended and is older than its queueing counts as queued. The cost is that of the rows; with nil, also that of the queued
	// lists of a running execution's log.
	States(ctx context.Context, execution int64, of []int32) ([]StepState, error)
}

// StepChanges is what the commits behind Since, up to Version, have done to the steps of an execution.
type StepChanges struct {
	Since, Version int64
	Rows           []engine.StepRow
	Tasks          []*engine.Task // dispatched
	Superseded     bool           // there are steps that no longer count, which are not named
}

// QueuedRun is neighbouring steps that a commit has queued: from First to before End.
type QueuedRun struct {
	First, End  int32
	Version, At int64
}

// WithQueued merges queued steps into the states of rows, both in order of index. MaxSteps bounds the indexes that count.
func WithQueued(rows []StepState, runs []QueuedRun, maxSteps int) []StepState {
	last := int32(-1)
	for _, r := range runs {
		last = max(last, min(r.End, int32(maxSteps))-1)
	}
	if last < 0 {
		return rows
	}
	versions, at := make([]int64, last+1), make([]int64, last+1)
	for _, r := range runs {
		for idx := max(r.First, 0); idx < min(r.End, last+1); idx++ {
			if r.Version >= versions[idx] {
				versions[idx], at[idx] = r.Version, r.At
			}
		}
	}
	out := make([]StepState, 0, max(len(rows), int(last)+1))
	for idx := int32(0); idx <= last || len(rows) > 0; idx++ {
		if len(rows) > 0 && idx > last {
			return append(out, rows...)
		}
		switch {
		case len(rows) > 0 && rows[0].Idx == idx:
			out = append(out, rows[0])
			rows = rows[1:]
			out[len(out)-1].Requeue(versions[idx], at[idx])
		case versions[idx] > 0:
			out = append(out, StepState{Idx: idx, Version: versions[idx], Status: stepwell.StepQueued, Queued: at[idx]})
		}
	}
	return out
}

// Requeue makes a step that has not ended queued, unless its row is newer than its queueing. Version 0 changes nothing.
func (s *StepState) Requeue(version, at int64) {
	if version > 0 && !s.Status.Terminal() && version >= s.Version {
		s.Version, s.Status, s.Queued = version, stepwell.StepQueued, at
	}
}

// SetExtra sets key, cost and superseded from a row's rare columns (Extra.Encode). Nearly all rows have a plain key and
// neither of the others: these are read without decoding the JSON, and share its memory.
func (s *StepState) SetExtra(raw string) error {
	if len(raw) == 0 {
		return nil
	}
	if key, ok := strings.CutPrefix(raw, `{"k":"`); ok && !strings.Contains(raw, `"c":`) && !strings.Contains(raw, `"o":`) {
		if end := strings.IndexByte(key, '"'); end >= 0 && strings.IndexByte(key[:end], '\\') < 0 {
			s.Key = key[:end]
			return nil
		}
	}
	var x struct {
		Key        string `json:"k"`
		Cost       int64  `json:"c"`
		Superseded int    `json:"o"`
	}
	err := json.Unmarshal([]byte(raw), &x)
	s.Key, s.Cost, s.Superseded = x.Key, x.Cost, x.Superseded != 0
	return err
}
