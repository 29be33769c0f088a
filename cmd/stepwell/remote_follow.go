package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/feed"
	"github.com/stepwell/stepwell/store"
)

// How a stream that breaks off is taken up again.
const (
	followTries = 10          // without a message in between
	followPause = time.Second // before each
	maxMessage  = 4 << 20     // of a stream, in bytes
	streamType  = "text/event-stream"
)

// streamed is one message of an execution's stream.
type streamed struct {
	Type string          `json:"type"`
	Seq  string          `json:"seq"`
	Data json.RawMessage `json:"data"`
}

// followLogs shows an execution's log lines as they come, until it has ended. A stream that breaks off is taken up
// behind the last message.
func (p *program) followLogs(c *connection, id string, query url.Values) (status stepwell.ExecutionStatus, err error) {
	api, err := p.dial(c)
	if err != nil {
		return status, err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	f := follower{program: p, output: c.output.value}
	for tries := 0; tries < followTries; tries++ {
		before := f.seq
		err = f.follow(ctx, api, id, query)
		switch code := stepwell.CodeOf(err); {
		case f.ended:
			return f.status, nil
		case ctx.Err() != nil:
			return status, exitError(exitInterrupted)
		case err != nil && code != stepwell.CodeUnavailable && code != stepwell.CodeInternal && code != "":
			return status, err
		case f.seq != before:
			tries = 0
		}
		select {
		case <-ctx.Done():
			return status, exitError(exitInterrupted)
		case <-time.After(followPause):
		}
	}
	if err == nil {
		err = &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the stream breaks off again and again"}
	}
	return status, err
}

// follower shows the messages of a stream.
type follower struct {
	program *program
	output  string
	seq     string // of the last message
	ended   bool
	status  stepwell.ExecutionStatus // at the end
}

// follow shows one stream to its end.
func (f *follower) follow(ctx context.Context, s caller, id string, query url.Values) error {
	header := http.Header{"Accept": {streamType}}
	if f.seq != "" {
		header.Set("Last-Event-ID", f.seq)
	}
	resp, err := s.open(ctx, "GET", pathTo("executions", id, "events"), query, nil, header)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), streamType) {
		return &stepwell.Error{Code: stepwell.CodeInvalid, Message: "the server does not stream", Hint: "is it an older one?"}
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(make([]byte, 64<<10), maxMessage)
	var data strings.Builder
	for !f.ended && lines.Scan() {
		line := lines.Text()
		if text, ok := strings.CutPrefix(line, "data:"); ok {
			data.WriteString(strings.TrimPrefix(text, " "))
		}
		if line != "" || data.Len() == 0 {
			continue
		}
		if err := f.message(data.String()); err != nil {
			return err
		}
		data.Reset()
	}
	if err := lines.Err(); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the stream broke off", Err: err}
	}
	return nil
}

// message shows one message: log lines, and the end.
func (f *follower) message(text string) error {
	var m streamed
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		return fmt.Errorf("stream: %w", err)
	}
	f.seq = m.Seq
	switch m.Type {
	case feed.TypeComplete:
		var end feed.CompleteData
		if err := json.Unmarshal(m.Data, &end); err != nil {
			return fmt.Errorf("stream: %w", err)
		}
		f.ended, f.status = true, end.Status
	case feed.TypeLog:
		var l store.LogLine
		if err := json.Unmarshal(m.Data, &l); err != nil {
			return fmt.Errorf("stream: %w", err)
		}
		return f.program.logLine(&l, f.output)
	}
	return nil
}
