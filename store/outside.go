package store

import (
	"context"
	"encoding/json"
	"time"
)

// OutsideWork is work that a step has going on outside of this system: described by the state that its handler left
// (action.Poll, Host.Own), and to be stopped (action.Canceler) because the step has ended without it. Its row is written with
// the commit that ends the step, so that the work is stopped whatever dies in between.
type OutsideWork struct {
	Execution int64
	Step      int32
	Epoch     uint32 // of the attempt; with Execution and Step it names the row
	Attempt   int
	StepKey   string
	Action    string
	State     json.RawMessage // sealed, as in the step log
	Since     time.Time       // when it was given up
	// Held work is not given up: the attempt that owns it was under way when the row was written. Who finds it after a
	// crash looks at the step (Ended, Completed).
	Held  bool
	Tries int       // calls that failed
	Next  time.Time // of the next one; zero: none, it was given up
	Error string    // of the last one

	// Filled by readers.
	ExecutionID string
	Ended       bool // the execution or the step has ended
	Completed   bool // and the step has completed
}

// Records is what running steps record and read beside their outcome, for the worker.
type Records interface {
	// PutMemo stores a memo durably; the key's first value stays. CodeConflict: the step has been restarted since its attempt.
	PutMemo(ctx context.Context, m Memo) error
	// Memo finds what a step recorded.
	Memo(ctx context.Context, execution int64, step int32, key string) (json.RawMessage, bool, error)
	// Output is the output of one completed step by its key, as it is stored; CodeNotFound if there is none.
	Output(ctx context.Context, execution int64, key string) ([]byte, error)
	// PutOutsideWork stores a row durably, or replaces it. A held row takes the place of those that former attempts of the
	// step held.
	PutOutsideWork(ctx context.Context, w OutsideWork) error
	// OutsideWork lists rows in order of (Execution, Step, Epoch), from after the last one of the page before; of one
	// execution if its number is given, else of all. Limit defaults to 1,000, at most 10,000.
	OutsideWork(ctx context.Context, execution int64, after OutsideWork, limit int) ([]OutsideWork, error)
	// DeleteOutsideWork removes a row; one that is not there is removed already.
	DeleteOutsideWork(ctx context.Context, execution int64, step int32, epoch uint32) error
}
