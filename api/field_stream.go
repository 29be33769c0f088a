package api

import (
	"context"
	"net/http"
	"strings"

	"github.com/coder/websocket"
	"github.com/danielgtaylor/huma/v2"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api/columns"
	"github.com/stepwell/stepwell/api/live"
	"github.com/stepwell/stepwell/field"
)

// FollowField says where a stream of changes begins.
type FollowField struct {
	ExecutionPath
	Since int64 `query:"since" minimum:"0" doc:"The version in the header of /field, or of the last message: go on behind it. 0: the first message says again."`
}

func describeFieldStream(op *huma.Operation) {
	op.Description = "A WebSocket. Each binary message is a table in the format of /field with the columns index, status, attempt, start, duration and worker: the states, at the version in its header, of all steps that have changed since the message before. " +
		"The columns place_index, place_parent, place_layer, place_pos, place_degree and place_edges are the places of the steps that are new, or inside of which it has become known that they are: as in /field, for the steps of place_index. " +
		"Messages come every 100 ms while something changes, up to half a second apart where writing one to all who follow takes that long; a client that reads slowly gets what has changed meanwhile as one message. " +
		"They are compressed for clients that offer permessage-deflate, as browsers do. again in a header says that more has changed than 15,000 steps and than a fifth of them, or that times count anew: fetch /field, and go on with what comes behind its version. " +
		"A client that comes back gives the last version as since. The server closes normally when the execution has ended and the client has everything."
	op.Responses["101"] = &huma.Response{Description: "The WebSocket; its messages have the media type " + columns.MediaType}
	delete(op.Responses, "200")
}

func (f *fields) stream(ctx context.Context, in *FollowField) (*streamed, error) {
	if r := callOf(ctx).request; !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		return nil, &Problem{Code: stepwell.CodeInvalid, Message: "this is a WebSocket", Hint: "all columns at once: " + prefix + "/executions/{execution_id}/field", Details: []Detail{}, status: http.StatusUpgradeRequired}
	}
	x, err := f.find(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	open := func(r *http.Request) (live.Source, error) {
		follower, err := f.hub.Follow(r.Context(), x, in.Since)
		if err != nil {
			return nil, err
		}
		return pages{follower}, nil
	}
	return &streamed{f.passOn(live.Frames(open, websocket.MessageBinary, live.Options{Deflate: true, Fail: f.refuse, Origins: f.o.Origins}))}, nil
}

// pages is a follower as a Source.
type pages struct{ *field.Follower }

func (p pages) Next(ctx context.Context) ([]live.Message, error) {
	m, err := p.Follower.Next(ctx)
	if err != nil {
		return nil, err
	}
	return []live.Message{live.Message(*m)}, nil
}
