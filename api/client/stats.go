package client

import (
	"context"

	"github.com/stepwell/stepwell/api"
)

// Stats tells how executions ended, by hour or day.
func (c *Client) Stats(ctx context.Context, f api.AskStats) (*api.ExecutionStats, error) {
	return get[api.ExecutionStats](ctx, c, at("stats", "executions"), queryOf(f))
}

// Costs tells what executions have cost, and what of it retries cost.
func (c *Client) Costs(ctx context.Context, f api.AskCosts) (*api.Costs, error) {
	return get[api.Costs](ctx, c, at("stats", "costs"), queryOf(f))
}

// Promises tells how long executions with an SLA took and may take.
func (c *Client) Promises(ctx context.Context, f api.AskPromises) (*api.Promises, error) {
	return get[api.Promises](ctx, c, at("stats", "sla"), queryOf(f))
}
