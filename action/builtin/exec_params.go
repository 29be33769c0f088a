package builtin

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/stepwell/stepwell/action"
)

// defaultGrace is the time between SIGTERM and SIGKILL.
const defaultGrace = 5 * time.Second

// execParams are the parameters of util.exec, ready to use.
type execParams struct {
	argv                                []string
	stdin                               []byte // nil: empty
	env                                 []string
	passEnv                             []string
	dir                                 string
	successCodes, skipCodes, retryCodes []int
	capture                             bool
	grace                               time.Duration
}

// readExecParams finds everything that is wrong with the parameters. A missing command is not reported:
// when a pipeline is validated, a command with a template in it is not there.
func readExecParams(params map[string]any) (execParams, []error) {
	var raw struct {
		Command      any            `json:"command"`
		Env          map[string]any `json:"env"`
		PassEnv      []string       `json:"pass_env"`
		Dir          string         `json:"dir"`
		Shell        string         `json:"shell"`
		SuccessCodes []int          `json:"success_codes"`
		SkipCodes    []int          `json:"skip_exit_codes"`
		RetryCodes   []int          `json:"retry_exit_codes"`
		Capture      *bool          `json:"capture"`
		GraceSeconds *float64       `json:"grace_seconds"`
	}
	if err := (&action.Call{Params: params}).Bind(&raw); err != nil {
		return execParams{}, []error{err}
	}
	p := execParams{dir: raw.Dir, passEnv: raw.PassEnv, successCodes: raw.SuccessCodes, skipCodes: raw.SkipCodes,
		retryCodes: raw.RetryCodes, capture: raw.Capture == nil || *raw.Capture, grace: defaultGrace}
	var problems []error
	if g := raw.GraceSeconds; g != nil {
		if *g < 0 || *g > 300 || math.IsNaN(*g) {
			problems = append(problems, action.Invalid("", "grace_seconds: is not between 0 and 300"))
		}
		p.grace = time.Duration(*g * float64(time.Second))
	}
	if raw.SuccessCodes == nil {
		p.successCodes = []int{0}
	}
	if raw.Shell == "" {
		raw.Shell = "sh"
	}
	// The values come from params and not from raw, whose numbers have gone through float64.
	argv, err := argvOf(params["command"], raw.Shell)
	p.argv, problems = argv, appendError(problems, err)
	p.stdin, err = stdinOf(params)
	problems = appendError(problems, err)
	env, _ := params["env"].(map[string]any)
	for _, name := range sortedKeys(env) {
		entry, err := envEntry(name, env[name])
		p.env, problems = append(p.env, entry), appendError(problems, err)
	}
	for _, name := range raw.PassEnv {
		if strings.ContainsAny(name, "=\x00") || name == "" {
			problems = append(problems, action.Invalid("", "pass_env: %q is no name of a variable", name))
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

// stdinOf is what the program reads, nil for nothing.
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
		return "", action.Invalid("", "env: %q is no name of a variable", name)
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
