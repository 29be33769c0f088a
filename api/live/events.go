package live

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/stepwell/stepwell/feed"
)

// Events serves the stream of an execution as server-sent events: the id of an event is the message's seq, its name the
// type, its data the message. A reconnecting browser sends its position as Last-Event-ID. After the complete message it
// is answered 204, so that it stays away. Comments keep a silent stream open.
func Events(h *feed.Hub, o Options) http.Handler {
	o = o.complete()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sub, err := o.subscribe(h, r, r.Header.Get("Last-Event-ID"))
		if err != nil {
			o.Fail(w, r, err)
			return
		}
		defer sub.Close()
		w.Header().Set("Cache-Control", "no-store")
		if sub.Done() {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("X-Accel-Buffering", "no") // for proxies that collect
		s := &events{w: w, control: http.NewResponseController(w), sub: sub, o: &o}
		if err := s.control.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return // the server's deadline is for requests; without a connection no answer is possible
		}
		s.serve(r.Context())
	})
}

// events is one client's stream.
type events struct {
	w       http.ResponseWriter
	control *http.ResponseController
	sub     *feed.Subscription
	o       *Options
	buf     []byte
}

func (s *events) serve(ctx context.Context) {
	for {
		wait, cancel := context.WithTimeout(ctx, s.o.Ping)
		messages, err := s.sub.Next(wait)
		cancel()
		s.buf = s.buf[:0]
		switch {
		case err == nil:
			s.write(messages)
		case errors.Is(err, io.EOF) || ctx.Err() != nil:
			return
		case errors.Is(err, context.DeadlineExceeded): // silence
			s.buf = append(s.buf, ": still there\n\n"...)
		default:
			return // the client comes back
		}
		if s.flush() != nil {
			return
		}
	}
}

func (s *events) write(messages []feed.Message) {
	for i := range messages {
		m := &messages[i]
		s.buf = append(s.buf, "id: "...)
		s.buf = append(s.buf, m.Cursor.String()...)
		s.buf = append(s.buf, "\nevent: "...)
		s.buf = append(s.buf, m.Type...)
		s.buf = append(s.buf, "\ndata: "...)
		s.buf = append(s.buf, m.Frame...)
		s.buf = append(s.buf, "\n\n"...)
	}
}

// flush sends the buffer, within the client's time limit.
func (s *events) flush() error {
	err := sendWithin(s.w, s.control, s.buf, s.o.WriteTimeout)
	if cap(s.buf) > 64<<10 {
		s.buf = nil
	}
	return err
}
