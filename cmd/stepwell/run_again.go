package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/stepwell/stepwell"
)

// changePause is how often the files of a pipeline are looked at for a change. Where there are so many that a look takes longer than a
// twentieth of it, the pause is twenty looks.
const changePause = 50 * time.Millisecond

// runAgain runs a pipeline file, and again each time it or a file that it refers to has changed, until it is interrupted. Its
// exit code is that of the last run.
func (p *program) runAgain(file string, f *runFlags) error {
	if f.resume {
		return stepwell.Invalid("leave one of them out", "--watch starts an execution for each change, --resume continues with one")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	for {
		files := p.filesOf(file, f.paramsFile)
		before := stampsOf(files)
		code := p.exit(p.runFile(file, f))
		if ctx.Err() == nil {
			fmt.Fprintf(p.err, "\nwatching %s: it runs again when it changes (Ctrl-C ends)\n", file)
		}
		if !awaitChange(ctx, files, before) {
			if code == exitOK {
				return nil
			}
			return exitError(code)
		}
	}
}

// filesOf are the files that a run depends on: the pipeline's, those of its sub-pipelines, that of the parameters.
func (p *program) filesOf(file, params string) []string {
	files := []string{file}
	if d, _, err := p.loadWithActions(file); err == nil { // what is wrong with it the run says
		files = append(files, d.others...)
	}
	if params != "" {
		files = append(files, params)
	}
	return files
}

// stampsOf say which state files are in. One that is not there has a state too.
func stampsOf(files []string) []string {
	stamps := make([]string, len(files))
	for i, file := range files {
		if info, err := os.Stat(file); err == nil {
			stamps[i] = fmt.Sprint(info.ModTime().UnixNano(), info.Size())
		}
	}
	return stamps
}

// awaitChange waits until the files have another state; false: ctx ended first.
func awaitChange(ctx context.Context, files, before []string) bool {
	pause := changePause
	for {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(pause):
		}
		began := time.Now()
		if !slices.Equal(stampsOf(files), before) {
			return true
		}
		pause = max(changePause, 20*time.Since(began))
	}
}
