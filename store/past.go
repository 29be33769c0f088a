package store

import (
	"time"

	"github.com/stepwell/stepwell"
)

// Past is an execution as it was after one of its commits.
type Past struct {
	Version int64
	At      time.Time // of the commit
	Status  stepwell.ExecutionStatus
	// Steps are those that had a row or were queued, in order of index, without params and outputs; superseded ones are left out.
	// As in the rows of a store, those of the definition's top level have no key and no action.
	Steps []Step
}
