package dapr

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// WakeJob is the name of the Dapr job that is due when a schedule of the server is.
const WakeJob = "stepwell-wake"

const (
	wakePath  = "/v1.0-alpha1/jobs/" + WakeJob
	wakeEvery = 2 * time.Second
)

// KeepAwake keeps one Dapr job at the time that next says (zero: none), until ctx ends: what watches for it starts a server that was
// scaled to zero. The server itself needs no waking.
func (a *Adapter) KeepAwake(ctx context.Context, next func() time.Time) error {
	ticker := time.NewTicker(wakeEvery)
	defer ticker.Stop()
	var set time.Time
	known, away := false, false
	for {
		at := next().UTC().Truncate(time.Second)
		if !known || !at.Equal(set) {
			err := a.setWake(ctx, at)
			if err == nil {
				known, set = true, at
			}
			if err != nil && !away && ctx.Err() == nil {
				a.o.Log.WarnContext(ctx, "the Dapr job that wakes the server is not at the next time; it will be retried", "error", err)
			}
			away = err != nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// setWake puts the job to a time, or removes it.
func (a *Adapter) setWake(ctx context.Context, at time.Time) error {
	if at.Unix() <= 0 {
		got, err := a.sidecar.call(ctx, http.MethodDelete, wakePath, "", nil)
		if err != nil {
			return err
		}
		if got.status == http.StatusNotFound {
			return nil
		}
		return got.ok("to remove the job " + WakeJob)
	}
	// Without data the job could not be read back: daprd 1.16.0 answers 500.
	body, err := json.Marshal(map[string]any{"dueTime": at.Format(time.RFC3339), "overwrite": true, "data": "the next schedule"})
	if err != nil {
		return err
	}
	got, err := a.sidecar.call(ctx, http.MethodPost, wakePath, "application/json", body)
	if err != nil {
		return err
	}
	return got.ok("the job " + WakeJob)
}
