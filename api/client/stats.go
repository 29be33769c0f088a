package client

import (
	"context"

	"github.com/stepwell/stepwell/api"
)

// Stats tells how executions ended, by hour or day.
func (c *Client) Stats(ctx context.Context, f api.AskStats) (*api.ExecutionStats, error) {
	return get[api.ExecutionStats](ctx, c, at("stats", "executions"), queryOf(f))
}
