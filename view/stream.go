package view

import (
	"encoding/json"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/feed"
)

// EventOf returns a message of the API's stream as an event, with the counts of the execution after it; nil: it is not shown.
func EventOf(kind string, data json.RawMessage) (e *Event, after *engine.Progress, err error) {
	switch kind {
	case feed.TypeSnapshot: // the stream does not tell that an execution has begun
		var d feed.SnapshotData
		err = json.Unmarshal(data, &d)
		if e = (&Event{Type: "execution", Status: stepwell.ExecutionRunning.String(), At: time.Now()}); d.StartedAt == nil {
			e.Status = d.Status.String()
		}
		if d.StartedAt != nil {
			e.At = time.Time(*d.StartedAt).Local()
		}
	case feed.TypeStatus:
		var d feed.StatusData
		err = json.Unmarshal(data, &d)
		e, after = &Event{Type: "execution", Status: d.Status, At: time.Time(d.Timestamp).Local(), Message: d.Message, Hint: d.Hint}, nil
		if d.Progress != nil {
			after = &d.Progress.Progress
		}
		if d.StepID != nil && err == nil {
			e.Type, e.Step = "step", *d.StepID
			err = e.State.UnmarshalText([]byte(d.Status))
		}
		if d.Retrying {
			e.State = stepwell.StepRetrying
		}
		if d.Until != nil {
			until := time.Time(*d.Until).Local()
			e.Wake = &until
		}
	case feed.TypeLog:
		var d feed.LogData
		err = json.Unmarshal(data, &d)
		e = &Event{Type: "log", Step: d.StepID, At: time.Time(d.Timestamp).Local(), Attempt: d.Attempt, Level: d.Level, Message: d.Message, Attrs: d.Metadata}
	case feed.TypeProgress:
		var d feed.ProgressData
		err = json.Unmarshal(data, &d)
		e = &Event{Type: "progress", Step: d.StepID, At: time.Now(), Message: d.Note, Fraction: d.Fraction, Counts: (*action.Counts)(d.Items)}
	}
	return e, after, err
}
