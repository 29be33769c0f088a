package builtin

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stepwell/stepwell/action"
)

// execParams are the parameters of util.exec, ready to use.
type execParams struct {
	execFields
	argv  []string
	stdin []byte // nil: empty
	env   []string
	grace time.Duration
}

// execFields are the parameters as they are given.
type execFields struct {
	CommandFields
	Dir string `json:"dir" doc:"Working directory, relative to that of the pipeline. Must exist."`
}

// CommandFields are the parameters of a command but its working directory, for the parameters of other actions that run
// one (Programs.Command).
type CommandFields struct {
	Command      any            `json:"command" required:"true" doc:"A line for the shell, or a list of the program and its arguments, which needs no quoting."`
	Input        any            `json:"input" doc:"A value that the program reads as JSON from its standard input."`
	Stdin        any            `json:"stdin" doc:"The standard input itself: text as it is, other values as JSON. Not together with ´input´; without both it is empty."`
	Env          map[string]any `json:"env" doc:"Environment variables; the values are strings, numbers or booleans."`
	PassEnv      []string       `json:"pass_env" minLength:"1" doc:"Names of variables to pass on from Stepwell's own environment; one that is not set there is left out."`
	Shell        string         `json:"shell" default:"sh" doc:"The program that runs a line, called with ´-c´."`
	SuccessCodes []int          `json:"success_codes" minimum:"0" maximum:"255" default:"[0]" doc:"Exit codes that complete the step."`
	SkipCodes    []int          `json:"skip_exit_codes" minimum:"0" maximum:"255" doc:"Exit codes that end the step as skipped."`
	RetryCodes   []int          `json:"retry_exit_codes" minimum:"0" maximum:"255" doc:"Exit codes that may be retried; given, every other one fails the step permanently."`
	Capture      bool           `json:"capture" default:"true" doc:"Whether standard output may become an output."`
	GraceSeconds float64        `json:"grace_seconds" default:"5" minimum:"0" maximum:"300" doc:"Time between asking the program to end and killing it."`
}

// CheckCommand returns everything that is wrong with the parameters of a command, of which those with templates may be
// missing.
func CheckCommand(params map[string]any) []error {
	_, problems := readExecParams(params)
	return problems
}

// readCommand reads the parameters of a command that is to run.
func readCommand(params map[string]any) (execParams, error) {
	p, problems := readExecParams(params)
	if len(p.argv) == 0 && len(problems) == 0 {
		problems = append(problems, action.Invalid("", "command: is empty"))
	}
	if len(problems) > 0 {
		return p, action.Fail(errors.Join(problems...))
	}
	return p, nil
}

// readExecParams finds everything that is wrong with the parameters. A missing command is not reported:
// when a pipeline is validated, a command with a template in it is not there.
func readExecParams(params map[string]any) (execParams, []error) {
	p := execParams{execFields: execFields{CommandFields: CommandFields{Shell: "sh", SuccessCodes: []int{0}, Capture: true, GraceSeconds: 5}}}
	if err := (&action.Call{Params: params}).Bind(&p.execFields); err != nil {
		return execParams{}, []error{err}
	}
	var problems []error
	if p.GraceSeconds < 0 || p.GraceSeconds > 300 {
		problems = append(problems, action.Invalid("", "grace_seconds: is not between 0 and 300"))
	}
	p.grace = time.Duration(p.GraceSeconds * float64(time.Second))
	argv, err := argvOf(p.Command, p.Shell)
	p.argv, problems = argv, appendError(problems, err)
	p.stdin, err = stdinOf(params)
	problems = appendError(problems, err)
	for _, name := range slices.Sorted(maps.Keys(p.Env)) {
		entry, err := envEntry(name, p.Env[name])
		p.env, problems = append(p.env, entry), appendError(problems, err)
	}
	for _, name := range p.PassEnv {
		if strings.ContainsAny(name, "=\x00") || name == "" {
			problems = append(problems, action.Invalid("", "pass_env: %q is not a name of a variable", name))
		}
	}
	return p, problems
}

func appendError(problems []error, err error) []error {
	if err != nil {
		return append(problems, err)
	}
	return problems
}

// argvOf is the program and its arguments; none when there is no command.
func argvOf(value any, shell string) ([]string, error) {
	switch v := value.(type) {
	case nil:
		return nil, nil
	case string:
		if strings.TrimSpace(v) == "" {
			return nil, action.Invalid("", "command: is empty")
		}
		if strings.Contains(v, "\x00") {
			return nil, action.Invalid("", "command: contains a NUL character")
		}
		return []string{shell, "-c", v}, nil
	case []any:
		argv := make([]string, len(v))
		for i, element := range v {
			text, ok := scalarText(element)
			if !ok {
				return nil, action.Invalid("arguments are strings, numbers or booleans without NUL characters", "command[%d]: is %s that cannot be an argument", i, describe(element))
			}
			argv[i] = text
		}
		if len(argv) == 0 || argv[0] == "" {
			return nil, action.Invalid("", "command: names no program")
		}
		return argv, nil
	}
	return nil, action.Invalid("", "command: is %s, neither a string nor a list", typeName(value))
}

// stdinOf is the program's input, nil for none.
func stdinOf(params map[string]any) ([]byte, error) {
	input, hasInput := params["input"]
	stdin, hasStdin := params["stdin"]
	switch {
	case hasInput && hasStdin:
		return nil, action.Invalid("leave one of them out", "input stands beside stdin")
	case hasStdin:
		if text, ok := stdin.(string); ok {
			return []byte(text), nil
		}
		input = stdin
	case !hasInput:
		return nil, nil
	}
	raw, err := json.Marshal(input)
	if err != nil {
		return nil, action.Invalid("", "the input cannot be written as JSON: %v", err)
	}
	return append(raw, '\n'), nil
}

func envEntry(name string, value any) (string, error) {
	if name == "" || strings.ContainsAny(name, "=\x00") {
		return "", action.Invalid("", "env: %q is not a name of a variable", name)
	}
	if slices.Contains(reservedEnv, name) {
		return "", action.Invalid("choose another name", "env.%s: is set by Stepwell itself", name)
	}
	text, ok := scalarText(value)
	if !ok {
		return "", action.Invalid("values are strings, numbers or booleans without NUL characters; pass other data in input", "env.%s: is %s that cannot be a variable", name, describe(value))
	}
	return name + "=" + text, nil
}

// scalarText is the text of a value that a program can get as an argument or a variable.
func scalarText(value any) (string, bool) {
	switch value.(type) {
	case nil, []any, map[string]any:
		return "", false
	}
	text := textOf(value)
	return text, !strings.Contains(text, "\x00")
}
