// Package builtin has the util.* actions that every Stepwell knows, one file each (specifications: budpipeline
// §3.3 "utility actions"; the names without "util." are budpipeline's own).
//
// Register adds them to a registry. They keep no state and need nothing but the step's Host; util.exec
// starts processes and util.backup writes files, nothing else touches the outside. What an action reads and returns is stated in its
// Spec, from which docs/actions.md is written. Names, parameters and outputs are stable.
package builtin

import (
	"context"
	"time"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/sandbox"
)

// Options are the dependencies of the actions.
type Options struct {
	// Now is the clock that waits and loops reckon with. Defaults to time.Now.
	Now func() time.Time
	// Sandbox returns the sandbox of a command, nil for no confinement, or CodeDenied when it may not run. It is called
	// for each command. Defaults to nil for all.
	Sandbox func(context.Context) (*sandbox.Sandbox, error)
	// PassEnv are the variables that a confined command may ask for. Defaults to none.
	PassEnv []string
	// Tape records the commands of util.exec, or answers in their place if Replay is set. Defaults to neither.
	Tape   *action.Tape
	Replay bool
	// Backup makes a checked copy of the database in a folder and leaves the newest keep there. Defaults to there being no
	// database.
	Backup func(ctx context.Context, folder string, keep int, progress func(done, total int)) (*Copied, error)
}

// Register adds all actions of the package. It fails as action.Registry.Add does, when a name is taken.
func Register(r *action.Registry, o Options) error {
	if o.Now == nil {
		o.Now = time.Now
	}
	return r.Add(
		wait(o.Now),
		waitUntil(o.Now),
		waitFor(o.Now),
		approval(o.Now),
		execAction(o),
		condition(),
		switchAction(),
		while(r, o.Now),
		filter(),
		transform(),
		aggregate(),
		logAction(),
		setOutput(),
		fail(),
		backup(o),
		noop(),
	)
}

func ptr(f float64) *float64 { return &f }
