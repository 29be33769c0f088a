package builtin

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/spec"
)

func execAction(o Options) action.Action {
	return action.Action{
		Spec: spec.Spec{
			Name:        "util.exec",
			Summary:     "Runs a program in any language.",
			Doc:         execDoc,
			Timeout:     time.Hour,
			Params:      spec.FieldsOf[execFields](),
			OpenOutputs: true,
			Outputs:     CommandOutputs(),
			Examples: []spec.Example{
				{Title: "a line for the shell", YAML: "id: size\naction: util.exec\nparams:\n  command: echo \"bytes=$(wc -c < \"$FILE\")\" >> \"$STEPWELL_OUTPUT\"\n  env: {FILE: \"{{ params.file }}\"}"},
				{Title: "a program that reads and writes JSON", YAML: "id: score\naction: util.exec\nparams:\n  command: [python3, score.py]\n  input: {model: \"{{ params.model }}\", limit: 10}\n  pass_env: [API_TOKEN]"},
			},
		},
		Handler: o.command(),
	}
}

func (o *Options) command() action.Handler {
	if o.Tape != nil {
		return execTape{execHandler{*o}, o.Tape, o.Replay}
	}
	return execHandler{*o}
}

// CommandOutputs are the outputs of a step whose command writes none of its own.
func CommandOutputs() []spec.Field {
	return []spec.Field{
		{Name: "exit_code", Type: spec.Integer, Doc: "The program's exit code; 128 and the signal's number when a signal ended it."},
		{Name: "stdout", Type: spec.String, Doc: "The last 64 KiB of standard output without the newlines at its end. Only when the program wrote no outputs of its own."},
		{Name: "stdout_truncated", Type: spec.Boolean, Doc: "Whether standard output was longer than that. Beside `stdout`."},
	}
}

const execDoc = "**Outputs.** The program writes its outputs to the file that `STEPWELL_OUTPUT` names, either as one JSON object " +
	"or as lines `key=value`, whose values are strings; of a repeated key the last value counts. They become the step's " +
	"outputs, and `exit_code` is added. A program that writes nothing there has `exit_code`, `stdout` and " +
	"`stdout_truncated` as outputs. More than 16 MiB are an error.\n\n" +
	"**Environment.** The program sees `PATH`, `HOME`, `LANG` and `TMPDIR` of Stepwell, the variables in `env` and " +
	"`pass_env`, and `STEPWELL_OUTPUT`, `STEPWELL_EXECUTION`, `STEPWELL_STEP`, `STEPWELL_ATTEMPT` and " +
	"`STEPWELL_IDEMPOTENCY_KEY` (the same for every attempt), `TRACEPARENT` (W3C trace context), and nothing else. In a line for the shell, hand values over in `env` " +
	"rather than as a template in the line, which the shell would interpret.\n\n" +
	"**Confined.** On a server that has API keys, commands run as the user `exec.user`, or can touch only the working directory (or `exec.folders`), " +
	"a temporary one and what programs need of the system, which they can only read. `HOME` and `TMPDIR` are the temporary directory then, and `pass_env` may " +
	"name what the setting `exec.pass_env` lists. docs/security.md says more.\n\n" +
	"**Log.** Both output streams go to the step's log line by line while the program runs, cut at 16 KiB a line, with the " +
	"attribute `stream`.\n\n" +
	"**End.** An exit code that is not a success fails the attempt with the last lines of standard error as the message. On a cancel or " +
	"a timeout the program and everything it started get SIGTERM and, after the grace time, SIGKILL. What is still running when " +
	"the program itself has ended is killed too, after the same time (a second at least) if it still holds the output open. A process " +
	"that leaves the process group (setsid) escapes. When Stepwell itself is killed, its commands run on; on Linux the process that takes the " +
	"step up again ends them first."

// reservedEnv are the variables that the step itself sets.
var reservedEnv = []string{"STEPWELL_OUTPUT", "STEPWELL_EXECUTION", "STEPWELL_STEP", "STEPWELL_ATTEMPT", "STEPWELL_IDEMPOTENCY_KEY"}

type execHandler struct{ o Options }

// Validate implements action.Validator.
func (execHandler) Validate(params map[string]any) []error {
	_, problems := readExecParams(params)
	return problems
}

// Run implements action.Handler.
func (h execHandler) Run(ctx context.Context, call *action.Call) (any, error) {
	p, err := readCommand(call.Params)
	if err != nil {
		return nil, err
	}
	programs, err := OpenPrograms(ctx, call, h.o)
	if err != nil {
		return nil, err
	}
	defer programs.Close()
	dir, err := workingDir(call.Dir, p.Dir)
	if err == nil && programs.box != nil {
		err = admitted(programs.box, dir)
	}
	if err != nil {
		return nil, err
	}
	return programs.run(ctx, p, dir)
}

// exitError is the error of an exit code other than success.
func exitError(p execParams, c *command, code int) error {
	message := fmt.Sprintf("the command ended with exit code %d", code)
	last := c.stderr.lastLines(10)
	if last == "" {
		last = newTailOf(c.stdout, maxMessage).lastLines(10)
	}
	if last != "" {
		message += ": " + last
	}
	hint := ""
	if code == 128+9 {
		hint = "it was killed; the machine may have run out of memory"
	}
	err := &stepwell.Error{Code: stepwell.CodeFailed, Message: message, Hint: hint}
	switch {
	case slices.Contains(p.SkipCodes, code):
		return action.Skip(message)
	case p.RetryCodes != nil && !slices.Contains(p.RetryCodes, code):
		return action.Fail(err)
	}
	return err
}

// workingDir resolves the parameter dir and makes sure that the directory is there, because a process
// that cannot start for the lack of it fails with the same error as a missing program.
func workingDir(base, dir string) (string, error) {
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(base, dir)
	}
	if dir == "" {
		return "", nil
	}
	info, err := os.Stat(dir)
	if err != nil {
		return "", action.Invalid("the working directory must exist before the step runs", "dir: %v", err)
	}
	if !info.IsDir() {
		return "", action.Invalid("", "dir: %s is not a directory", dir)
	}
	return dir, nil
}
