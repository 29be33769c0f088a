package builtin

import (
	"context"
	"log/slog"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/spec"
)

func logAction() action.Action {
	return action.Action{
		Spec: spec.Spec{
			Name:    "util.log",
			Aliases: []string{"log"},
			Summary: "Writes a line to the step's log.",
			Params: []spec.Field{
				{Name: "message", Type: spec.Any, Required: true, Doc: "What to write; anything but a string is written as JSON."},
				{Name: "level", Type: spec.String, Default: "info", Enum: []string{"debug", "info", "warning", "error"}, Doc: "Severity of the line."},
			},
			Outputs: []spec.Field{
				{Name: "logged", Type: spec.Boolean, Doc: "Always true."},
				{Name: "message", Type: spec.String, Doc: "The line as written."},
				{Name: "level", Type: spec.String, Doc: "The severity as given."},
			},
			Examples: []spec.Example{{Title: "say what is going on", YAML: `
id: say
action: util.log
params:
  message: "deploying {{ params.model }}"
  level: warning`}},
		},
		Handler: action.HandlerFunc(runLog),
	}
}

var logLevels = map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warning": slog.LevelWarn, "error": slog.LevelError}

func runLog(_ context.Context, call *action.Call) (any, error) {
	name, _ := call.Params["level"].(string)
	if name == "" {
		name = "info"
	}
	level, ok := logLevels[name]
	if !ok {
		return nil, action.Invalid("the levels are debug, info, warning and error", "level: unknown level %q", name)
	}
	message := textOf(call.Params["message"])
	call.Host.Log(level, message)
	return map[string]any{"logged": true, "message": message, "level": name}, nil
}
