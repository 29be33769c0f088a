package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api"
	"github.com/stepwell/stepwell/feed"
	"github.com/stepwell/stepwell/store"
)

// How a stream that breaks off is taken up again.
const (
	followTries = 10          // without a message in between
	followPause = time.Second // before each
)

// followLogs shows an execution's log lines as they come, until it has ended. A stream that breaks off is taken up
// behind the last message.
func (p *program) followLogs(c *connection, id string, o api.StreamOptions) (status stepwell.ExecutionStatus, err error) {
	server, err := p.dial(c)
	if err != nil {
		return status, err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	f := follower{program: p, output: c.output.value}
	for tries := 0; tries < followTries; tries++ {
		before := f.seq
		err = f.follow(ctx, server, id, o)
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
func (f *follower) follow(ctx context.Context, s caller, id string, o api.StreamOptions) error {
	o.Since = f.seq
	for m, err := range s.Stream(ctx, id, o) {
		if err == nil {
			err = f.message(&m)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// message shows one message: log lines, and the end.
func (f *follower) message(m *api.StreamMessage) error {
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
