package mcpapi

import (
	"context"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
)

// about is a line about an action or module.
type about struct {
	Name    string `json:"name"`
	Kind    string `json:"kind"`
	Summary string `json:"summary"`
	Twice   bool   `json:"may_run_twice"`
}

type listActionsArgs struct {
	Query  string `json:"query,omitempty" maxLength:"100" doc:"Only those with this text in their name or summary."`
	Cursor string `json:"cursor,omitempty" maxLength:"1000"`
}

func (k *call) listActions(ctx context.Context, a *listActionsArgs) (*reply, error) {
	return page(a.Cursor, "actions", func(string) (any, error) {
		actions, err := k.Actions(ctx)
		if err != nil {
			return nil, err
		}
		modules, err := k.Modules(ctx)
		if err != nil {
			return nil, err
		}
		list := []about{}
		for _, x := range append(actions.Actions, modules.Modules...) {
			if q := strings.ToLower(a.Query); !strings.Contains(strings.ToLower(x.Type+" "+x.Summary), q) {
				continue
			}
			kind := "action"
			if x.Role != "" {
				kind = x.Role + " of item streams"
			}
			list = append(list, about{x.Type, kind, x.Summary, x.Idempotent})
		}
		return map[string]any{"actions": list}, nil
	})
}

type describeActionArgs struct {
	Name string `json:"name" minLength:"1" maxLength:"200" doc:"Of the action or the module, such as util.http."`
}

func (k *call) describeAction(ctx context.Context, a *describeActionArgs) (*reply, error) {
	x, err := k.Action(ctx, a.Name)
	if stepwell.CodeOf(err) == stepwell.CodeNotFound {
		if m, e := k.Module(ctx, a.Name); e == nil {
			x, err = m, nil
		}
	}
	if err != nil {
		return nil, err
	}
	x.Schema = nil // it says what the parameters say
	return &reply{data: x}, nil
}

type listExecutionsArgs struct {
	Pipeline string    `json:"pipeline,omitempty" maxLength:"255" doc:"Name of the pipeline."`
	Status   []string  `json:"status,omitempty" maxItems:"20" nullable:"false" doc:"Any of pending, running, paused, cancelling, completed, completed_with_failures, failed, cancelled, timed_out."`
	From     time.Time `json:"from,omitempty" doc:"Created at this time or later."`
	To       time.Time `json:"to,omitempty" doc:"Created before this time."`
	Limit    int       `json:"limit,omitempty" minimum:"1" maximum:"200" doc:"Defaults to 20."`
	Cursor   string    `json:"cursor,omitempty" maxLength:"1000"`
}

func (k *call) listExecutions(ctx context.Context, a *listExecutionsArgs) (*reply, error) {
	return page(a.Cursor, "executions", func(cursor string) (any, error) {
		f := api.ListExecutions{Status: a.Status, Limit: a.Limit, Cursor: cursor}
		f.Pipeline, f.From, f.To = a.Pipeline, a.From, a.To
		if f.Limit == 0 {
			f.Limit = 20
		}
		return k.Executions(ctx, f)
	})
}

type showExecutionArgs struct {
	Execution string   `json:"execution" minLength:"1" maxLength:"36" doc:"Its id, or the beginning of it."`
	Step      string   `json:"step,omitempty" maxLength:"300" doc:"Only the step with this key."`
	Status    []string `json:"step_status,omitempty" maxItems:"20" nullable:"false" doc:"Only steps in one of these states, such as failed."`
	Outputs   bool     `json:"outputs,omitempty" doc:"With parameters and outputs of the steps."`
	Cursor    string   `json:"cursor,omitempty" maxLength:"1000"`
}

