package httpcall

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/stepwell/stepwell/action"
)

// callbackParams is the parameter callback.
type callbackParams struct {
	Timeout float64 `json:"timeout_seconds" default:"86400" minimum:"0.001" maximum:"31536000" doc:"How long to wait for the callback."`
}

// callbackHeader holds the callback URL for the service.
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
	limit := cmp.Or(time.Duration(p.Callback.Timeout*float64(time.Second)), 24*time.Hour)
	return nil, &action.WaitError{Until: time.Now().Add(limit), Await: true, Elsewhere: true, ExternalID: key}
}
