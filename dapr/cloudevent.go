package dapr

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/expr"
	"github.com/stepwell/stepwell/resource"
	"github.com/stepwell/stepwell/trigger/event"
)

// wrapped is the type that Dapr gives to messages that were published without one.
const wrapped = "com.dapr.event.sent"

// cloudEvent are the attributes of CloudEvents 1.0 that mean something here.
type cloudEvent struct{ spec, id, source, kind, time, contentType string }

// decodeRequest reads a CloudEvent in structured or binary form.
func decodeRequest(h http.Header, body []byte, s *Subscription) (*event.Event, error) {
	if h.Get("Ce-Specversion") == "" {
		return decodeStructured(body, s)
	}
	attribute := func(name string) string {
		text := h.Get("Ce-" + name)
		if plain, err := url.PathUnescape(text); err == nil { // the HTTP binding escapes with percents
			return plain
		}
		return text
	}
	c := cloudEvent{spec: attribute("Specversion"), id: attribute("Id"), source: attribute("Source"), kind: attribute("Type"), time: attribute("Time"), contentType: h.Get("Content-Type")}
	data, err := dataOf(c.contentType, body)
	if err != nil {
		return nil, err
	}
	return c.event(data, s)
}

// decodeStructured reads a CloudEvent that is one JSON object.
func decodeStructured(body []byte, s *Subscription) (*event.Event, error) {
	var in map[string]json.RawMessage // keys are compared exactly
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, fmt.Errorf("no CloudEvent: %w", err)
	}
	var c cloudEvent
	for name, to := range map[string]*string{"specversion": &c.spec, "id": &c.id, "source": &c.source, "type": &c.kind, "time": &c.time, "datacontenttype": &c.contentType} {
		if raw, ok := in[name]; ok && json.Unmarshal(raw, to) != nil {
			return nil, fmt.Errorf("%s is not text", name)
		}
	}
	var data resource.Object
	if raw, ok := in["data"]; ok {
		v, err := expr.Decode(raw)
		if err != nil {
			return nil, err
		}
		data = asData(v)
	} else if raw, ok := in["data_base64"]; ok {
		var text string
		if err := json.Unmarshal(raw, &text); err != nil {
			return nil, fmt.Errorf("data_base64 is not text: %w", err)
		}
		bytes, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, fmt.Errorf("data_base64: %w", err)
		}
		if data, err = dataOf(cmp.Or(c.contentType, "application/octet-stream"), bytes); err != nil {
			return nil, err
		}
	}
	return c.event(data, s)
}

// dataOf reads data by its content type: JSON, text, or anything else as base64.
func dataOf(contentType string, raw []byte) (resource.Object, error) {
	kind, _, err := mime.ParseMediaType(cmp.Or(contentType, "application/json"))
	if err != nil {
		return nil, fmt.Errorf("content type %q: %w", stepwell.Clip(contentType, 100), err)
	}
	switch {
	case len(raw) == 0:
		return nil, nil
	case kind == "application/json" || strings.HasSuffix(kind, "+json"):
		v, err := expr.Decode(raw)
		return asData(v), err
	case strings.HasPrefix(kind, "text/") && utf8.Valid(raw):
		return resource.Object{"value": string(raw)}, nil
	}
	return resource.Object{"base64": base64.StdEncoding.EncodeToString(raw), "content_type": kind}, nil
}

// event makes an event of a CloudEvent. Its id and source together are the event's id.
func (c *cloudEvent) event(data resource.Object, s *Subscription) (*event.Event, error) {
	switch {
	case c.spec != "1.0":
		return nil, fmt.Errorf("specversion %q: only CloudEvents 1.0 are read", stepwell.Clip(c.spec, 20))
	case c.id == "" || c.source == "":
		return nil, fmt.Errorf("a CloudEvent has an id and a source")
	}
	e := &event.Event{ID: eventID(c.id, c.source), Type: s.Type, Source: stepwell.Clip(strings.ToValidUTF8(c.source, "�"), 250), Data: data}
	if c.kind != "" && c.kind != wrapped {
		e.Type = c.kind
	}
	if at, err := time.Parse(time.RFC3339Nano, c.time); err == nil {
		e.Time = at
	}
	if s.Key != "" {
		v, _ := event.Value(data, s.Key)
		e.Key = keyOf(v)
	}
	return e, nil
}

// maxID leaves room for the hash of the source in the id of an event.
const maxID = 150

// eventID names the event of an id and a source: two sources may use the same ids.
func eventID(id, source string) string {
	sum := sha256.Sum256([]byte(source))
	if len(id) > maxID || !utf8.ValidString(id) || strings.ContainsFunc(id, unicode.IsControl) {
		long := sha256.Sum256([]byte(id))
		id = "sha256:" + hex.EncodeToString(long[:])
	}
	return id + "@" + hex.EncodeToString(sum[:8])
}

// keyOf is a key of a value in an event; "" for what is none.
func keyOf(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return strconv.FormatInt(int64(v), 10)
		}
		return strconv.FormatFloat(v, 'g', -1, 64)
	case json.Number:
		return v.String()
	}
	return ""
}
