package main

import (
	"context"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/api/client"
	"github.com/stepwell/stepwell/rehearsal"
	"github.com/stepwell/stepwell/scenario"
)

// testFrom writes a test of an execution that has ended.
func (p *program) testFrom(c *connection, id string) error {
	actions, err := p.registry()
	if err != nil {
		return err
	}
	return p.calling(c, func(ctx context.Context, client *client.Client) error {
		args := []string{id}
		if err := c.newest.resolve(ctx, client, args); err != nil {
			return err
		}
		r, err := recorded(ctx, client, args[0], actions)
		if err != nil {
			return err
		}
		return r.WriteTest(p.out, actions)
	})
}

// recorded reads an execution.
func recorded(ctx context.Context, c *client.Client, id string, actions *action.Registry) (*scenario.Recording, error) {
	return rehearsal.Record(ctx, c, id, func(action string) bool {
		about, ok := actions.Spec(action)
		return ok && about.Stream != nil
	})
}
