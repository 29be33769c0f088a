// Package live serves the live stream of an execution (package feed) to browsers and other clients: over a
// WebSocket and as server-sent events. Both carry the same messages, {"type":…,"seq":…,"data":…}, and both go on
// behind the seq that a client gives when it comes back.
//
// Query parameters of both: since (a seq; "latest" for what is new; nothing for everything from the beginning), level
// (log lines of at least this level) and step_id.
package live

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/feed"
)

// Options configure the handlers.
type Options struct {
	// ID finds the execution's id, or a unique beginning of it, in a request. Defaults to the path value "id".
	ID func(*http.Request) string
	// Ping is how long a stream may be silent before the client is asked whether it is still there. Defaults to 20 seconds.
	Ping time.Duration
	// WriteTimeout is how long a client may not read before its connection is closed. Defaults to 10 seconds.
	WriteTimeout time.Duration
	// Origins are patterns of hosts from whose pages browsers may open a WebSocket. Defaults to the server's own host only.
	Origins []string
	// Deflate offers permessage-deflate to clients of a WebSocket, for a Source whose messages are compressed once for all of them.
	Deflate bool
	// Fail answers a request that cannot be served. Defaults to the error as JSON, with a status that fits its code.
	Fail func(http.ResponseWriter, *http.Request, error)
}

func (o Options) complete() Options {
	if o.ID == nil {
		o.ID = func(r *http.Request) string { return r.PathValue("id") }
	}
	if o.Ping <= 0 {
		o.Ping = 20 * time.Second
	}
	if o.WriteTimeout <= 0 {
		o.WriteTimeout = 10 * time.Second
	}
	if o.Fail == nil {
		o.Fail = fail
	}
	return o
}

// subscribe starts the requested subscription.
func (o *Options) subscribe(h *feed.Hub, r *http.Request, since string) (*feed.Subscription, error) {
	q := r.URL.Query()
	if since == "" {
		since = q.Get("since")
	}
	return h.Subscribe(r.Context(), o.ID(r), since, feed.Filter{Level: q.Get("level"), StepID: q.Get("step_id")})
}

// statuses are those of errors that the feed gives; others are faults of ours.
var statuses = map[stepwell.Code]int{stepwell.CodeInvalid: http.StatusBadRequest, stepwell.CodeNotFound: http.StatusNotFound,
	stepwell.CodeConflict: http.StatusConflict, stepwell.CodeLimit: http.StatusTooManyRequests, stepwell.CodeUnavailable: http.StatusServiceUnavailable}

func fail(w http.ResponseWriter, _ *http.Request, err error) {
	code := stepwell.CodeOf(err)
	status, ok := statuses[code]
	answer := stepwell.Error{Code: code, Message: err.Error(), Hint: stepwell.HintOf(err)}
	if !ok {
		status, answer = http.StatusInternalServerError, stepwell.Error{Code: stepwell.CodeInternal, Message: "the stream cannot be opened"}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(&answer) // a client that has gone misses nothing
}
