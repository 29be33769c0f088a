package live

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/stepwell/stepwell/feed"
)

// Board serves what changes in lists as server-sent events: hello first, whose data hello makes, then a message for each kind and
// 250 ms at most. A client that comes back with Last-Event-ID goes on behind it. Comments keep a silent stream open.
func Board(b *feed.Board, hello func(resumed bool) any, o Options) http.Handler {
	o = o.complete()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		since := r.Header.Get("Last-Event-ID")
		if since == "" {
			since = r.URL.Query().Get("since")
		}
		f, err := b.Follow(since)
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
		for {
			wait, cancel := context.WithTimeout(r.Context(), o.Ping)
			body, err := f.Next(wait, hello)
			cancel()
			if err != nil && r.Context().Err() == nil && errors.Is(err, context.DeadlineExceeded) {
				body, err = []byte(": still there\n\n"), nil
			}
			if err != nil || sendWithin(w, control, body, o.WriteTimeout) != nil {
				return // the client comes back
			}
		}
	})
}
