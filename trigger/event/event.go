// Package event starts executions when something has happened, and passes it on to the steps that wait for it
// (docs/semantics §4, source-systems B.9).
//
// An event has a type, such as model.onboarded, and data. Every enabled trigger whose pattern fits the type and whose
// filters fit the data starts an execution; so does every job of type event. With a key the event also ends the steps
// that wait for that key, now or later (util.wait_for). An event that comes again under the same id changes nothing.
// What happens to executions themselves comes as execution.ended and execution.breached from the store's outbox.
// Stability: experimental until version 1.
package event

import (
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/trigger"
)

// internal begins the types of events that Stepwell makes itself. They fit only patterns that begin so too.
const internal = "execution."

// Event is something that has happened.
type Event struct {
	ID     string          `json:"id,omitempty" maxLength:"200" doc:"Names this event: the same again changes nothing, other content is refused. Defaults to a new UUID."`
	Type   string          `json:"type" minLength:"1" maxLength:"255" example:"model.onboarded"`
	Source string          `json:"source,omitempty" maxLength:"255"`
	Key    string          `json:"key,omitempty" maxLength:"1000" doc:"That steps wait for (util.wait_for)."`
	Data   resource.Object `json:"data,omitempty"`
	Time   time.Time       `json:"time,omitzero" doc:"When it happened. Defaults to now."`
}

// Trigger is the user-written part of a trigger.
type Trigger struct {
	ID string `json:"trigger_id" required:"false" shown:"always" change:"never" maxLength:"128" doc:"Defaults to a new UUID."`
	trigger.Head
	EventType string `json:"event_type" minLength:"1" maxLength:"255" doc:"A pattern: * stands for any characters, ? for one." example:"model.*"`
	// Filters: a list stands for any of its elements.
	Filters   resource.Object `json:"filters,omitempty" shown:"always" doc:"Values by their path in the event's data, such as model.size or labels.0; all have to be there."`
	Condition string          `json:"condition,omitempty" maxLength:"4000" doc:"A condition about the event, by the rules of conditions of steps." example:"event.data.p99 > 200"`
}

// Texts are the free texts: they must not hold secrets.
func (t *Trigger) Texts() map[string]*resource.Object {
	return map[string]*resource.Object{"filters": &t.Filters}
}

// Status is a trigger and its last outcomes.
type Status struct {
	Trigger
	Filters resource.Object `json:"filters"`
	trigger.Counted
}

// Texts are those of the status.
func (s *Status) Texts() map[string]*resource.Object {
	return map[string]*resource.Object{"filters": &s.Filters}
}

// Identity is the id.
func (s *Status) Identity() string { return s.ID }

// Shown is the status itself: a new trigger is shown as any other.
func (s *Status) Shown() *Status { return s }

// record is a stored trigger.
type record struct {
	Trigger
	By string `json:"created_by,omitempty"`
}

type item = resource.Item[record]

// maxFilters bounds the filters of a trigger.
const maxFilters = 50

// check completes a trigger and validates it.
func (t *Trigger) check(jobs trigger.Jobs) error {
	if err := trigger.CheckID("trigger_id", t.ID); err != nil {
		return err
	}
	if err := resource.Check(t); err != nil {
		return err
	}
	if len(t.Filters) > maxFilters {
		return stepwell.Invalid("at most 50", "there are too many filters")
	}
	for path := range t.Filters {
		if path == "" || strings.HasPrefix(path, ".") || strings.HasSuffix(path, ".") || strings.Contains(path, "..") {
			return stepwell.Invalid("such as model.size", "filters: %q is not a path", stepwell.Clip(path, 80))
		}
	}
	if _, err := trigger.ParseCondition(t.Condition); err != nil {
		return err
	}
	return t.Head.Check("trigger", t.Filters, jobs)
}

// check bounds an event, but for its data.
func (e *Event) check() error {
	head := *e
	head.Data = nil
	if err := resource.Check(&head); err != nil {
		return err
	}
	control := func(r rune) bool { return r < ' ' || r == 0x7f }
	switch {
	case strings.ContainsFunc(e.Type, control) || strings.ContainsFunc(e.ID, control):
		return stepwell.Invalid("without control characters", "the type or the id of the event is not printable")
	case strings.HasPrefix(e.Type, internal):
		return stepwell.Invalid("choose another type", "events of type %s* are made by Stepwell itself", internal)
	}
	return nil
}
