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
	"github.com/stepwell/stepwell/trigger"
	"github.com/stepwell/stepwell/trigger/shelf"
)

// internal begins the types of events that Stepwell makes itself. They fit only patterns that begin so too.
const internal = "execution."

// Event is something that has happened.
type Event struct {
	ID     string         `json:"id,omitempty"` // tells repetitions. Defaults to a new UUID
	Type   string         `json:"type"`
	Source string         `json:"source,omitempty"`
	Key    string         `json:"key,omitempty"` // that steps wait for. Defaults to none
	Data   trigger.Values `json:"data,omitempty"`
	// Time is when it happened. Defaults to when it was received.
	Time time.Time `json:"time,omitzero"`
}

// Trigger is what people write.
type Trigger struct {
	ID          string `json:"trigger_id"` // Defaults to a new UUID
	Name        string `json:"name,omitempty"`
	Description string `json:"description,omitempty"`
	// EventType is a pattern: * stands for any characters, ? for one.
	EventType string `json:"event_type"`
	// Filters are values by their path in the event's data, such as model.size or labels.0; all have to be there. A list
	// stands for any of its elements.
	Filters trigger.Values `json:"filters,omitempty"`
	// Job is the job that it starts, or else Callback says what.
	Job      string            `json:"job_id,omitempty"`
	Callback *trigger.Callback `json:"callback,omitempty"`
	Enabled  *bool             `json:"enabled,omitempty"` // Defaults to true
}

// Status is a trigger and what has become of it.
type Status struct {
	Trigger
	Count         int       `json:"trigger_count"`
	LastTriggered time.Time `json:"last_triggered_at,omitzero"`
	LastExecution string    `json:"last_execution_id,omitempty"`
	LastError     string    `json:"last_error,omitempty"` // why the latest event that fitted started nothing
	CreatedBy     string    `json:"created_by,omitempty"`
	Revision      int64     `json:"-"` // for the ETag
	Created       time.Time `json:"created_at"`
	Updated       time.Time `json:"updated_at"`
}

// record is what is stored.
type record struct {
	Trigger
	By string `json:"created_by,omitempty"`
}

type item = shelf.Item[record]

// Bounds of events and triggers.
const (
	maxID      = 200
	maxType    = 255
	maxKey     = 1000
	maxFilters = 50
)

func (t *Trigger) enabled() bool { return t.Enabled == nil || *t.Enabled }

func (t *Trigger) check() error {
	if !trigger.ValidID(t.ID) {
		return stepwell.Invalid("1 to 128 letters, digits and . _ : -, beginning with a letter or digit", "trigger_id cannot be an id")
	}
	if err := trigger.CheckText(t.Name, t.Description, t.Filters); err != nil {
		return err
	}
	if t.EventType == "" || len(t.EventType) > maxType {
		return stepwell.Invalid("such as model.onboarded or model.*", "event_type has to be the type of an event, or a pattern")
	}
	if len(t.Filters) > maxFilters {
		return stepwell.Invalid("at most 50", "there are too many filters")
	}
	for path := range t.Filters {
		if path == "" || strings.HasPrefix(path, ".") || strings.HasSuffix(path, ".") || strings.Contains(path, "..") {
			return stepwell.Invalid("such as model.size", "filters: %q is no path", stepwell.Clip(path, 80))
		}
	}
	if (t.Job == "") == (t.Callback == nil) {
		return stepwell.Invalid("give either job_id or callback", "the trigger does not say what to start")
	}
	if t.Callback != nil {
		if err := t.Callback.Check(); err != nil {
			return err
		}
		if err := trigger.CheckText("", "", t.Callback.Params); err != nil {
			return err
		}
	}
	enabled := t.enabled()
	t.Enabled = &enabled
	return nil
}

// check bounds an event.
func (e *Event) check() error {
	printable := func(s string) bool {
		return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
	}
	switch {
	case e.Type == "" || len(e.Type) > maxType || !printable(e.Type):
		return stepwell.Invalid("such as model.onboarded, at most 255 bytes", "the event has no proper type")
	case len(e.ID) > maxID || !printable(e.ID):
		return stepwell.Invalid("at most 200 bytes, without control characters", "the id of the event is too long, or not printable")
	case len(e.Key) > maxKey:
		return stepwell.Invalid("at most 1,000 bytes", "the key of the event is too long")
	case len(e.Source) > maxType:
		return stepwell.Invalid("at most 255 bytes", "the source of the event is too long")
	case strings.HasPrefix(e.Type, internal):
		return stepwell.Invalid("choose another type", "events of type %s* are made by Stepwell itself", internal)
	}
	return nil
}
