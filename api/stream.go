package api

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api/live"
	"github.com/stepwell/stepwell/feed"
	"github.com/stepwell/stepwell/queue"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/store"
	"github.com/stepwell/stepwell/trigger"
)

// mostUnfinished is how many unfinished executions are compared with those of before, to find what other processes have changed.
const mostUnfinished = 500

// stream is what lists need to stay as new as the server.
func (s *server) stream() {
	if s.local == nil {
		s.o.Feed.Board().Serve(s.executionRow, feed.List{Kind: "executions", Read: s.executionRows}, feed.List{Kind: "approvals", Read: s.approvalRows, Drops: true},
			feed.List{Kind: "schedules", Read: s.scheduleRows, Drops: true}, feed.List{Kind: "workers", Read: s.workerRows, Drops: true},
			feed.List{Kind: "queues", Read: s.queueRows, Drops: true},
			feed.List{Kind: "projects", Read: s.projectRows, Drops: true})
	}
	handle(s, "stream", func(_ context.Context, _ *boardInput) (*streamed, error) {
		hello := func(resumed bool) any { return boardHello{Version: s.o.Version, Resumed: resumed} }
		return &streamed{s.passOn(live.Board(s.o.Feed.Board(), hello, live.Options{Fail: s.refuse}))}, nil
	}, func(op *huma.Operation) {
		op.Description = "Each event's data is a message {type, seq, data}. hello comes first, with data {version, resumed}: version is the server's; unless resumed is true, read the lists first. Then executions, approvals, schedules, workers, queues and projects, each at most four times a second, with data {rows, removed, reload}: rows are those of the lists that are new or have changed (of an execution that has not ended, duration_ms is null; of projects their progress, while they have not finished and change), removed the ids of those that have left the list, and with reload there were more: read the list again. The id of an event is its seq: a client that comes back with Last-Event-ID goes on behind it."
		op.Responses["200"] = &huma.Response{Description: "The stream", Content: map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: "string"}}}}
	})
}

type boardInput struct {
	Since string `query:"since" maxLength:"100" doc:"A seq: go on behind it."`
	Last  string `header:"Last-Event-ID" maxLength:"100"`
}

type boardHello struct {
	Version string `json:"version"`
	Resumed bool   `json:"resumed"`
}

// rowOf makes a row; same is what is compared, nil: all of it.
func rowOf(id string, shown, same any) feed.Row {
	r := feed.Row{ID: id}
	var err error
	if r.Data, err = json.Marshal(shown); err != nil { // the API's own shapes
		r.Data = json.RawMessage("null")
	}
	if same != nil {
		if r.Same, err = json.Marshal(same); err != nil {
			r.Same = nil
		}
	}
	return r
}

func (s *server) executionRow(x *store.Execution) feed.Row {
	shown := s.executionOf(x)
	if !x.Status.Terminal() {
		shown.DurationMS = nil // until now: it would change all the time
	}
	return rowOf(x.ID, shown, nil)
}

// executionRows are the newest executions, which may have ended meanwhile, and unfinished ones.
func (s *server) executionRows(ctx context.Context) ([]feed.Row, error) {
	var out []feed.Row
	seen := map[string]bool{}
	unfinished := []stepwell.ExecutionStatus{stepwell.ExecutionPending, stepwell.ExecutionRunning, stepwell.ExecutionPaused, stepwell.ExecutionCancelling}
	for _, f := range []store.Filter{{Limit: 100}, {Statuses: unfinished, Limit: mostUnfinished}} {
		rows, err := s.o.Store.Executions(ctx, f)
		if err != nil {
			return nil, err
		}
		if err := s.learn(ctx, rows); err != nil {
			return nil, err
		}
		for i := range rows {
			if !seen[rows[i].ID] {
				seen[rows[i].ID] = true
				out = append(out, s.executionRow(&rows[i]))
			}
		}
	}
	return out, nil
}

func (s *server) approvalRows(ctx context.Context) ([]feed.Row, error) {
	got, err := s.listApprovals(ctx, &ListApprovals{Limit: 200})
	if err != nil {
		return nil, err
	}
	var out []feed.Row
	for i := range got.Body.Approvals {
		out = append(out, rowOf(got.Body.Approvals[i].ID, &got.Body.Approvals[i], nil))
	}
	return out, nil
}

func (s *server) scheduleRows(ctx context.Context) ([]feed.Row, error) {
	list, err := s.o.Schedules.List(ctx, &trigger.Filter{Page: resource.Page{Limit: 500}})
	if err != nil {
		return nil, err
	}
	var out []feed.Row
	for i := range list {
		s.mask(&list[i])
		out = append(out, rowOf(list[i].ID, &list[i], nil))
	}
	return out, nil
}

// Which projects are told of.
const (
	mostMoving = 500
	movingFor  = 10 * time.Minute // since the last change
)

// projectRows are the progress of projects that have not finished. One that finishes, is deleted or rests leaves the list.
func (s *server) projectRows(ctx context.Context) ([]feed.Row, error) {
	if s.moving == nil {
		return nil, nil
	}
	list, err := s.moving(ctx, movingFor, mostMoving)
	if err != nil {
		return nil, err
	}
	var out []feed.Row
	for i := range list {
		out = append(out, rowOf(list[i].Project, list[i], nil))
	}
	return out, nil
}

func (s *server) workerRows(context.Context) ([]feed.Row, error) {
	var out []feed.Row
	for _, w := range slices.Clone(s.o.Workers.List()) {
		same := w
		same.Seen = Time{}
		out = append(out, rowOf(w.Name, w, same))
	}
	return out, nil
}

func (s *server) queueRows(context.Context) ([]feed.Row, error) {
	var out []feed.Row
	for _, q := range s.queues(queue.Look{}) {
		same := q
		same.Reasons = nil // how long a rate pauses changes all the time
		out = append(out, rowOf(q.Name, q, same))
	}
	return out, nil
}
