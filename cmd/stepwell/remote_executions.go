package main

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

func executionResource() *resource {
	return &resource{path: "executions", items: "executions", what: "execution",
		columns: []column{{"ID", "execution_id"}, {"PIPELINE", "pipeline"}, {"STATUS", "status"}, {"CREATED", "created_at"}, {"TRIGGER", "trigger_type"}, {"BY", "triggered_by"}, {"DONE", "progress.percentage"}}}
}

// elsewhere says whether a command of executions is meant for a server: --server or STEPWELL_SERVER name one.
func (p *program) elsewhere(c *connection) bool {
	v, _ := p.env("STEPWELL_SERVER")
	return c.server != "" || v != ""
}

// addServer adds --server to a command that works on a database without it.
func (c *connection) addServer(f *pflag.FlagSet, output *choice) {
	c.output = output
	f.StringVar(&c.server, "server", "", "`URL` of a server to ask instead of the database; else STEPWELL_SERVER")
}

// listThere lists a server's executions.
func (p *program) listThere(c *connection, query url.Values, most int) error {
	r := executionResource()
	return p.calling(c, func(ctx context.Context, api caller) error {
		rows, err := pages(ctx, api, pathTo("executions"), r.items, query, most)
		if err != nil {
			return err
		}
		if c.output.value == "json" {
			return writeJSON(p.out, rows)
		}
		if len(rows) == 0 {
			return p.answered(c, rows, "no executions")
		}
		return writeTable(p.out, r.columns, rows)
	})
}

// showThere shows an execution of a server.
func (p *program) showThere(c *connection, id string) error {
	return p.calling(c, func(ctx context.Context, api caller) error {
		var x object
		if err := api.Call(ctx, "GET", executionResource().at(id), nil, nil, &x); err != nil {
			return err
		}
		if c.output.value == "json" {
			return writeJSON(p.out, x)
		}
		steps, _ := x["steps"].([]any)
		delete(x, "steps")
		if err := p.showObject(x); err != nil || len(steps) == 0 {
			return err
		}
		var rows []object
		for _, s := range steps {
			if o, ok := s.(object); ok {
				o["items"] = itemsThere(o)
				rows = append(rows, o)
			}
		}
		if err := p.answered(c, nil, ""); err != nil {
			return err
		}
		return writeTable(p.out, []column{{"STEP", "step_id"}, {"STATUS", "status"}, {"ATTEMPT", "attempt"}, {"STARTED", "started_at"}, {"COMPLETED", "completed_at"}, {"ITEMS", "items"}, {"ERROR", "error.message"}}, rows)
	})
}

// itemsThere is what the counts of a server's stream step say; empty for other steps.
func itemsThere(step object) string {
	var c engine.Items
	raw, err := json.Marshal(step["items"])
	if err != nil || step["items"] == nil || json.Unmarshal(raw, &c) != nil {
		return ""
	}
	return countsText(&c)
}

// logsThere shows the log of a server's execution.
func (p *program) logsThere(c *connection, id string, f *logFlags) error {
	level := f.level.value
	if level == "debug" { // the lowest
		level = ""
	}
	if f.follow {
		_, err := p.followLogs(c, id, api.StreamOptions{Step: f.filter.StepKey, Level: level})
		return err
	}
	query := url.Values{}
	put := func(name, value string) {
		if value != "" {
			query.Set(name, value)
		}
	}
	put("step_id", f.filter.StepKey)
	put("level", level)
	if f.since > 0 {
		query.Set("since", time.Now().Add(-f.since).UTC().Format(time.RFC3339Nano))
	}
	if f.filter.Tail > 0 {
		query.Set("tail", strconv.Itoa(f.filter.Tail))
	}
	return p.calling(c, func(ctx context.Context, api caller) error { return p.logPagesThere(ctx, api, c, id, query) })
}

// changeThere cancels, pauses or resumes an execution of a server.
func (p *program) changeThere(c *connection, id, verb string, body object) error {
	return p.calling(c, func(ctx context.Context, api caller) error {
		var answer object
		if err := api.Call(ctx, "POST", executionResource().at(id, verb), nil, body, &answer); err != nil {
			return err
		}
		if other, ok := answer["execution_id"].(string); ok && verb == "retry" {
			return p.answered(c, answer, "execution %s is %s", other, cell(answer["status"]))
		}
		return p.answered(c, answer, "the execution is %s", cell(answer["status"]))
	})
}

func (p *program) newWhyCommand() *cobra.Command {
	var c connection
	var step string
	cmd := &cobra.Command{
		Use:   "why ID",
		Short: "Says why an execution, or one of its steps, is in its state (asks a server)",
		Args:  arguments(1, 1, "ID"),
		RunE: func(_ *cobra.Command, args []string) error {
			query := url.Values{}
			if step != "" {
				query.Set("step_id", step)
			}
			return p.calling(&c, func(ctx context.Context, api caller) error {
				var answer object
				if err := api.Call(ctx, "GET", executionResource().at(args[0], "why"), query, nil, &answer); err != nil {
					return err
				}
				if c.output.value == "json" {
					return writeJSON(p.out, answer)
				}
				reasons, _ := answer["reasons"].([]any)
				for _, reason := range reasons {
					if o, ok := reason.(object); ok {
						if err := p.answered(&c, nil, "%s", reasonLine(o)); err != nil {
							return err
						}
					}
				}
				return nil
			})
		},
	}
	c.add(cmd.Flags())
	cmd.Flags().StringVar(&step, "step", "", "the step with this `key`")
	return cmd
}

// reasonLine is a reason with the steps that it does not name itself: one that begins with "steps" speaks of all.
func reasonLine(reason object) string {
	text := longCell(reason["message"])
	var more []string
	steps, _ := reason["steps"].([]any)
	for _, step := range steps {
		if name := cell(step); strings.HasPrefix(text, "steps ") || !strings.Contains(text, name) {
			more = append(more, name)
		}
	}
	if len(more) == 0 {
		return text
	}
	return text + ": " + oneLine(strings.Join(more, ", "), 2000)
}

// logPagesThere writes what there is of a log.
func (p *program) logPagesThere(ctx context.Context, api caller, c *connection, id string, query url.Values) error {
	query.Set("limit", strconv.Itoa(page))
	for {
		var answer struct {
			Logs []store.LogLine `json:"logs"`
			Next string          `json:"next_cursor"`
		}
		if err := api.Call(ctx, "GET", executionResource().at(id, "logs"), query, nil, &answer); err != nil {
			return err
		}
		for i := range answer.Logs {
			if err := p.logLine(&answer.Logs[i], c.output.value); err != nil {
				return err
			}
		}
		if answer.Next == "" {
			return nil
		}
		query.Set("cursor", answer.Next)
	}
}

// previewThere shows what a retry or a restart would do.
func (p *program) previewThere(c *connection, id, verb string, query url.Values) error {
	return p.calling(c, func(ctx context.Context, server caller) error {
		var answer api.PreviewAnswer
		if err := server.Call(ctx, "GET", executionResource().at(id, verb, "preview"), query, nil, &answer); err != nil {
			return err
		}
		if c.output.value == "json" {
			return writeJSON(p.out, answer)
		}
		return p.foretell(&answer)
	})
}
