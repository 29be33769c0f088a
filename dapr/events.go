package dapr

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/trigger/event"
)

// Answers to a message.
const (
	success = "SUCCESS" // it and all that it causes is durable
	retry   = "RETRY"   // it may be taken later
	drop    = "DROP"    // it can never be taken
)

const (
	bulkMessages = 8                // in one request, of Dapr's largest messages
	bulkWait     = 100              // ms that a message waits for others
	maxMessage   = 4 << 20          // Dapr's own limit
	envelope     = 64 << 10         // what is around the data
	eventTime    = 30 * time.Second // for all that an event causes
)

type subscription struct {
	PubSub string `json:"pubsubname"`
	Topic  string `json:"topic"`
	Route  string `json:"route"`
	Bulk   *bulk  `json:"bulkSubscribe,omitempty"`
}

type bulk struct {
	Enabled bool `json:"enabled"`
	Most    int  `json:"maxMessagesCount"`
	Wait    int  `json:"maxAwaitDurationMs"`
}

// serveSubscriptions tells the sidecar what to subscribe to.
func (a *Adapter) serveSubscriptions(w http.ResponseWriter, _ *http.Request) {
	list := make([]subscription, 0, len(a.o.Subscribe))
	for _, s := range a.o.Subscribe {
		one := subscription{PubSub: s.PubSub, Topic: s.Topic, Route: "/dapr/events/" + s.PubSub + "/" + s.Topic}
		if s.Bulk {
			one.Bulk = &bulk{Enabled: true, Most: bulkMessages, Wait: bulkWait}
		}
		list = append(list, one)
	}
	answer(w, http.StatusOK, list)
}

// status is the answer to one message.
type status struct {
	Entry  string `json:"entryId,omitempty"`
	Status string `json:"status"`
}

// serveEvents takes a message, or several. It answers when what they cause is durable.
func (a *Adapter) serveEvents(w http.ResponseWriter, r *http.Request) {
	if err := a.o.Ready(); err != nil {
		code, p := refusal(err)
		answer(w, code, p)
		return
	}
	place := r.PathValue("pubsub") + "/" + r.PathValue("topic")
	s := a.topics[place]
	if s == nil {
		a.drop(r.Context(), place, "", errors.New("it is not among dapr.subscribe"))
		answer(w, http.StatusOK, status{Status: drop})
		return
	}
	limit := int64(maxMessage)
	if s.Bulk {
		limit *= bulkMessages
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit+envelope))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		a.drop(r.Context(), place, "", err)
		answer(w, http.StatusOK, status{Status: drop})
		return
	}
	if err != nil {
		answer(w, http.StatusOK, status{Status: retry})
		return
	}
	if entries := entriesOf(r, body); s.Bulk && entries != nil {
		list := make([]status, len(entries))
		for i := range entries {
			e, err := entries[i].decode(s)
			list[i] = status{Entry: entries[i].ID, Status: a.take(r.Context(), place, e, err)}
		}
		answer(w, http.StatusOK, map[string]any{"statuses": list})
		return
	}
	e, err := decodeRequest(r.Header, body, s)
	answer(w, http.StatusOK, status{Status: a.take(r.Context(), place, e, err)})
}

// take takes an event, or tells why it cannot be read.
func (a *Adapter) take(ctx context.Context, place string, e *event.Event, err error) (outcome string) {
	defer func() { a.o.Count(outcome) }()
	if err != nil {
		return a.drop(ctx, place, "", err)
	}
	if raw, failed := json.Marshal(e.Data); failed == nil && len(raw) > a.o.MaxEvent { // CodeLimit too, like what passes
		return a.drop(ctx, place, e.ID, stepwell.Errorf(stepwell.CodeLimit, "", "its data is larger than %d bytes", a.o.MaxEvent))
	}
	ctx, cancel := context.WithTimeout(ctx, eventTime)
	defer cancel()
	_, err = a.o.Receive(ctx, *e)
	switch {
	case err == nil:
		return success
	case ctx.Err() != nil || passes(err):
		a.o.Log.WarnContext(ctx, "an event cannot be taken now; the sidecar sends it again", "topic", place, "event", e.ID, "error", err)
		return retry
	}
	return a.drop(ctx, place, e.ID, err)
}

// drop logs a message that is lost.
func (a *Adapter) drop(ctx context.Context, place, id string, err error) string {
	a.o.Log.ErrorContext(ctx, "a message from Dapr can never be taken; it is dropped", "topic", stepwell.Clip(place, 300), "event", id, "error", err)
	return drop
}

// entry is a message of a bulk.
type entry struct {
	ID          string          `json:"entryId"`
	Event       json.RawMessage `json:"event"`
	ContentType string          `json:"contentType"`
}

// entriesOf are the messages of a bulk; nil: it is none.
func entriesOf(r *http.Request, body []byte) []entry {
	var in struct {
		Entries []entry `json:"entries"`
	}
	if r.Header.Get("Ce-Specversion") != "" || isCloudEvent(r.Header.Get("Content-Type")) || json.Unmarshal(body, &in) != nil {
		return nil
	}
	return in.Entries
}

func isCloudEvent(contentType string) bool {
	kind, _, err := mime.ParseMediaType(contentType)
	return err == nil && strings.HasPrefix(kind, "application/cloudevents")
}

func (e *entry) decode(s *Subscription) (*event.Event, error) { return decodeStructured(e.Event, s) }

// asData is a value as the data of an event, which is an object.
func asData(v any) resource.Object {
	switch v := v.(type) {
	case nil:
		return nil
	case map[string]any:
		return v
	default:
		return resource.Object{"value": v}
	}
}
