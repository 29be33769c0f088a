package live

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/stepwell/stepwell/progress"
	"github.com/stepwell/stepwell/store"
)

// projectPoll is how often a followed project is read.
const projectPoll = time.Second

// Projects say how far projects are; a progress.Tracker does.
type Projects interface {
	Read(ctx context.Context, project string) (progress.Progress, error)
	Event(ctx context.Context, project string) (*store.ProjectEvent, error)
}

// Project serves how far a project is as server-sent events: progress at once and when it has changed, at most once a second, with the
// status NOT_FOUND while there is none (progress.NotFound), and at the end job.completed, whose id is the event's. A client that comes back with it is answered 204. stopping ends streams.
func Project(of Projects, id string, stopping <-chan struct{}, o Options) http.Handler {
	o = o.complete()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		e, err := of.Event(r.Context(), id)
		if err == nil && e != nil && e.ID == r.Header.Get("Last-Event-ID") {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("X-Accel-Buffering", "no") // for proxies that collect
		s := projectEvents{Projects: of, o: &o, id: id, w: w, control: http.NewResponseController(w)}
		if err := s.control.SetReadDeadline(time.Time{}); err == nil || errors.Is(err, http.ErrNotSupported) {
			s.run(r.Context(), stopping)
		}
	})
}

// projectEvents is one client's stream.
type projectEvents struct {
	Projects
	o       *Options
	id      string
	w       http.ResponseWriter
	control *http.ResponseController
	last    []byte // what the client knows
	sent    time.Time
}

// run ends with the finish of the project, with the client or with the server.
func (s *projectEvents) run(ctx context.Context, stopping <-chan struct{}) {
	tick := time.NewTicker(projectPoll)
	defer tick.Stop()
	for {
		if done, err := s.tell(ctx); done || err != nil {
			return // the client comes back
		}
		select {
		case <-ctx.Done():
			return
		case <-stopping:
			return
		case <-tick.C:
		}
	}
}

// tell sends what has changed.
func (s *projectEvents) tell(ctx context.Context) (done bool, err error) {
	p, err := s.Read(ctx, s.id)
	if err != nil {
		return true, err
	}
	raw, err := json.Marshal(&p)
	switch {
	case err != nil:
		return true, err
	case !bytes.Equal(raw, s.last):
		s.last = raw
		err = s.send("progress", "", raw)
	case time.Since(s.sent) > s.o.Ping:
		err = s.write([]byte(": still there\n\n"))
	}
	if err != nil || p.Status != store.ProjectDone {
		return false, err
	}
	e, err := s.Event(ctx, s.id) // the state server may know of the finish a moment before the store
	if err != nil || e == nil {
		return false, err
	}
	if raw, err = json.Marshal(e); err != nil {
		return true, err
	}
	return true, s.send(store.JobCompleted, e.ID, raw)
}

func (s *projectEvents) send(name, id string, data []byte) error {
	var b bytes.Buffer
	if id != "" {
		b.WriteString("id: " + id + "\n")
	}
	b.WriteString("event: " + name + "\ndata: ")
	b.Write(data)
	b.WriteString("\n\n")
	return s.write(b.Bytes())
}

func (s *projectEvents) write(b []byte) error {
	s.sent = time.Now()
	return sendWithin(s.w, s.control, b, s.o.WriteTimeout)
}
