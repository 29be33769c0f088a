package httpcall

import (
	"context"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/action/outbound"
)

// Answer is what Post was answered, without the secrets of the request.
type Answer struct {
	Body      any    // as the parameter response says
	RequestID string // by which the service names the request, "" for none
	Input     int64  // tokens
	Output    int64  // tokens
	Cached    int64  // tokens of Input
}

// Post sends the POST request that the parameters describe, which are those of util.http, for the actions of other
// packages: with its limits, its log line and its idempotency key. An error has been steered as the one of util.http.
func Post(ctx context.Context, call *action.Call, client *outbound.Client, values map[string]any) (*Answer, error) {
	p, problems := parse(values)
	if err := join(problems); err != nil {
		return nil, err
	}
	p.Method = "POST"
	if err := p.fitTotal(call.Deadline); err != nil {
		return nil, err
	}
	a, err := p.exchange(ctx, call, client, call.IdempotencyKey())
	if err != nil {
		return nil, err
	}
	u := usageOf(a.body)
	id, _ := a.metrics["request_id"].(string)
	return &Answer{Body: a.redact.Value(a.body), RequestID: id, Input: int64(u.input), Output: int64(u.output), Cached: int64(u.cached)}, nil
}