func (k *call) showExecution(ctx context.Context, a *showExecutionArgs) (*reply, error) {
	return page(a.Cursor, "steps", func(cursor string) (any, error) {
		steps, err := k.Steps(ctx, api.ListSteps{ExecutionPath: api.ExecutionPath{ID: a.Execution}, Step: a.Step, Status: a.Status, Outputs: a.Outputs, Limit: 100, Cursor: cursor})
		if err != nil {
			return nil, err
		}
		out := map[string]any{"steps": steps.Steps, "next_cursor": steps.Next}
		if a.Cursor == "" {
			x, err := k.Execution(ctx, a.Execution)
			if err != nil {
				return nil, err
			}
			x.Steps, x.MoreSteps = nil, ""
			out["execution"] = fit(cleaned(x), maxRow)
		}
		return out, nil
	})
}

type whyArgs struct {
	Execution string    `json:"execution" minLength:"1" maxLength:"36" doc:"Its id, or the beginning of it."`
	Step      string    `json:"step,omitempty" maxLength:"300" doc:"Key of the step. Defaults to the execution itself."`
	At        time.Time `json:"at,omitempty" doc:"A moment in the past. Defaults to now."`
	Version   int64     `json:"version,omitempty" minimum:"0" doc:"The state after this commit, instead of at."`
	WhatIf    string    `json:"what_if,omitempty" maxLength:"20000" doc:"Tell instead what would come of this, and do nothing: restart STEP [failed-only], retry [STEP], cancel, pause, resume; and of a step that is queued, running or waits for an answer: fail STEP [permanently], complete STEP [OUTPUTS, a JSON object], skip STEP, lose STEP."`
}

func (k *call) why(ctx context.Context, a *whyArgs) (*reply, error) {
	if a.WhatIf != "" {
		got, err := k.WhatIf(ctx, a.Execution, a.WhatIf, a.Version, a.At)
		if err != nil {
			return nil, err
		}
		return &reply{data: got}, nil
	}
	got, err := k.WhyAt(ctx, a.Execution, a.Step, a.Version, a.At)
	if err != nil {
		return nil, err
	}
	return &reply{data: got}, nil
}

type logsArgs struct {
	Execution string `json:"execution" minLength:"1" maxLength:"36" doc:"Its id, or the beginning of it."`
	Step      string `json:"step,omitempty" maxLength:"300" doc:"Only lines of the step with this key."`
	Level     string `json:"level,omitempty" enum:"debug,info,warning,error" doc:"At least this level."`
	Query     string `json:"query,omitempty" maxLength:"500" doc:"Only lines with this text."`
	Tail      int    `json:"tail,omitempty" minimum:"1" maximum:"1000" doc:"Only the last lines."`
	Cursor    string `json:"cursor,omitempty" maxLength:"1000"`
}

func (k *call) logs(ctx context.Context, a *logsArgs) (*reply, error) {
	return page(a.Cursor, "logs", func(cursor string) (any, error) {
		f := api.ListLogs{ExecutionPath: api.ExecutionPath{ID: a.Execution}, Step: a.Step, Level: a.Level, Query: a.Query, Limit: 200, Cursor: cursor}
		if cursor == "" {
			f.Tail = a.Tail
		}
		if a.Tail > 0 && cursor == "" {
			f.Limit = a.Tail
		}
		return k.Logs(ctx, f)
	})
}

type compareArgs struct {
	Execution string `json:"execution" minLength:"1" maxLength:"36" doc:"Its id, or the beginning of it."`
	Other     string `json:"other" minLength:"1" maxLength:"36" doc:"The execution to compare it with."`
	All       bool   `json:"all,omitempty" doc:"Also steps whose status and attempts are the same."`
	Cursor    string `json:"cursor,omitempty" maxLength:"1000"`
}

func (k *call) compare(ctx context.Context, a *compareArgs) (*reply, error) {
	return page(a.Cursor, "steps", func(cursor string) (any, error) {
		return k.Compare(ctx, api.CompareExecutions{ExecutionPath: api.ExecutionPath{ID: a.Execution}, Other: a.Other, All: a.All, Limit: 100, Cursor: cursor})
	})
}
