package main

import (
	"errors"
	"fmt"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/view"
)

// The exit codes.
const (
	exitOK          = 0
	exitFailed      = 1
	exitInvalid     = 2
	exitPartly      = 3 // completed with failures
	exitInterrupted = 130
)

// exitError ends the command with a code when everything has been said already.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// exit reports an error to people and gives the exit code.
func (p *program) exit(err error) int {
	if err == nil {
		return exitOK
	}
	if code, ok := errors.AsType[exitError](err); ok {
		return int(code)
	}
	if problems, ok := errors.AsType[definition.Problems](err); ok {
		fmt.Fprintln(p.err, problems.Error())
		return exitInvalid
	}
	fmt.Fprintln(p.err, "stepwell: "+view.Printable(err.Error()))
	if hint := stepwell.HintOf(unwrapHint(err)); hint != "" {
		fmt.Fprintln(p.err, "  hint: "+view.Printable(hint))
	}
	switch stepwell.CodeOf(err) {
	case stepwell.CodeInvalid, stepwell.CodeNotFound:
		return exitInvalid
	}
	return exitFailed
}

// unwrapHint finds the first coded error below wrappings that have no code.
func unwrapHint(err error) error {
	if e, ok := errors.AsType[*stepwell.Error](err); ok {
		return e
	}
	return err
}

// exitOf is the exit code of an execution's end.
func exitOf(status string) error {
	switch status {
	case stepwell.ExecutionCompleted.String():
		return nil
	case stepwell.ExecutionCompletedWithFailures.String():
		return exitError(exitPartly)
	}
	return exitError(exitFailed)
}
