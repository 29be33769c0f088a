package api

import (
	"context"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/access"
	"github.com/stepwell/stepwell/trigger"
	"github.com/stepwell/stepwell/trigger/event"
)

// events are the operations on events and on what they start.
func (s *server) events() {
	handle(s, "event.receive", s.receiveEvent)
	handle(s, "event_trigger.create", s.createEventTrigger)
	handle(s, "event_trigger.list", s.listEventTriggers)
	handle(s, "event_trigger.get", s.getEventTrigger)
	handle(s, "event_trigger.update", s.updateEventTrigger)
	handle(s, "event_trigger.delete", s.deleteEventTrigger)
}

// Event is something that has happened.
type Event struct {
	ID     string    `json:"id,omitempty" maxLength:"200" doc:"Names this event: the same again changes nothing, other content is refused. Defaults to a new UUID."`
	Type   string    `json:"type" minLength:"1" maxLength:"255" example:"model.onboarded"`
	Source string    `json:"source,omitempty" maxLength:"255"`
	Key    string    `json:"key,omitempty" maxLength:"1000" doc:"That steps wait for (util.wait_for)."`
	Data   Object    `json:"data,omitempty"`
	Time   time.Time `json:"time,omitzero" doc:"When it happened. Defaults to now."`
}

// EventReceived is what an event has caused.
type EventReceived struct {
	ID      string         `json:"event_id"`
	Signal  string         `json:"signal" enum:",delivered,kept,repeated" doc:"What became of the key: delivered to a step that waited, kept for one that will, or repeated."`
	Started []EventStarted `json:"started" nullable:"false"`
}

// EventStarted is what a trigger, or a job, has made of an event.
type EventStarted struct {
	Trigger   string        `json:"trigger_id"`
	Execution Ref           `json:"execution_id"`
	Repeated  bool          `json:"repeated,omitempty" doc:"The execution was there already."`
	Code      stepwell.Code `json:"code,omitempty" doc:"Why there is none."`
	Message   string        `json:"message,omitempty"`
}

type receiveInput struct{ Body Event }

func (s *server) receiveEvent(ctx context.Context, in *receiveInput) (*answer[EventReceived], error) {
	b := &in.Body
	got, err := s.o.Events.Receive(ctx, event.Event{ID: b.ID, Type: b.Type, Source: b.Source, Key: b.Key, Data: trigger.Values(b.Data), Time: b.Time})
	if err != nil {
		return nil, err
	}
	callOf(ctx).object = got.ID
	var started []string
	for _, x := range got.Started {
		if x.Execution != "" && !x.Repeated && len(started) < maxDetails {
			started = append(started, x.Execution)
		}
	}
	if len(started) > 0 {
		callOf(ctx).note("started", started)
	}
	out := EventReceived{ID: got.ID, Signal: got.Signal, Started: make([]EventStarted, 0, len(got.Started))}
	for _, x := range got.Started {
		v := EventStarted{Trigger: x.Trigger, Execution: Ref(x.Execution), Repeated: x.Repeated, Code: x.Code, Message: s.text("", x.Message)}
		if _, known := statuses[x.Code]; !known && x.Code != "" {
			v.Message = "an internal error"
		}
		if x.Execution != "" && !x.Repeated {
			s.link(ctx, x.Execution)
		}
		out.Started = append(out.Started, v)
	}
	return reply(out, nil)
}

// NewEventTrigger is an event trigger to be made.
type NewEventTrigger struct {
	ID       string    `json:"trigger_id,omitempty" maxLength:"128" doc:"Defaults to a new UUID."`
	Name     string    `json:"name,omitempty" maxLength:"255"`
	About    string    `json:"description,omitempty" maxLength:"4000"`
	Type     string    `json:"event_type" minLength:"1" maxLength:"255" doc:"A pattern: * stands for any characters, ? for one." example:"model.*"`
	Filters  Object    `json:"filters,omitempty" doc:"Values by their path in the event's data, such as model.size; all have to be there."`
	Job      string    `json:"job_id,omitempty" maxLength:"255" doc:"The job that it starts, or else callback says what."`
	Callback *Callback `json:"callback,omitempty"`
	Enabled  *bool     `json:"enabled,omitempty" doc:"Defaults to true."`
}

