package feed

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/estimate"
	"github.com/stepwell/stepwell/store"
)

// The types of messages. A subscription begins with one snapshot and, when the execution ends, ends with one
// complete. Progress is volatile: it is not repeated after a reconnect.
const (
	TypeSnapshot = "snapshot"
	TypeLog      = "log"
	TypeStatus   = "status"
	TypeProgress = "progress"
	TypeComplete = "complete"
)

// Message is one message of a stream, shared by all subscribers of the execution.
type Message struct {
	Type   string
	Cursor Cursor // where a subscription goes on that has got this message
	Frame  []byte // JSON {"type":…,"seq":…,"data":…}; must not be changed
	step   string // "" when it is about the execution
	level  int8   // of a log line
}

// LogData is the data of a log message.
type LogData struct {
	Timestamp Time            `json:"timestamp"`
	Level     string          `json:"level"`
	StepID    string          `json:"step_id"`
	Message   string          `json:"message"`
	Attempt   int             `json:"attempt,omitempty"`
	Metadata  json.RawMessage `json:"metadata,omitempty"`
}

// StatusData is the data of a status message. StepID is null when it is the execution's own status.
// Progress is the execution's when the message was made, not when the status changed.
type StatusData struct {
	StepID    *string            `json:"step_id"`
	Status    string             `json:"status"`
	Progress  *estimate.Progress `json:"progress"`
	Timestamp Time               `json:"timestamp"`
	WorkerID  string             `json:"worker_id,omitempty"`
	Message   string             `json:"message,omitempty"`
	Hint      string             `json:"hint,omitempty"` // with a failure in Message
	// Retrying says of a failed attempt that the step will have another one. Until is when, or when a waiting step goes on:
	// only a message that is read before then has it.
	Retrying bool  `json:"retrying,omitempty"`
	Until    *Time `json:"until,omitempty"`
}

// ProgressData is the data of a progress message from a running step.
type ProgressData struct {
	StepID   string  `json:"step_id"`
	Fraction float64 `json:"fraction"` // 0 to 1, below 0 when unknown
	Note     string  `json:"note,omitempty"`
	Items    *Items  `json:"items,omitempty"` // of a step of a stream
}

// Items are how many items a step of a stream has handled so far.
type Items struct {
	In      int64 `json:"in"`
	Out     int64 `json:"out"`
	Failed  int64 `json:"failed,omitempty"`
	Dropped int64 `json:"dropped,omitempty"`
	Skipped int64 `json:"skipped,omitempty"`
	Total   int64 `json:"total,omitempty"`   // how many there will be, if that is known
	Busy    int64 `json:"busy_ms,omitempty"` // how long it worked, without waiting for the steps around it
	Room    int64 `json:"room,omitempty"`    // how many may wait in front of it, if that is known
}

// CompleteData is the data of a complete message.
type CompleteData struct {
	Status stepwell.ExecutionStatus `json:"status"`
	Result json.RawMessage          `json:"result"`
	Error  *engine.Failure          `json:"error,omitempty"`
}

// SnapshotData is the data of a snapshot message: how things stand, at least as new as its seq.
type SnapshotData struct {
	ExecutionID string                   `json:"execution_id"`
	Pipeline    string                   `json:"pipeline"`
	Status      stepwell.ExecutionStatus `json:"status"`
	Progress    estimate.Progress        `json:"progress"`
	StartedAt   *Time                    `json:"started_at"`
	CompletedAt *Time                    `json:"completed_at"`
	Steps       []StepData               `json:"steps"`
	More        bool                     `json:"more_steps,omitempty"` // there are steps beyond those listed
}

// StepData is a step in a snapshot.
type StepData struct {
	StepID  string              `json:"step_id"`
	Status  stepwell.StepStatus `json:"status"`
	Attempt int                 `json:"attempt,omitempty"`
}

// Time is written as RFC 3339 in UTC with milliseconds.
type Time time.Time

// MarshalText writes the time.
func (t Time) MarshalText() ([]byte, error) {
	return time.Time(t).UTC().AppendFormat(nil, "2006-01-02T15:04:05.000Z"), nil
}

// UnmarshalText reads what MarshalText has written.
func (t *Time) UnmarshalText(text []byte) error { return (*time.Time)(t).UnmarshalText(text) }

// stamp is null for the zero time.
func stamp(t time.Time) *Time {
	if t.IsZero() {
		return nil
	}
	return (*Time)(&t)
}

// message encodes a message, or an error message in its place: a failure to encode is our fault.
func message(kind string, at Cursor, data any) Message {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(data); err != nil {
		b.Reset()
		b.WriteString(`{"message":"this message cannot be written"}`)
	}
	return enclose(kind, at, bytes.TrimRight(b.Bytes(), "\n"))
}

// enclose makes a message of its data.
func enclose(kind string, at Cursor, data []byte) Message {
	frame := make([]byte, 0, len(data)+64)
	frame = append(frame, `{"type":"`...)
	frame = append(frame, kind...)
	frame = append(frame, `","seq":"`...)
	frame = append(frame, at.String()...)
	frame = append(frame, `","data":`...)
	frame = append(frame, data...)
	return Message{Type: kind, Cursor: at, Frame: append(frame, '}')}
}

func logMessage(l *store.LogLine, at Cursor) Message {
	m := message(TypeLog, at, &LogData{Timestamp: Time(l.At), Level: l.Level, StepID: l.StepKey, Message: l.Message, Attempt: l.Attempt, Metadata: l.Attrs})
	m.step, m.level = l.StepKey, levelOf(l.Level)
	return m
}

// stepStatus and executionStatus map events to statuses. A start has none: the snapshot has it, and the execution may
// be held.
var (
	stepStatus = map[string]string{"queued": "queued", "started": "running", "completed": "completed", "failed": "failed",
		"skipped": "skipped", "waiting": "waiting", "cancelled": "cancelled", "timed_out": "timed_out"}
	executionStatus = map[string]string{"admitted": "running", "cancel": "cancelling", "pause": "paused", "resume": "running", "restart": "running"}
)

// statusMessage makes the message of an event that changes a status; ok is false for others.
func statusMessage(e *engine.HistoryEvent, at Cursor, progress *estimate.Progress) (m Message, ok bool) {
	data := StatusData{Progress: progress, Timestamp: Time(e.At), WorkerID: e.Worker, Message: e.Detail, Hint: e.Hint, Retrying: e.Again, Until: stamp(e.Wake)}
	if data.Status, ok = executionStatus[e.Type]; !ok {
		if data.Status, ok = stepStatus[e.Type]; !ok || e.StepKey == "" {
			return m, false
		}
		data.StepID = &e.StepKey
	}
	m = message(TypeStatus, at, &data)
	if data.StepID != nil {
		m.step = e.StepKey
	}
	return m, true
}

var levels = []string{"debug", "info", "warning", "error"}

// levelOf is the weight of a level; unknown ones weigh the most, so that no filter hides them.
func levelOf(name string) int8 {
	for i, l := range levels {
		if l == name {
			return int8(i)
		}
	}
	return int8(len(levels))
}
