package api

import (
	"context"

	"github.com/stepwell/stepwell/trigger/event"
)

// The shapes of events and of event triggers.
type (
	Event             = event.Event
	EventReceived     = event.Received
	EventStarted      = event.Started
	NewEventTrigger   = event.Trigger
	EventTrigger      = event.Status
	EventTriggerList  = Page[EventTrigger]
	ListEventTriggers = event.Filter
)

// events are event triggers, and the events that set them off.
type events struct {
	*kindOf[event.Trigger, event.Trigger, event.Status, event.Status, event.Filter]
	*server
	router *event.Router
}

// Events serves event triggers, and takes events.
func Events(r *event.Router) Kind {
	return &events{router: r, kindOf: &kindOf[event.Trigger, event.Trigger, event.Status, event.Status, event.Filter]{Resource: r}}
}

func (e *events) serve(s *server) {
	e.server = s
	e.kindOf.serve(s)
	handle(s, "event.receive", e.receive)
	s.most["event.receive"] = int64(e.router.MaxBody())
}

func (e *events) receive(ctx context.Context, in *bodyInput[Event]) (*answer[EventReceived], error) {
	got, err := e.router.Receive(ctx, in.Body)
	if err != nil {
		return nil, err
	}
	callOf(ctx).object = got.ID
	var started []string
	for i := range got.Started {
		x := &got.Started[i]
		x.Message = e.text("", x.Message)
		if _, known := statuses[x.Code]; !known && x.Code != "" {
			x.Message = "an internal error"
		}
		if x.Execution == "" || x.Repeated {
			continue
		}
		e.link(ctx, string(x.Execution))
		if len(started) < maxDetails {
			started = append(started, string(x.Execution))
		}
	}
	if len(started) > 0 {
		callOf(ctx).note("started", started)
	}
	return reply(*got, nil)
}
