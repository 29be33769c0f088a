package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/stepwell/stepwell/progress"
	"github.com/stepwell/stepwell/store"
)

const (
	projectPoll    = time.Second      // how often a followed project is read
	projectSilence = 20 * time.Second // after which a stream says that it is still there
	projectWrite   = 10 * time.Second // how long a client may not read
)

type followInput struct {
	Last string `header:"Last-Event-ID" maxLength:"100"`
}

// described is the description of the stream of a project.
func (k *projects) described(op *huma.Operation) {
	op.Description = "The event progress has how far the project is, at once and when that has changed, at most once a second. job.completed {event_id, timestamp, payload} ends the stream; its id is the event_id. 204: a client that comes back with it has everything."
	op.Responses["200"] = &huma.Response{Description: "The stream", Content: map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: "string"}}}}
	op.Responses["204"] = &huma.Response{Description: "The client has everything"}
}

// follow streams how far a project is.
func (k *projects) follow(ctx context.Context, in *followInput) (*streamed, error) {
	id, err := k.nameIn(ctx, "project_id")
	if err == nil {
		err = k.list.Check(ctx, id)
	}
	if err != nil {
		return nil, err
	}
	return &streamed{k.passOn(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		e, err := k.list.Event(r.Context(), id)
		if err == nil && e != nil && e.ID == in.Last {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("X-Accel-Buffering", "no") // for proxies that collect
		f := projectStream{projects: k, id: id, w: w, control: http.NewResponseController(w)}
		if err := f.control.SetReadDeadline(time.Time{}); err == nil || errors.Is(err, http.ErrNotSupported) {
			f.run(r.Context())
		}
	}))}, nil
}

// projectStream is one client's stream.
type projectStream struct {
	*projects
	id      string
	w       http.ResponseWriter
	control *http.ResponseController
	last    []byte // what the client knows
	sent    time.Time
}

// run ends with the finish of the project, with the client or with the server.
func (f *projectStream) run(ctx context.Context) {
	tick := time.NewTicker(projectPoll)
	defer tick.Stop()
	for {
		if done, err := f.tell(ctx); done || err != nil {
			return // the client comes back
		}
		select {
		case <-ctx.Done():
			return
		case <-f.o.Stopping:
			return
		case <-tick.C:
		}
	}
}

// tell sends what has changed.
func (f *projectStream) tell(ctx context.Context) (done bool, err error) {
	p, err := f.list.Read(ctx, f.id)
	if err != nil || p.Status == progress.NotFound {
		return true, err
	}
	raw, err := json.Marshal(&p)
	switch {
	case err != nil:
		return true, err
	case !bytes.Equal(raw, f.last):
		f.last = raw
		err = f.send("progress", "", raw)
	case time.Since(f.sent) > projectSilence:
		err = f.write([]byte(": still there\n\n"))
	}
	if err != nil || p.Status != store.ProjectDone {
		return false, err
	}
	e, err := f.list.Event(ctx, f.id) // the state server may know of the finish a moment before the store
	if err != nil || e == nil {
		return false, err
	}
	if raw, err = json.Marshal(e); err != nil {
		return true, err
	}
	return true, f.send(store.JobCompleted, e.ID, raw)
}

func (f *projectStream) send(name, id string, data []byte) error {
	var b bytes.Buffer
	if id != "" {
		b.WriteString("id: " + id + "\n")
	}
	b.WriteString("event: " + name + "\ndata: ")
	b.Write(data)
	b.WriteString("\n\n")
	return f.write(b.Bytes())
}

func (f *projectStream) write(b []byte) error {
	f.sent = time.Now()
	if err := f.control.SetWriteDeadline(f.sent.Add(projectWrite)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := f.w.Write(b); err != nil {
		return err
	}
	return f.control.Flush()
}
