package app

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/git"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/pipeline"
	"github.com/stepwell/stepwell/sandbox"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/trigger"
)

// maxRefused limits the entries of RefusedCommands.
const maxRefused = 100

// commandActions are the actions that run commands.
var commandActions = []string{"util.exec", git.Name}

// RefusedCommands are the stored pipelines, schedules, webhooks and event triggers whose commands a server with API
// keys refuses: the first step of each, with the reason and a cure, at most 100.
func (o *Options) RefusedCommands(ctx context.Context, objects store.Objects, policy access.Policy) ([]pipeline.Refused, error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	actions, err := Actions(*o)
	if err != nil {
		return nil, err
	}
	policies, err := access.NewPolicies(ctx, objects, policy)
	if err != nil {
		return nil, err
	}
	c := commands{exec: o.Exec, allow: func(author *definition.Author, name string) error { return allowed(policies, actions, author, name) }}
	c.box, c.refused = o.Sandbox()
	return c.stored(ctx, objects, actions)
}

// refusedCommands is RefusedCommands of a server that runs.
func (s *Server) refusedCommands(ctx context.Context) ([]pipeline.Refused, error) {
	c := commands{exec: s.o.Exec, allow: s.allow, box: s.confinement.box, refused: s.confinement.refused}
	return c.stored(ctx, s.Store, s.Actions)
}

// commands decides which commands run once there are keys.
type commands struct {
	exec    Exec
	allow   func(author *definition.Author, action string) error
	box     *sandbox.Sandbox
	refused error // why there is no box
}

func (c *commands) stored(ctx context.Context, objects store.Objects, actions *action.Registry) ([]pipeline.Refused, error) {
	check := func(author *definition.Author, step *definition.Step) error {
		if about, ok := actions.Spec(step.Action); !ok || !slices.Contains(commandActions, about.Name) {
			return nil
		}
		return c.check(author, step)
	}
	list, err := pipeline.RefusedSteps(ctx, objects, check, maxRefused)
	if err != nil {
		return nil, err
	}
	for _, kind := range []string{"schedule", "webhook", "event_trigger"} {
		for after := ""; len(list) < maxRefused; {
			page, err := objects.Objects(ctx, store.ObjectFilter{Kind: kind, After: after, Limit: 100})
			if err != nil {
				return nil, err
			}
			for i := range page {
				var body struct {
					Name     string          `json:"name"`
					Callback *trigger.Target `json:"callback"`
				}
				if err := json.Unmarshal(page[i].Body, &body); err != nil || body.Callback == nil || body.Callback.Action == "" {
					continue // it starts no action
				}
				author := &definition.Author{Role: body.Callback.Role, Name: body.Callback.Action}
				if author.Role == "" {
					author.Role = access.Editor.String()
				}
				if err := check(author, &definition.Step{Action: body.Callback.Action, Params: body.Callback.Params}); err != nil && len(list) < maxRefused {
					list = append(list, pipeline.Refused{Kind: kind, ID: page[i].ID, Name: body.Name, Err: err})
				}
			}
			if len(page) < 100 {
				break
			}
			after = page[len(page)-1].ID
		}
	}
	return list, nil
}

// check returns why a command is refused, as far as its definition shows.
func (c *commands) check(author *definition.Author, step *definition.Step) error {
	if err := c.allow(author, step.Action); err != nil {
		return err
	}
	if c.refused != nil {
		return c.refused
	}
	if dir, ok := step.Params["dir"].(string); ok && !strings.Contains(dir, "{{") {
		if err := c.box.Admits(dir); err != nil {
			return err
		}
	}
	names, _ := step.Params["pass_env"].([]any)
	for _, name := range names {
		if text, ok := name.(string); ok && !strings.Contains(text, "{{") && !slices.Contains(c.exec.PassEnv, text) {
			return &stepwell.Error{Code: stepwell.CodeDenied, Message: "commands may not see the server's variable " + text, Hint: fmt.Sprintf("in stepwell.yaml: exec: {pass_env: [%s]}", strings.Join(append(slices.Clone(c.exec.PassEnv), text), ", "))}
		}
	}
	return nil
}
