package dapr

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/report"
	"github.com/stepwell/stepwell/store"
)

// The topics of Settings.Publish. Log lines go to TopicLogs, with the execution and the step behind it.
const (
	TopicExecutions = "workflow.execution.status"
	TopicSteps      = "workflow.step.status"
	TopicLogs       = "workflow.logs"
)

// Publisher publishes what happens to executions.
func (a *Adapter) Publisher() report.Receiver {
	return report.Receiver{Name: "dapr-publish", Lines: slices.Contains(a.o.Publish, TopicLogs), Take: a.publish}
}

// statusBody is the data of a message about a status.
type statusBody struct {
	Execution string `json:"execution_id"`
	Step      string `json:"step_id,omitempty"`
	Status    string `json:"status"`
	Updated   string `json:"updated_at"`
}

// lineBody is the data of a message about a log line.
type lineBody struct {
	Timestamp string          `json:"timestamp"`
	Execution string          `json:"execution_id"`
	Step      string          `json:"step_id"`
	Level     string          `json:"level"`
	Message   string          `json:"message"`
	Metadata  json.RawMessage `json:"metadata"`
}

// message is a CloudEvent.
type message struct {
	Spec        string `json:"specversion"`
	ID          string `json:"id"`
	Source      string `json:"source"`
	Type        string `json:"type"`
	Subject     string `json:"subject"`
	Time        string `json:"time"`
	ContentType string `json:"datacontenttype"`
	Data        any    `json:"data"`
}

func (a *Adapter) publish(ctx context.Context, x *store.Execution, changes []report.Change) error {
	for i := range changes {
		if err := a.publishChange(ctx, x.ID, &changes[i]); err != nil {
			return err
		}
	}
	return nil
}

// publishChange publishes one change, if its topic is named.
func (a *Adapter) publishChange(ctx context.Context, execution string, c *report.Change) error {
	at := c.At.UTC().Format(time.RFC3339Nano)
	m := message{Spec: "1.0", ID: c.ID, Source: "stepwell", Subject: execution, Time: at, ContentType: "application/json"}
	topic := ""
	switch {
	case c.Line != nil:
		m.Type, topic = TopicLogs, TopicLogs+"."+execution+"."+topicPart(c.Step)
		metadata := c.Line.Attrs
		if len(metadata) == 0 || len(metadata) > maxMetadata {
			metadata = json.RawMessage("{}")
		}
		m.Data = lineBody{Timestamp: at, Execution: execution, Step: c.Step, Level: c.Line.Level, Message: stepwell.Clip(c.Line.Message, maxLine), Metadata: metadata}
	case c.Step != "":
		m.Type, topic = TopicSteps, TopicSteps
		m.Data = statusBody{Execution: execution, Step: c.Step, Status: c.Status, Updated: at}
	default:
		m.Type, topic = TopicExecutions, TopicExecutions
		m.Data = statusBody{Execution: execution, Status: c.Status, Updated: at}
	}
	if !slices.Contains(a.o.Publish, m.Type) {
		return nil
	}
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	got, err := a.sidecar.call(ctx, http.MethodPost, "/v1.0/publish/"+a.o.PubSub+"/"+topic, "application/cloudevents+json", body)
	if err != nil {
		return err
	}
	return got.ok("a message to " + topic)
}

// A line and its metadata fit into a message of Dapr's, escaped as they may be.
const (
	maxLine     = 256 << 10
	maxMetadata = 512 << 10
)

// topicPart is the key of a step as a part of a topic's name: what brokers and URLs may take for something else is _.
func topicPart(step string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '_'
	}, step)
}
