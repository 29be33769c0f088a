package rehearsal

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/api/client"
	"github.com/stepwell/stepwell/scenario"
)

// Record reads an execution that has ended. streams says of an action whether it is a stream's module.
func Record(ctx context.Context, c *client.Client, id string, streams func(action string) bool) (*scenario.Recording, error) {
	x, err := c.Execution(ctx, id)
	if err != nil {
		return nil, err
	}
	r := &scenario.Recording{ID: x.ID, Pipeline: x.Pipeline, File: x.Pipeline + ".yaml", Status: x.Status, Created: x.Created.Time, Started: x.Started.Time, Ended: x.Completed.Time, Priority: x.Priority,
		Params: x.Params, Outputs: x.Result}
	at := map[string]int{}
	for filter := (api.ListSteps{ExecutionPath: api.ExecutionPath{ID: x.ID}, Outputs: true, Limit: 1000}); ; {
		page, err := c.Steps(ctx, filter)
		if err != nil {
			return nil, err
		}
		for i := range page.Steps {
			s := &page.Steps[i]
			at[s.ID] = len(r.Steps)
			one := scenario.RecordedStep{Key: s.ID, Action: s.Action, Status: s.Status, Attempts: s.Attempt, Params: s.Params, Outputs: s.Outputs,
				Queued: s.Queued.Time, Started: s.Started.Time, Ended: s.Completed.Time, Items: s.Items != nil || streams(s.Action), Cost: int64(s.Cost)}
			if s.Error != nil {
				one.Code, one.Error = string(s.Error.Code), s.Error.Message
			}
			r.Steps = append(r.Steps, one)
		}
		if filter.Cursor = page.Next; page.Next == "" {
			return r, addHistory(ctx, c, r, at)
		}
	}
}

// Size is about how many bytes a recorded execution has.
func (r *Recorded) Size() int {
	n := len(r.Definition)
	for i := range r.Recording.Steps {
		n += sizeOf(&r.Recording.Steps[i])
	}
	return n
}

func sizeOf(s *scenario.RecordedStep) int {
	return len(s.Key) + len(s.Params) + len(s.Outputs) + len(s.Error)
}

// addHistory adds what only the history says: attempts that failed, spawned steps, a cancel.
func addHistory(ctx context.Context, c *client.Client, r *scenario.Recording, at map[string]int) error {
	began := map[string]time.Time{}
	for cursor := ""; ; {
		page, err := c.History(ctx, api.ListHistory{ExecutionPath: api.ExecutionPath{ID: r.ID}, Limit: 1000, Cursor: cursor})
		if err != nil {
			return err
		}
		for _, e := range page.Events {
			now := e.At.Time
			i, known := at[e.Step]
			switch {
			case e.Type == "cancel":
				r.Cancelled, r.CancelledAt = cmp.Or(e.Detail, "cancelled"), now
			case !known:
			case e.Type == "waiting":
				r.Steps[i].Waited = true
			case e.Type == "started":
				began[e.Step] = now
			case (e.Type == "failed" || e.Type == "lost") && len(r.Steps[i].Tries) < r.Steps[i].Attempts-1:
				r.Steps[i].Tries = append(r.Steps[i].Tries, scenario.Try{Error: e.Detail, Took: now.Sub(began[e.Step]), Lost: e.Type == "lost"})
			case e.Type == "spawned":
				r.Steps[i].Spawned = append(r.Steps[i].Spawned, strings.Split(e.Detail, ", ")...)
			}
		}
		if cursor = page.Next; cursor == "" {
			return nil
		}
	}
}
