package redisstate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
	"github.com/sony/gobreaker/v2"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/progress"
	"github.com/stepwell/stepwell/redislink"
)

// failures in a row after which the server rests.
const failures = 4

// calls are the operations on the server: they are tried again, or refused while the server rests.
type calls struct {
	o         *Options
	link      *redislink.Link
	breaker   *gobreaker.CircuitBreaker[struct{}]
	recovered atomic.Int64 // ends of outages
	away      atomic.Bool  // an outage has been logged

	mu      sync.Mutex
	closed  bool
	flying  int
	idle    chan struct{} // closed when the last one has ended, after closed
	closing chan struct{}
}

func (c *calls) init(o *Options, l *redislink.Link) {
	c.o, c.link, c.idle, c.closing = o, l, make(chan struct{}), make(chan struct{})
	c.breaker = gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		Name: "state server", MaxRequests: 1, Timeout: o.Rest,
		ReadyToTrip:   func(n gobreaker.Counts) bool { return n.ConsecutiveFailures >= failures },
		IsExcluded:    func(err error) bool { return errors.Is(err, context.Canceled) || errors.Is(err, redislink.ErrClosed) },
		IsSuccessful:  func(err error) bool { return err == nil || !redislink.Transient(err) },
		OnStateChange: func(_ string, _, to gobreaker.State) { c.changed(to) },
	})
}

// changed logs the beginning and the end of an outage, once each.
func (c *calls) changed(to gobreaker.State) {
	switch {
	case to == gobreaker.StateOpen && !c.away.Swap(true):
		c.o.Log.Log(context.Background(), progress.LevelCritical, "the Redis server of the progress of projects is unavailable: the database answers until it is back", "asked_again_after", c.o.Rest)
	case to == gobreaker.StateClosed:
		c.away.Store(false)
		c.recovered.Add(1)
		c.o.Log.Info("the Redis server of the progress of projects is back")
	}
}

// do makes an operation, again after each of the pauses while the server fails. The error names the operation and the project,
// and is logged.
func (c *calls) do(ctx context.Context, op, project string, pauses []time.Duration, f func(context.Context, rueidis.Client) error) error {
	if !c.begin() {
		return redislink.ErrClosed
	}
	defer c.end()
	for tries := 0; ; {
		_, err := c.breaker.Execute(func() (struct{}, error) { return struct{}{}, c.try(ctx, f) })
		if err == nil || errors.Is(err, redislink.ErrClosed) {
			return err
		}
		rests := errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests)
		if !rests {
			tries++
		}
		if rests || !redislink.Transient(err) || tries > len(pauses) || !c.pause(ctx, pauses[tries-1]) {
			return c.fail(ctx, op, project, tries, err)
		}
	}
}

// try makes one try, bounded by Options.Timeout.
func (c *calls) try(ctx context.Context, f func(context.Context, rueidis.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	client, err := c.link.Get(ctx)
	if err != nil {
		return err
	}
	return f(ctx, client)
}

// pause waits; false: it is not to be tried again.
func (c *calls) pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-c.closing:
	}
	return false
}

// fail logs and words an error. What was not tried, because the server rests, is not logged: the outage is.
func (c *calls) fail(ctx context.Context, op, project string, tries int, err error) error {
	e := &stepwell.Error{Code: stepwell.CodeUnavailable, Message: fmt.Sprintf("progress of project %q: %s on the Redis server, after %d tries", project, op, tries), Err: err,
		Hint: "the database has what was stored; it is written to Redis when that is back"}
	if !redislink.Transient(err) {
		e.Code, e.Hint = stepwell.CodeInternal, "another program has written something else to the key"
	}
	if tries > 0 && !errors.Is(err, context.Canceled) {
		c.o.Log.ErrorContext(ctx, "an operation on the Redis server of the progress of projects has failed", "operation", op, "project", project, "tries", tries, "error", err)
	}
	return e
}

func (c *calls) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.flying++
	return true
}

func (c *calls) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.flying--; c.flying == 0 && c.closed {
		close(c.idle)
	}
}

// close refuses new operations and waits for those under way, which are no longer tried again, for a time.
func (c *calls) close(limit time.Duration) {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		close(c.closing)
		if c.flying == 0 {
			close(c.idle)
		}
	}
	c.mu.Unlock()
	select {
	case <-c.idle:
	case <-time.After(limit):
	}
}