// EventTrigger is an event trigger and what has become of it.
type EventTrigger struct {
	ID            string    `json:"trigger_id"`
	Name          string    `json:"name"`
	About         string    `json:"description"`
	Type          string    `json:"event_type"`
	Filters       Object    `json:"filters"`
	Job           Ref       `json:"job_id"`
	Callback      *Callback `json:"callback,omitempty"`
	Enabled       bool      `json:"enabled"`
	Count         int       `json:"trigger_count"`
	Last          Time      `json:"last_triggered_at"`
	LastExecution Ref       `json:"last_execution_id"`
	LastError     Ref       `json:"last_error"`
	CreatedBy     Ref       `json:"created_by"`
	Created       Time      `json:"created_at"`
	Updated       Time      `json:"updated_at"`
}

func (s *server) eventTriggerOf(t *event.Status) EventTrigger {
	return EventTrigger{ID: t.ID, Name: t.Name, About: t.Description, Type: t.EventType, Filters: s.shownObject(Object(t.Filters)), Job: Ref(t.Job), Callback: s.callbackOf(t.Callback),
		Enabled: t.Enabled == nil || *t.Enabled, Count: t.Count, Last: Time{t.LastTriggered}, LastExecution: Ref(t.LastExecution), LastError: Ref(s.text("", t.LastError)),
		CreatedBy: Ref(t.CreatedBy), Created: Time{t.Created}, Updated: Time{t.Updated}}
}

type createEventTriggerInput struct{ Body NewEventTrigger }

func (s *server) createEventTrigger(ctx context.Context, in *createEventTriggerInput) (*made[EventTrigger], error) {
	b := &in.Body
	starts, err := s.callbackIn(ctx, b.Callback, nil)
	if err != nil {
		return nil, err
	}
	filters, err := s.written("filters", b.Filters, nil)
	if err != nil {
		return nil, err
	}
	got, err := s.o.Events.Create(ctx, event.Trigger{ID: b.ID, Name: b.Name, Description: b.About, EventType: b.Type, Filters: trigger.Values(filters), Job: b.Job,
		Callback: starts, Enabled: b.Enabled}, access.Of(ctx).Actor())
	if err != nil {
		return nil, err
	}
	callOf(ctx).object = got.ID
	return &made[EventTrigger]{Status: statusOf(true), Location: prefix + "/event-triggers/" + got.ID, ETag: etag(got.Revision), Body: s.eventTriggerOf(got)}, nil
}

// EventTriggerList is a page of event triggers.
type EventTriggerList struct {
	Triggers []EventTrigger `json:"event_triggers" nullable:"false"`
	Next     string         `json:"next_cursor,omitempty"`
}

