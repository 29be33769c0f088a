package httpcall

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/stepwell/stepwell/action"
)

// callbackParams is the parameter callback.
type callbackParams struct {
	Timeout any `json:"timeout_seconds"`
}

// callbackHeader tells the service where to call back.
const callbackHeader = "X-Stepwell-Callback"

func (p *params) checkCallback() error {
	switch {
	case p.Poll != nil:
		return action.Invalid("leave one of them out", "callback stands beside poll")
	case len(p.outputs) > 0 || p.IncludeBody != nil || p.Path != "" || p.Spill != "":
		return action.Invalid("leave outputs, include_body, path and spill out: the step ends with what is called back", "callback has no use for the response")
	case len(p.header.Values(callbackHeader)) > 0:
		return action.Invalid("leave it out", "the header %s is set by callback", callbackHeader)
	}
	return nil
}

// runCallback sends the request and waits to be called back. Sent again, because its answer got lost or the
// process did, it has the same address and the same idempotency key.
func (h *httpHandler) runCallback(ctx context.Context, call *action.Call, p *params) (any, error) {
	key, url, err := call.Callback(ctx)
	if err != nil {
		return nil, fmt.Errorf("callback: %w", err)
	}
	p.header.Set(callbackHeader, url)
	a, err := p.exchange(ctx, call, h.client, key)
	if err != nil {
		return nil, err
	}
	call.Host.Log(slog.LevelInfo, "waiting to be called back", slog.Int("status", a.status))
	limit := 24 * time.Hour
	if p.Callback.Timeout != nil {
		if limit, err = duration(p.Callback.Timeout); err != nil || limit <= 0 {
			return nil, action.Invalid("write a number of seconds", "callback.timeout_seconds is not a duration")
		}
	}
	return nil, &action.WaitError{Until: time.Now().Add(limit), Await: true, Elsewhere: true, ExternalID: key}
}
