//go:build unix

package builtin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/sandbox"
)

// killWait is how long the pipes of killed processes may stay open: only a process that left the group
// can still hold them.
const killWait = time.Second

// command is one program to run as the leader of a process group of its own.
type command struct {
	argv, env      []string
	dir, scratch   string
	lent           []string         // files that the command may read although they are hidden
	own            string           // the command's own folder, in scratch
	box            *sandbox.Sandbox // nil: not confined
	stdin          []byte
	grace          time.Duration
	host           action.Host
	line           func(stream, line string) // is told of each line of output
	files          []*os.File                // descriptors from 3 on
	stdout, stderr *tail
}

// run runs the program to its end and gives its exit code. When it returns, all processes of the group
// are dead and both streams are read to their end, or given up because a process outside the
// group holds them.
func (c *command) run(ctx context.Context) (int, error) {
	if ctx.Err() != nil {
		return 0, stopError(ctx)
	}
	cmd, streams, err := c.start()
	if err != nil {
		return 0, err
	}
	wait := sync.OnceValue(cmd.Wait)
	exited, drained := make(chan struct{}), make(chan struct{})
	go func() { awaitExit(cmd.Process.Pid, wait); close(exited) }()
	go func() { c.read(streams); close(drained) }()

	stopped := false
	select {
	case <-exited:
	case <-ctx.Done():
		stopped = true
		signalGroup(cmd, syscall.SIGTERM)
	}
	c.clear(ctx, cmd, exited, drained, stopped)
	for _, stream := range streams {
		stream.Close() // ends a read that is still waiting
	}
	<-drained
	<-exited
	waitErr := wait()
	measure(ctx, cmd.ProcessState)
	if stopped {
		return 0, stopError(ctx)
	}
	return exitCode(cmd.ProcessState, waitErr)
}

// clear gives remaining processes the grace time to end, then kills the group.
func (c *command) clear(ctx context.Context, cmd *exec.Cmd, exited, drained <-chan struct{}, stopped bool) {
	limit, cut := c.grace, (<-chan struct{})(nil)
	if !stopped {
		// The program has ended; this is for its last lines and remaining processes.
		limit, cut = max(c.grace, killWait), ctx.Done()
	}
	grace, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	late := false
	for _, done := range []<-chan struct{}{exited, drained} {
		select {
		case <-done:
		case <-cut:
			late = true
		case <-grace.Done():
			late = true
		}
	}
	if late && !stopped {
		c.host.Log(slog.LevelWarn, "processes that the command left behind are killed")
	}
	signalGroup(cmd, syscall.SIGKILL)
	killed, cancelKilled := context.WithTimeout(context.Background(), killWait)
	defer cancelKilled()
	select {
	case <-drained:
	case <-killed.Done():
	}
}

// start starts the program; streams are the read ends of its standard output and standard error.
func (c *command) start() (cmd *exec.Cmd, streams []*os.File, err error) {
	path, err := c.lookPath()
	if err != nil {
		return nil, nil, startError(c.argv[0], err)
	}
	cmd = &exec.Cmd{Path: path, Args: c.argv, Env: c.env, Dir: c.dir, WaitDelay: killWait, ExtraFiles: c.files,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true}}
	if c.stdin != nil {
		cmd.Stdin = bytes.NewReader(c.stdin)
	}
	// Pipes of our own, because with those of os/exec Wait does not return before a grandchild that holds
	// them ends.
	outRead, outWrite, err := os.Pipe()
	if err != nil {
		return nil, nil, startError(c.argv[0], err)
	}
	errRead, errWrite, err := os.Pipe()
	if err != nil {
		return nil, nil, errors.Join(startError(c.argv[0], err), outRead.Close(), outWrite.Close())
	}
	cmd.Stdout, cmd.Stderr = outWrite, errWrite
	if c.box == nil {
		err = cmd.Start()
	} else {
		err = c.box.Start(cmd, c.own, c.lent...)
	}
	outWrite.Close()
	errWrite.Close()
	if err != nil {
		outRead.Close()
		errRead.Close()
		return nil, nil, c.startError(err)
	}
	if err := hold(c.scratch, cmd.Process.Pid); err != nil {
		c.host.Log(slog.LevelWarn, "a crash would leave the command running: "+err.Error())
	}
	return cmd, []*os.File{outRead, errRead}, nil
}

