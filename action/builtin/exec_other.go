//go:build !unix

package builtin

import (
	"context"
	"os"
	"runtime"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/sandbox"
)

type command struct {
	argv, env      []string
	dir, scratch   string
	lent           []string // files that the command may read although they are hidden
	own            string
	box            *sandbox.Sandbox
	stdin          []byte
	grace          time.Duration
	host           action.Host
	line           func(stream, line string)
	files          []*os.File
	stdout, stderr *tail
}

func (c *command) run(context.Context) (int, error) {
	return 0, action.Fail(&stepwell.Error{Code: stepwell.CodeUnavailable,
		Message: "commands do not run on " + runtime.GOOS + ", which has no process groups",
		Hint:    "run a worker on Linux or macOS"})
}

func killGroup(int) {}

func owned(string) bool { return false }

func openPlain(path string) (*os.File, error) { return os.Open(path) }
