package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"net/url"
	"strings"

	"github.com/stepwell/stepwell"
)

const (
	maxMessage = 8 << 20 // bytes of a message of a stream
	streamType = "text/event-stream"
)

// StreamMessage is one message of an execution's stream: snapshot, log, status, progress or complete.
type StreamMessage struct {
	Type string          `json:"type"`
	Seq  string          `json:"seq"`
	Data json.RawMessage `json:"data"`
}

// StreamOptions select the events of an execution's stream.
type StreamOptions struct {
	Since string // a seq: go on behind it. Defaults to everything from the beginning
	Level string // log lines of at least this level. Defaults to all
	Step  string // only of this step. Defaults to all
}

// Stream follows an execution. It ends after the complete message, or with an error: CodeUnavailable when the stream broke
// off, which may be taken up again behind the last message's Seq.
func (c *Client) Stream(ctx context.Context, id string, o StreamOptions) iter.Seq2[StreamMessage, error] {
	return func(yield func(StreamMessage, error) bool) {
		query := url.Values{}
		for name, value := range map[string]string{"since": o.Since, "level": o.Level, "step_id": o.Step} {
			if value != "" {
				query.Set(name, value)
			}
		}
		res, err := c.open(ctx, http.MethodGet, at("executions", id, "events"), query, http.Header{"Accept": {streamType}}, nil)
		if err != nil {
			yield(StreamMessage{}, err)
			return
		}
		defer res.Body.Close()
		if res.StatusCode == http.StatusNoContent { // there is nothing behind since
			return
		}
		if got := res.Header.Get("Content-Type"); !strings.HasPrefix(got, streamType) {
			yield(StreamMessage{}, &stepwell.Error{Code: stepwell.CodeInvalid, Message: "the server does not stream: it answers " + stepwell.Clip(got, 100), Hint: "is it a Stepwell server?"})
			return
		}
		if ended, err := readEvents(res, yield); !ended {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			yield(StreamMessage{}, err)
		}
	}
}

var errBroken = &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the stream broke off"}

// readEvents yields the messages of a stream; ended says that there is nothing more to yield.
func readEvents(res *http.Response, yield func(StreamMessage, error) bool) (ended bool, err error) {
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(make([]byte, 64<<10), maxMessage)
	var data strings.Builder
	for lines.Scan() {
		line := lines.Text()
		if text, ok := strings.CutPrefix(line, "data:"); ok {
			data.WriteString(strings.TrimPrefix(text, " "))
		}
		if line != "" || data.Len() == 0 {
			continue
		}
		var m StreamMessage
		if err := json.Unmarshal([]byte(data.String()), &m); err != nil {
			return false, err
		}
		if !yield(m, nil) || m.Type == "complete" {
			return true, nil
		}
		data.Reset()
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return false, lines.Err()
	}
	return false, errBroken
}