// lookPath finds the program as a shell in the step's directory with the step's environment would.
func (c *command) lookPath() (string, error) {
	name := c.argv[0]
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(c.absDir(), name)
		}
		return exec.LookPath(name)
	}
	path := ""
	for _, entry := range c.env {
		if value, ok := strings.CutPrefix(entry, "PATH="); ok {
			path = value
		}
	}
	var denied error
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(c.absDir(), dir)
		}
		found, err := exec.LookPath(filepath.Join(dir, name))
		if err == nil {
			return found, nil
		}
		if errors.Is(err, fs.ErrPermission) {
			denied = err
		}
	}
	if denied != nil {
		return "", denied
	}
	return "", &exec.Error{Name: name, Err: exec.ErrNotFound}
}

func (c *command) absDir() string {
	dir, err := filepath.Abs(c.dir)
	if err != nil {
		return c.dir // the working directory is gone; the program is then not found either
	}
	return dir
}

// read logs both streams until they end.
func (c *command) read(streams []*os.File) {
	var wg sync.WaitGroup
	for i, name := range []string{"stdout", "stderr"} {
		keep := []*tail{c.stdout, c.stderr}[i]
		wg.Go(func() {
			streamLines(streams[i], keep, func(line string) { c.line(name, line) })
		})
	}
	wg.Wait()
}

// signalGroup signals the program and everything it started. It may only be called while the leader is
// not reaped, or right after: the number of the group belongs to it as long.
func signalGroup(cmd *exec.Cmd, signal syscall.Signal) {
	// The group may be gone already: so much the better.
	_ = syscall.Kill(-cmd.Process.Pid, signal)
}

// measure adds a program that has ended, with what it has waited for, to the resources of its attempt. Its memory counts only
// above that of this process: on Linux, a program starts with the figure of the process that has started it.
func measure(ctx context.Context, state *os.ProcessState) {
	if state == nil {
		return
	}
	memory := int64(0)
	var own syscall.Rusage
	if u, ok := state.SysUsage().(*syscall.Rusage); ok && syscall.Getrusage(syscall.RUSAGE_SELF, &own) == nil && u.Maxrss > own.Maxrss {
		memory = int64(u.Maxrss)
		if runtime.GOOS != "darwin" { // in KiB
			memory *= 1024
		}
	}
	action.MeterOf(ctx).Program(state.UserTime()+state.SystemTime(), memory)
}

// exitCode is the program's exit code, by the shells' convention 128 and the signal's number for a signal.
func exitCode(state *os.ProcessState, waitErr error) (int, error) {
	if state == nil {
		return 0, &stepwell.Error{Code: stepwell.CodeInternal, Message: "waiting for the command", Err: waitErr}
	}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return signaled + int(status.Signal()), nil
	}
	return state.ExitCode(), nil
}

// stopError says why a command was stopped.
func stopError(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, context.DeadlineExceeded) {
		return &stepwell.Error{Code: stepwell.CodeTimeout, Message: "the command was stopped at its time limit", Err: cause}
	}
	return &stepwell.Error{Code: stepwell.CodeCancelled, Message: "the command was stopped", Err: cause}
}

// startError also knows that a confined command cannot execute everything.
func (c *command) startError(err error) error {
	if _, coded := errors.AsType[*stepwell.Error](err); coded {
		return final(err)
	}
	if c.box != nil && errors.Is(err, fs.ErrPermission) {
		return action.Fail(&stepwell.Error{Code: stepwell.CodeDenied, Message: fmt.Sprintf("the command %q cannot be started: it is confined %s", c.argv[0], c.box),
			Hint: "make the file executable, or add the program's folder to exec.read in the server's settings", Err: err})
	}
	return startError(c.argv[0], err)
}

// startError says why a program could not be started. Only a lack of resources is worth another attempt.
func startError(name string, err error) error {
	e := &stepwell.Error{Code: stepwell.CodeInvalid, Message: fmt.Sprintf("the command %q cannot be started", name), Err: err}
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		e.Hint = "install the program where the worker runs, or give its full path; a script's first line may name a missing interpreter"
	case errors.Is(err, fs.ErrPermission):
		e.Hint = "make the file executable: chmod +x"
	case errors.Is(err, syscall.ENOEXEC):
		e.Hint = "a script begins with a line such as #!/bin/sh"
	case errors.Is(err, syscall.E2BIG):
		e.Hint = "arguments and variables are too long; pass the data in input"
	default:
		e.Code = stepwell.CodeUnavailable
		return e
	}
	return action.Fail(e)
}

// killGroup ends a process group at once.
func killGroup(group int) { _ = syscall.Kill(-group, syscall.SIGKILL) } // it may have ended meanwhile

// owned reports whether a folder is a real one and ours.
func owned(dir string) bool {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Getuid()
}

// openPlain opens a regular file with one name; a program can put a link or a pipe in its place.
func openPlain(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); !info.Mode().IsRegular() || ok && stat.Nlink > 1 {
		return nil, errors.Join(fs.ErrInvalid, f.Close())
	}
	return f, nil
}
