package main

import (
	"context"
	"fmt"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/api/client"
	"github.com/stepwell/stepwell/feed"
	"github.com/stepwell/stepwell/view"
)

// How a stream that breaks off is taken up again.
const (
	followTries = 10          // without a message in between
	followPause = time.Second // before each
)

// follow hands the messages of an execution's stream to f until f says that it has ended. A stream that breaks off is taken
// up behind the last message.
func follow(ctx context.Context, server *client.Client, id string, o client.StreamOptions, f func(m *client.StreamMessage) (ended bool, err error)) (err error) {
	for tries := 0; tries < followTries; tries++ {
		before, ended := o.Since, false
		for m, broken := range server.Stream(ctx, id, o) {
			if err = broken; err != nil {
				break
			}
			o.Since = m.Seq
			if ended, err = f(&m); err != nil || ended {
				return err
			}
		}
		switch code := stepwell.CodeOf(err); {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && code != stepwell.CodeUnavailable && code != stepwell.CodeInternal:
			return err
		case o.Since != before:
			tries = 0
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(followPause):
		}
	}
	if err == nil {
		err = stepwell.Errorf(stepwell.CodeUnavailable, "", "the stream breaks off again and again")
	}
	return err
}

// followHere shows an execution that somebody else runs, as a request's command asks.
func (p *program) followHere(ctx context.Context, r *request, id string) error {
	s := &session{program: p, output: r.output.value, client: r.client, where: r.where()}
	s.resume = "stepwell executions show " + id + " --follow" + s.where
	return s.watch(ctx, id)
}

// watch shows an execution of another process until it has ended, as `run` shows one of this process, and fails with the
// exit code.
func (s *session) watch(ctx context.Context, id string) error {
	d, err := s.definition(id)
	if err != nil {
		return err
	}
	s.show(d, nil)
	err = follow(ctx, s.client, id, client.StreamOptions{}, func(m *client.StreamMessage) (bool, error) {
		e, after, err := view.EventOf(m.Type, m.Data)
		if err != nil {
			return false, fmt.Errorf("stream: %w", err)
		}
		if e != nil {
			e.Execution = id
			s.tracker.Apply(e, after)
		}
		return m.Type == feed.TypeComplete, nil
	})
	if ctx.Err() != nil { // interrupted: it goes on there
		err = nil
	}
	return s.finish(id, err)
}
