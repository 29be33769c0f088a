package api

import (
	"context"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api/live"
)

// live are the streams of an execution, which package live serves.
func (s *server) live() {
	o := live.Options{ID: func(r *http.Request) string { return strings.ToLower(r.PathValue("execution_id")) }, Fail: s.refuse, Origins: s.o.Origins}
	events, socket := live.Events(s.o.Feed, o), live.WebSocket(s.o.Feed, o)
	handle(s, "execution.events", func(_ context.Context, in *streamInput) (*streamed, error) {
		return &streamed{s.passOn(events)}, nil
	}, func(op *huma.Operation) {
		op.Description = "Each event's data is a message {type, seq, data}: a snapshot first, then log, status and progress, at the end complete. A status has step_id (null: the execution), status, message, hint, progress, retrying (a failed attempt is followed by another one) and until (when, if it is read before); progress has fraction, note and, of a step of a stream, items. Its id is the seq: a client that comes back with Last-Event-ID continues behind it. 204: it has everything."
		op.Responses["200"] = &huma.Response{Description: "The stream", Content: map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: "string"}}}}
		op.Responses["204"] = &huma.Response{Description: "The client has everything"}
	})
	handle(s, "execution.stream", func(ctx context.Context, in *streamInput) (*streamed, error) {
		if r := callOf(ctx).request; !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
			return nil, &Problem{Code: stepwell.CodeInvalid, Message: "this is a WebSocket", Hint: "the same as server-sent events: " + prefix + "/executions/{execution_id}/events", Details: []Detail{}, status: http.StatusUpgradeRequired}
		}
		return &streamed{s.passOn(socket)}, nil
	}, func(op *huma.Operation) {
		op.Description = "A WebSocket with the messages of /events, one for each text message. A client that comes back gives the last seq as since."
		op.Responses["101"] = &huma.Response{Description: "The WebSocket"}
		delete(op.Responses, "200")
	})
}

type streamInput struct {
	ExecutionPath
	Since string `query:"since" maxLength:"100" doc:"A seq: continue behind it. latest: only what is new. Defaults to everything from the beginning."`
	Level string `query:"level" maxLength:"10" doc:"Log lines of at least this level."`
	Step  string `query:"step_id" maxLength:"300"`
	Last  string `header:"Last-Event-ID" maxLength:"100"`
}
