package builtin

import (
	"context"
	"log/slog"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/spec"
)

type logParams struct {
	Message any    `json:"message" required:"true" doc:"What to write; anything but a string is written as JSON."`
	Level   string `json:"level" default:"info" enum:"debug,info,warning,error" doc:"Severity of the line."`
}

type logOutputs struct {
	Logged  bool   `json:"logged" doc:"Always true."`
	Message string `json:"message" doc:"The line as written."`
	Level   string `json:"level" doc:"The severity as given."`
}

var logLevels = map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warning": slog.LevelWarn, "error": slog.LevelError}

func logAction() action.Action {
	return action.Of(spec.Spec{
		Name:    "util.log",
		Effect:  spec.NoEffect,
		Aliases: []string{"log"},
		Summary: "Writes a line to the step's log.",
		Examples: []spec.Example{{Title: "say what is going on", YAML: `
id: say
action: util.log
params:
  message: "deploying {{ params.model }}"
  level: warning`}},
	}, func(_ context.Context, call *action.Call, p logParams) (*logOutputs, error) {
		message := textOf(p.Message)
		call.Host.Log(logLevels[p.Level], message)
		return &logOutputs{true, message, p.Level}, nil
	})
}
