package builtin

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/sandbox"
)

// Programs runs the programs of one call, one after the other, as util.exec runs its command: each leads a process group,
// which is ended with it, on a cancel and, on Linux, by the process that takes the step up after a crash.
type Programs struct {
	call    *action.Call
	handler execHandler
	box     *sandbox.Sandbox // nil: commands are not confined
	scratch string           // what the command must not reach
	own     string           // the command's own folder, in scratch
	alone   bool
}

// OpenPrograms makes the temporary folders of a call; Close removes them. CodeDenied when commands may not run here.
func OpenPrograms(ctx context.Context, call *action.Call, o Options) (*Programs, error) {
	p := &Programs{call: call, handler: execHandler{o}}
	var err error
	if p.box, err = p.handler.sandbox(ctx); err != nil {
		return nil, err
	}
	if p.scratch, p.alone, err = makeScratch(call); err != nil {
		return nil, &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "temporary directory of the command", Err: err}
	}
	if p.own, err = makeOwn(p.scratch, p.box); err != nil {
		p.Close()
		return nil, &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "temporary directory of the command", Err: err}
	}
	return p, nil
}

// Close removes the folders and all that is in them.
func (p *Programs) Close() {
	if err := os.RemoveAll(p.scratch); err != nil {
		p.call.Host.Log(slog.LevelWarn, "the temporary directory of the command stays behind: "+err.Error())
	}
}

// Private is a folder that tools share and that a confined command cannot reach.
func (p *Programs) Private() (string, error) {
	dir := filepath.Join(p.scratch, "private")
	if err := os.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
		return "", err
	}
	return dir, nil
}

// Own is a folder that the command may read and change, also when it is confined. Give hands over what is put there.
func (p *Programs) Own() string { return p.own }

// Admits is CodeDenied when the command may not work in a folder that is not in Own.
func (p *Programs) Admits(dir string) error {
	if p.box == nil {
		return nil
	}
	return admitted(p.box, dir)
}

// Alone reports that no other process of this machine runs a program of the step: what a dead one had left running was ended.
func (p *Programs) Alone() bool { return p.alone }

// Confined reports whether the command is confined.
func (p *Programs) Confined() bool { return p.box != nil }

// OtherUser reports whether the command runs as another user.
func (p *Programs) OtherUser() bool { return p.box != nil && p.box.OtherUser() }

// Give hands a folder that this process has made, and all that is in it, to the user of the command.
func (p *Programs) Give(dir string) error {
	if p.box == nil {
		return nil
	}
	return p.box.Own(dir)
}

// Command runs the command that the call's parameters describe (CommandFields) in a folder, with more variables NAME=value
// in its environment. It returns the step's outputs as util.exec does.
func (p *Programs) Command(ctx context.Context, dir string, env ...string) (any, error) {
	c, err := readCommand(p.call.Params)
	if err != nil {
		return nil, err
	}
	return p.run(ctx, c, dir, env...)
}

func (p *Programs) run(ctx context.Context, params execParams, dir string, more ...string) (any, error) {
	lent, err := lend(&params, p.call.Media, p.own, p.box)
	if err != nil {
		return nil, err
	}
	env, err := p.handler.environment(params, p.call, p.own, p.box)
	if err != nil {
		return nil, err
	}
	host := p.call.Host
	c := command{lent: lent, argv: params.argv, dir: dir, scratch: p.scratch, own: p.own, box: p.box, stdin: params.stdin, grace: params.grace, host: host,
		line:   func(stream, line string) { host.Log(slog.LevelInfo, line, slog.String("stream", stream)) },
		env:    append(env, more...),
		stdout: newTail(maxCapture), stderr: newTail(maxMessage)}
	code, err := c.run(ctx)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(params.SuccessCodes, code) {
		return nil, exitError(params, &c, code)
	}
	return readOutputs(filepath.Join(p.own, outputName), params.Capture, code, c.stdout)
}

// Tool is a program that an action itself needs. It is not confined, and its output is not logged.
type Tool struct {
	Argv  []string
	Env   []string // the whole environment
	Dir   string
	Stdin []byte
	Files []*os.File        // which it and what it starts hold open
	Line  func(line string) // is told of each line of standard output. Defaults to nobody
	Keep  int               // bytes at the end of standard output that are returned. Defaults to 64 KiB
	Grace time.Duration     // how long it may go on after it was asked to end. Defaults to 2 seconds
}

// Tool runs a tool. It returns the exit code and the end of standard output and the last 4 KiB of standard error; that says
// how the tool ended where it failed without a word. The error is that of a tool that could not be started, or was stopped because ctx ended.
func (p *Programs) Tool(ctx context.Context, t Tool) (code int, stdout, stderr string, err error) {
	c := command{argv: t.Argv, env: t.Env, dir: t.Dir, stdin: t.Stdin, files: t.Files, scratch: p.scratch, grace: cmp.Or(t.Grace, 2*time.Second), host: p.call.Host,
		stdout: newTail(cmp.Or(t.Keep, maxCapture)), stderr: newTail(maxMessage)}
	c.line = func(stream, line string) {
		if t.Line != nil && stream == "stdout" {
			t.Line(line)
		}
	}
	code, err = c.run(ctx)
	stdout, _ = c.stdout.text()
	stderr, _ = c.stderr.text()
	if code != 0 && strings.TrimSpace(stderr) == "" {
		stderr = fmt.Sprintf("exit code %d, and nothing on standard error", code)
		if Signaled(code) {
			stderr = fmt.Sprintf("ended by signal %d", code-signaled)
		}
	}
	return code, stdout, stderr, err
}

// Signaled reports whether a tool with this exit code was ended by a signal: somebody killed it, or the kernel did for want of memory.
func Signaled(code int) bool { return code > signaled }

// signaled is added to the number of the signal that ended a program, as shells do.
const signaled = 128
