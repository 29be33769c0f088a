package mcpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/api"
)

// tool is one tool: its description, and what it does with arguments.
type tool struct {
	mcp.Tool
	role access.Role // of the operation that it comes to
	do   func(ctx context.Context, k *call, args json.RawMessage) (*reply, error)
}

// tools are all tools, the same for everybody: their names and descriptions are these texts.
var tools = sync.OnceValue(func() []*tool {
	return []*tool{
		of("list_actions", "action.list", "List what steps can do: actions, and modules of item streams, with a line about each.", (*call).listActions),
		of("describe_action", "action.get", "Describe an action or a module: parameters, outputs, examples.", (*call).describeAction),
		of("validate", "pipeline.validate", "Say what is wrong with a pipeline: errors, and mistakes that are no errors (lint), with line and column.", (*call).validate),
		of("plan", "pipeline.plan", "Show what a pipeline would run: its steps, what they wait for, and how long it may take. At most 10 seconds and 256 MB, one test, lab or plan at a time.", (*call).plan),
		of("test", "pipeline.validate", "Run the tests of a pipeline. Steps end as the mocks say; nothing outside is called and waiting takes no time. At most 10 seconds and 256 MB, one test, lab or plan at a time.", (*call).test),
		of("lab", "pipeline.validate", "Crash the tests of a pipeline at every point, and tell which steps ran twice although nothing says that they may. Mocked, as test is, with the same limits.", (*call).lab),
		of("list_executions", "execution.list", "List executions, newest first.", (*call).listExecutions),
		of("show_execution", "execution.get", "Show an execution with its steps, and their parameters and outputs if asked for.", (*call).showExecution),
		of("why", "execution.why", "Say why an execution, or a step of it, is in its state, now or at a moment in the past; or what would come of a restart, a retry, a cancel or an outcome.", (*call).why),
		of("logs", "execution.logs", "Read the log of an execution or a step, or search it.", (*call).logs),
		of("compare", "execution.compare", "Compare the steps of two executions.", (*call).compare),
		of("replay", "execution.get", "Show what would have come of an execution that has ended with another definition. Nothing is run.", (*call).replay),
		of("backtest", "execution.list", "Show which past executions of a pipeline another definition would have changed. Nothing is run.", (*call).backtest),
		of("start_execution", "execution.start", "Start an execution of a stored pipeline. The first call tells what would run and gives a token; with it as confirm, the second call starts.", (*call).start),
		of("retry", "execution.retry", "Start an execution anew that has ended, keeping what completed. The first call tells what would run again and gives a token for the second.", (*call).retry),
		of("restart", "execution.restart", "Run a step of an execution and all after it again, in place. The first call tells what would run again and gives a token for the second.", (*call).restart),
		of("cancel", "execution.cancel", "Stop an execution. The first call tells which one and gives a token for the second.", (*call).cancel),
		of("write_pipeline", "pipeline.update", "Store a pipeline, or the next version of one. The first call tells what would change, what is wrong and what the tests say, and gives a token for the second.", (*call).write),
	}
})

// of makes a tool that comes to an operation of the API, whose role and effects are its own.
func of[A any](name, operation, about string, do func(k *call, ctx context.Context, args *A) (*reply, error)) *tool {
	op, known := api.OperationOf(operation)
	if !known {
		panic("mcpapi: there is no operation " + operation)
	}
	form := formOf(reflect.TypeFor[A]())
	closed, destroys := false, op.Changes && !op.Creates
	t := &tool{role: op.Role, Tool: mcp.Tool{Name: name, Title: strings.ReplaceAll(name, "_", " "), Description: about, InputSchema: form.text,
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: !op.Changes, DestructiveHint: &destroys, IdempotentHint: !op.Changes, OpenWorldHint: &closed}}}
	t.do = func(ctx context.Context, k *call, text json.RawMessage) (*reply, error) {
		args := new(A)
		if err := form.read(text, args); err != nil {
			return nil, err
		}
		return do(k, ctx, args)
	}
	return t
}

// form is the schema of arguments.
type form struct {
	registry huma.Registry
	schema   *huma.Schema
	text     json.RawMessage
}

func formOf(t reflect.Type) *form {
	f := &form{registry: huma.NewMapRegistry("#/$defs/", huma.DefaultSchemaNamer)}
	f.schema = huma.SchemaFromType(f.registry, t)
	f.schema.PrecomputeMessages()
	f.text = raw(f.schema)
	return f
}

// read reads arguments. CodeInvalid names everything that is wrong with them.
func (f *form) read(text json.RawMessage, into any) error {
	if len(bytes.TrimSpace(text)) == 0 || string(bytes.TrimSpace(text)) == "null" {
		text = json.RawMessage("{}")
	}
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		return stepwell.Invalid("", "the arguments are not JSON: %v", err)
	}
	found := &huma.ValidateResult{}
	huma.Validate(f.registry, f.schema, huma.NewPathBuffer(nil, 0), huma.ModeWriteToServer, v, found)
	var wrong []string
	for _, err := range found.Errors {
		text := err.Error()
		if d, ok := err.(*huma.ErrorDetail); ok { //nolint:errorlint // what Validate adds
			text = d.Message
			if d.Location != "" {
				text = d.Location + ": " + text
			}
		}
		wrong = append(wrong, stepwell.Clip(text, 200))
	}
	if len(wrong) > 0 {
		return stepwell.Invalid("the tool's input schema says what it takes", "%s", stepwell.Clip(strings.Join(wrong, "; "), 1000))
	}
	return json.Unmarshal(text, into)
}
