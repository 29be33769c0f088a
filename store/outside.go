package store

import (
	"context"
	"encoding/json"
	"time"
)

// OutsideWork is a step's work outside of this system, described by its handler's state (action.Poll, Host.Own). It
// is to be stopped (action.Canceler): the step has ended without it. Its row is written with the commit that ends the
// step, so that the work is stopped even after a crash.
type OutsideWork struct {
	Execution int64
	Step      int32
	Epoch     uint32 // of the attempt; with Execution and Step it names the row
	Attempt   int
	StepKey   string
	Action    string
	State     json.RawMessage // sealed, as in the step log
	Since     time.Time       // when it was given up
	// Held work is not given up: its attempt was under way when the row was written. After a crash the step decides
	// (Ended, Completed).
	Held  bool
	Tries int       // calls that failed
	Next  time.Time // of the next one; zero: none, it was given up
	Error string    // of the last one

	// Filled by readers.
	ExecutionID string
	Ended       bool // the execution or the step has ended
	Completed   bool // and the step has completed
}

// Records stores what running steps record besides outcomes, for the worker.
type Records interface {
	// PutMemo stores a memo durably; the key's first value stays. CodeConflict: the step has been restarted since its attempt.
	PutMemo(ctx context.Context, m Memo) error
	// Memo returns a step's record.
	Memo(ctx context.Context, execution int64, step int32, key string) (json.RawMessage, bool, error)
	// Output is the output of one completed step by its key, as it is stored; CodeNotFound if there is none.
	Output(ctx context.Context, execution int64, key string) ([]byte, error)
	// PutOutsideWork stores a row durably, or replaces it. A held row replaces those held by former attempts of the
	// step.
	PutOutsideWork(ctx context.Context, w OutsideWork) error
	// OutsideWork lists rows in order of (Execution, Step, Epoch), from after the last one of the page before; of one
	// execution if its number is given, else of all. Limit defaults to 1,000, at most 10,000.
	OutsideWork(ctx context.Context, execution int64, after OutsideWork, limit int) ([]OutsideWork, error)
	// DeleteOutsideWork removes a row; a missing row is no error.
	DeleteOutsideWork(ctx context.Context, execution int64, step int32, epoch uint32) error
}
