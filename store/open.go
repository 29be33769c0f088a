package store

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/stepwell/stepwell"
)

// Options say which database is opened, and for what.
type Options struct {
	// Path is where the database is: a file, or a URL. What "" means is the database's own.
	Path string
	// Exclusive is for the process that runs executions. Defaults to false: only reads and what may be written beside
	// that process, such as PutRequest.
	Exclusive bool
	// ReadOnly refuses every write. Defaults to false.
	ReadOnly bool
	// Synchronous is "full" (a commit survives loss of power) or "normal" (it survives the death of
	// the process; the last ones may be lost with the power). Defaults to "full".
	Synchronous string
	// Check looks at a database that other processes share before it is migrated; its error ends the opening. Defaults to nothing.
	Check func(context.Context, Objects) error
	// Now is the clock of all times that are recorded or decide. Defaults to time.Now.
	Now func() time.Time
	// Log hears of migrations. Defaults to no log.
	Log *slog.Logger
}

// Validate checks the options and fills in their defaults.
func (o *Options) Validate() error {
	switch o.Synchronous {
	case "":
		o.Synchronous = "full"
	case "full", "normal":
	default:
		return &stepwell.Error{Code: stepwell.CodeInvalid, Message: fmt.Sprintf("synchronous %q", o.Synchronous), Hint: `use "full" or "normal"`}
	}
	if o.ReadOnly && o.Exclusive {
		return &stepwell.Error{Code: stepwell.CodeInvalid, Message: "an exclusive database cannot be read-only"}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}
