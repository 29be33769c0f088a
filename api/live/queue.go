package live

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/stepwell/stepwell/pipelinerun"
)

// Queue serves the queue of pipeline runs as server-sent events: a snapshot first, then what changes. Comments keep a silent stream
// open. stopping ends streams; a client that comes back begins with a snapshot again.
func Queue(runs *pipelinerun.Runs, stopping <-chan struct{}, o Options) http.Handler {
	o = o.complete()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f, err := runs.FollowQueue()
		if err != nil {
			o.Fail(w, r, err)
			return
		}
		defer f.Close()
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("X-Accel-Buffering", "no") // for proxies that collect
		control := http.NewResponseController(w)
		if err := control.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return
		}
		ctx, stop := context.WithCancel(r.Context())
		defer stop()
		go func() { // ends with ctx
			select {
			case <-stopping:
				stop()
			case <-ctx.Done():
			}
		}()
		if sendWithin(w, control, nil, o.WriteTimeout) != nil { // the queue may be read in a moment only
			return
		}
		for {
			body, err := queueEvents(ctx, f, o.Ping)
			if err != nil || sendWithin(w, control, body, o.WriteTimeout) != nil {
				return // the client comes back
			}
		}
	})
}

// queueEvents waits for events, or for so long that a comment is due.
func queueEvents(ctx context.Context, f *pipelinerun.Follower, ping time.Duration) ([]byte, error) {
	wait, cancel := context.WithTimeout(ctx, ping)
	defer cancel()
	events, err := f.Next(wait)
	if err != nil {
		if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			return []byte(": still there\n\n"), nil
		}
		return nil, err
	}
	var b bytes.Buffer
	for i := range events {
		b.WriteString("event: " + events[i].Type + "\ndata: ")
		b.Write(events[i].Data)
		b.WriteString("\n\n")
	}
	return b.Bytes(), nil
}

// sendWithin sends a part of a stream, which a client has to take within a time.
func sendWithin(w http.ResponseWriter, control *http.ResponseController, body []byte, most time.Duration) error {
	if err := control.SetWriteDeadline(time.Now().Add(most)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := w.Write(body); err != nil {
		return err
	}
	return control.Flush()
}
