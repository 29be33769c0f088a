package builtin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/expr"
)

// execRecording is a command in a file: what came of it, without secrets. Files that it wrote are not recorded.
type execRecording struct {
	At      time.Time       `json:"recorded_at"`
	Params  json.RawMessage `json:"params"`
	Outputs json.RawMessage `json:"outputs,omitempty"` // with the exit code, and the program's own or the end of its standard output
	Error   *execFailure    `json:"error,omitempty"`
}

// execFailure is a command that did not complete its step.
type execFailure struct {
	Kind    string        `json:"kind"` // failed, permanent, skipped or timed_out
	Code    stepwell.Code `json:"code,omitempty"`
	Message string        `json:"message"`
	Hint    string        `json:"hint,omitempty"`
}

// timedOut is the kind of a command that was stopped because its step's timeout had passed.
const timedOut = "timed_out"

// execTape records commands, or gives what was recorded without starting a program.
type execTape struct {
	execHandler
	tape    *action.Tape
	replays bool
}

// Run implements action.Handler.
func (h execTape) Run(ctx context.Context, call *action.Call) (any, error) {
	params, err := h.describe(call.Params)
	if err != nil {
		return nil, err
	}
	if h.replays {
		return h.replay(params)
	}
	out, err := h.execHandler.Run(ctx, call)
	late := ctx.Err() != nil && errors.Is(context.Cause(ctx), action.ErrDeadline)
	if ctx.Err() != nil && !late {
		return out, err // it was stopped: that is nothing to play again
	}
	r := execRecording{At: h.o.Now().UTC().Truncate(time.Second), Params: params}
	if late {
		r.Error = &execFailure{Kind: timedOut, Code: stepwell.CodeTimeout, Message: action.ErrDeadline.Message}
	} else if err != nil {
		r.Error = h.failure(err)
	} else if r.Outputs, err = h.hidden(out); err != nil {
		return nil, err
	}
	if bad := h.tape.Write("exec-", string(params), &r); bad != nil {
		return nil, bad
	}
	return out, err
}

// hidden is a value as JSON without secrets: neither in texts, nor as numbers, nor in members whose names say that they are secret.
func (h execTape) hidden(v any) (json.RawMessage, error) {
	raw, err := expr.Marshal(v)
	if err != nil {
		return nil, err
	}
	if v, err = expr.Decode(raw); err != nil {
		return nil, err
	}
	return expr.Marshal(h.without(v))
}

func (h execTape) without(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, value := range v {
			if text, ok := value.(string); ok && text != "" && h.tape.Secret != nil && h.tape.Secret(name) {
				h.tape.Learned(text)
				value = "***"
			}
			out[h.tape.Hidden(name)] = h.without(value)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, value := range v {
			out[i] = h.without(value)
		}
		return out
	case string:
		return h.tape.Hidden(v)
	case nil, bool:
		return v
	}
	if text := fmt.Sprint(v); h.tape.Hidden(text) != text {
		return "***"
	}
	return v
}

// describe is the command without secrets. The variables whose names say that they are secret are left out.
func (h execTape) describe(params map[string]any) (json.RawMessage, error) {
	shown := maps.Clone(params)
	if env, ok := params["env"].(map[string]any); ok {
		env = maps.Clone(env)
		for name, value := range env {
			if h.tape.Secret != nil && h.tape.Secret(name) {
				h.tape.Learned(fmt.Sprint(value))
				env[name] = "***"
			}
		}
		shown["env"] = env
	}
	if names, ok := params["pass_env"].([]any); ok {
		for _, name := range names {
			if name, ok := name.(string); ok && h.tape.Secret != nil && h.tape.Secret(name) {
				h.tape.Learned(os.Getenv(name))
			}
		}
	}
	return h.hidden(shown)
}

func (h execTape) failure(err error) *execFailure {
	f := &execFailure{Kind: "failed", Code: stepwell.CodeOf(err), Message: h.tape.Hidden(err.Error()), Hint: stepwell.HintOf(err)}
	if skip, ok := errors.AsType[*action.SkipError](err); ok {
		f.Kind, f.Code, f.Message = "skipped", "", h.tape.Hidden(skip.Reason)
	} else if action.IsFail(err) {
		f.Kind = "permanent"
	}
	return f
}

func (h execTape) replay(params json.RawMessage) (any, error) {
	file, n := h.tape.Next("exec-", string(params))
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		which := ""
		if n > 1 {
			which = fmt.Sprintf(", it ran %d times", n-1)
		}
		return nil, action.Fail(stepwell.Errorf(stepwell.CodeNotFound, "record it first", "no recording of the command %s%s", stepwell.Clip(string(params), 500), which))
	}
	if err != nil {
		return nil, err
	}
	var r execRecording
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, action.Fail(fmt.Errorf("recording %s: %w", file, err))
	}
	if r.Error == nil {
		return r.Outputs, nil
	}
	if r.Error.Kind == timedOut {
		return nil, action.ErrDeadline
	}
	err = &stepwell.Error{Code: r.Error.Code, Message: r.Error.Message, Hint: r.Error.Hint}
	switch r.Error.Kind {
	case "skipped":
		return nil, action.Skip(r.Error.Message)
	case "permanent":
		return nil, action.Fail(err)
	}
	return nil, err
}
