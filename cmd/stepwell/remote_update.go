package main

import (
	"context"
	"maps"

	"github.com/spf13/cobra"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/api/client"
	"github.com/stepwell/stepwell/view"
)

// updating makes a command that changes one of a resource. The API replaces what is inside `schedule` and `callback` as
// a whole, so what is there is read first, changed, and sent back on the condition that nobody else has changed it
// meanwhile.
func (p *program) updating(r *resource, short string, f bodied, id, line string) *cobra.Command {
	var cmd *cobra.Command
	send := func(ctx context.Context, q *request, body object, answer *object) error {
		if len(body) == 0 {
			return stepwell.Invalid("`"+cmd.CommandPath()+" --help` lists the flags", "no change is given")
		}
		return p.sendUpdate(ctx, q.client, r.at(q.args[0]), body, f, answer)
	}
	cmd = p.sendingBy("update ID", short, f, send, func(q *request, answer object) error {
		return p.shown(q.connection, answer, line, view.Cell(answer[id]))
	})
	return cmd
}

// sendUpdate sends a change of what is at the path.
func (p *program) sendUpdate(ctx context.Context, client *client.Client, path string, body object, f bodied, answer *object) error {
	var now object
	tag, err := client.CallIf(ctx, "GET", path, "", nil, &now)
	if err != nil {
		return err
	}
	merge(now, body, "schedule", "type")
	merge(now, body, "callback", "workflow_id", "action_type")
	if err := p.declareCallback(ctx, client, body, f); err != nil {
		return err
	}
	_, err = client.CallIf(ctx, "PUT", path, tag, body, answer)
	if stepwell.CodeOf(err) == api.CodePrecondition {
		return &stepwell.Error{Code: api.CodePrecondition, Message: "it was changed by another request meanwhile", Hint: "repeat the command: it works on the new state"}
	}
	return err
}

// merge fills a member of the change with what is there now. A change of one of the given keys makes it another thing:
// then only what fits any kind is kept.
func merge(now, body object, name string, kinds ...string) {
	given, ok := body[name].(object)
	old, was := now[name].(object)
	if !ok || !was {
		return
	}
	merged := maps.Clone(old)
	for _, kind := range kinds {
		if v, ok := given[kind]; ok && v != old[kind] {
			merged = object{}
			for _, keep := range []string{"timezone", "params", "priority", "project"} {
				if v, ok := old[keep]; ok {
					merged[keep] = v
				}
			}
		}
	}
	if params, ok := given["params"].(object); ok {
		if before, ok := merged["params"].(object); ok {
			both := maps.Clone(before)
			maps.Copy(both, params)
			given["params"] = both
		}
	}
	maps.Copy(merged, given)
	body[name] = merged
}
