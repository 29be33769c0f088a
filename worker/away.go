package worker

import (
	"context"
	"errors"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// awayPause is how long an attempt waits for its next start that was put back because the store was away.
const awayPause = time.Second

// await asks the store for something, again and again while it is away. It notes when the time of the attempt runs out
// over that.
func (j *job) await(ctx context.Context, p *Pool, f func() error) error {
	err := p.o.Outage.Retry(ctx, f)
	if errors.Is(err, store.ErrAway) {
		j.away.Store(true)
	}
	return err
}

// awaited is await for what waits by itself: a report that returns when it is durable.
func (j *job) awaited(ctx context.Context, p *Pool, err error) error {
	if err != nil && ctx.Err() != nil && p.o.Outage.Err() != nil {
		j.away.Store(true)
	}
	return err
}

// cutOff reports whether an attempt failed for nothing but the store's absence: it is put back. One whose handler may
// not run twice and has begun is not.
func (j *job) cutOff(err, cause error) bool {
	if cause == errRevoked || j.begun.Load() && j.task.Step.Policy.NotIdempotent {
		return false
	}
	return errors.Is(err, store.ErrAway) || j.away.Load() && cause == errDeadline
}

// putBack lets the same attempt begin anew.
func (p *Pool) putBack(j *job) engine.Event {
	ev := p.event(j, engine.Failed)
	ev.Defer, ev.After = true, awayPause
	ev.Failure = &engine.Failure{Code: stepwell.CodeUnavailable, Message: "put back, because the store was away"}
	return ev
}