// ListEventTriggers selects event triggers.
type ListEventTriggers struct {
	Job    string `query:"job_id" maxLength:"128"`
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"50"`
	Cursor string `query:"cursor" maxLength:"600"`
}

func (s *server) listEventTriggers(_ context.Context, in *ListEventTriggers) (*answer[EventTriggerList], error) {
	after, err := cursorOf("event_triggers", in.Cursor)
	if err != nil {
		return nil, err
	}
	rows, next := page(s.o.Events.List(event.Filter{Job: in.Job, After: after, Limit: in.Limit + 1}), in.Limit, func(t *event.Status) string { return t.ID })
	out := EventTriggerList{Triggers: make([]EventTrigger, 0, len(rows)), Next: cursorTo("event_triggers", next)}
	for i := range rows {
		out.Triggers = append(out.Triggers, s.eventTriggerOf(&rows[i]))
	}
	return reply(out, nil)
}

// EventTriggerPath is the parameter of operations on one.
type EventTriggerPath struct {
	ID string `path:"trigger_id" maxLength:"255" doc:"Its id, or its name."`
}

type getEventTriggerInput struct {
	EventTriggerPath
	IfNoneMatch string `header:"If-None-Match" maxLength:"2000"`
}

func (s *server) getEventTrigger(_ context.Context, in *getEventTriggerInput) (*tagged[EventTrigger], error) {
	t, err := s.o.Events.Trigger(in.ID)
	if err != nil {
		return nil, err
	}
	if unchanged(in.IfNoneMatch, t.Revision) {
		return nil, notModified(t.Revision)
	}
	return &tagged[EventTrigger]{etag(t.Revision), s.eventTriggerOf(t)}, nil
}

// EventTriggerChange is a change of an event trigger. What is left out stays as it is.
type EventTriggerChange struct {
	Name     *string   `json:"name,omitempty" maxLength:"255"`
	About    *string   `json:"description,omitempty" maxLength:"4000"`
	Type     *string   `json:"event_type,omitempty" minLength:"1" maxLength:"255"`
	Filters  Object    `json:"filters,omitzero"`
	Job      *string   `json:"job_id,omitempty" maxLength:"255" doc:"Takes the place of callback."`
	Callback *Callback `json:"callback,omitempty" doc:"Takes the place of job_id. What it leaves out stays as it was while it starts the same."`
	Enabled  *bool     `json:"enabled,omitempty"`
}

// changeEventTrigger changes what is given.
func (s *server) changeEventTrigger(ctx context.Context, t *event.Trigger, c *EventTriggerChange) error {
	starts, err := s.callbackIn(ctx, c.Callback, t.Callback)
	if err != nil {
		return err
	}
	filters, err := s.written("filters", c.Filters, Object(t.Filters))
	if err != nil {
		return err
	}
	set(&t.Name, c.Name)
	set(&t.Description, c.About)
	set(&t.EventType, c.Type)
	switch {
	case c.Job != nil:
		t.Job, t.Callback = *c.Job, starts
	case c.Callback != nil:
		t.Job, t.Callback = "", starts
	}
	if c.Enabled != nil {
		t.Enabled = c.Enabled
	}
	if c.Filters != nil {
		t.Filters = trigger.Values(filters)
	}
	return nil
}

type updateEventTriggerInput struct {
	EventTriggerPath
	IfMatch string `header:"If-Match" maxLength:"2000"`
	Body    EventTriggerChange
}

func (s *server) updateEventTrigger(ctx context.Context, in *updateEventTriggerInput) (*tagged[EventTrigger], error) {
	t, err := s.o.Events.Trigger(in.ID)
	if err != nil {
		return nil, err
	}
	callOf(ctx).object = t.ID
	t, err = change(in.IfMatch, t, func(t *event.Status) int64 { return t.Revision }, func(revision int64) (*event.Status, error) {
		return s.o.Events.Update(ctx, t.ID, revision, func(t *event.Trigger) error { return s.changeEventTrigger(ctx, t, &in.Body) })
	}, func() (*event.Status, error) { return s.o.Events.Trigger(t.ID) })
	if err != nil {
		return nil, err
	}
	return &tagged[EventTrigger]{etag(t.Revision), s.eventTriggerOf(t)}, nil
}

type deleteEventTriggerInput struct {
	EventTriggerPath
	IfMatch string `header:"If-Match" maxLength:"2000"`
}

func (s *server) deleteEventTrigger(ctx context.Context, in *deleteEventTriggerInput) (*struct{}, error) {
	t, err := s.o.Events.Trigger(in.ID)
	if err != nil {
		return nil, err
	}
	callOf(ctx).object = t.ID
	return remove(in.IfMatch, t.Revision, func(revision int64) error { return s.o.Events.Delete(ctx, t.ID, revision) })
}
