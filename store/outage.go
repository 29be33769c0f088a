package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stepwell/stepwell"
)

// ErrAway is in the errors of callers that stopped waiting for a store that is away.
var ErrAway = errors.New("the store is unavailable")

// AwayError is the reason why a database or the blobs are away, safe to show to any caller.
type AwayError struct {
	Reason string // without paths, addresses and names
	Err    error
}

func (e *AwayError) Error() string { return e.Err.Error() }
func (e *AwayError) Unwrap() error { return e.Err }

// Away makes the error of an operation that a store refuses for a reason that may pass: a full disk, a server that
// does not answer.
func Away(op, reason, hint string, err error) error {
	return &stepwell.Error{Code: stepwell.CodeUnavailable, Message: op + ": " + reason, Hint: hint, Err: &AwayError{Reason: reason, Err: err}}
}

// IsAway reports whether an error of a store may pass: the same operation, tried again, may succeed.
func IsAway(err error) bool { return stepwell.CodeOf(err) == stepwell.CodeUnavailable }

// The pauses between two retries of a refused operation.
const (
	awayPause    = 100 * time.Millisecond
	maxAwayPause = 2 * time.Second
)

// Outage says that database or blobs are away: a caller refused for a transient reason registers here, keeps its
// data, and retries. It is over when no refused caller is left.
type Outage struct {
	// Pause waits between two tries, and reports whether there is time for more of it.
	Pause func(context.Context, time.Duration) bool

	now   atomic.Pointer[away] // nil: the store is there
	mu    sync.Mutex
	began chan struct{} // one token
}

// NewOutage is for a store that is there. pause is its Pause; nil: it waits for as long as it is told, or until the context ends.
func NewOutage(pause func(context.Context, time.Duration) bool) *Outage {
	if pause == nil {
		pause = pausing
	}
	return &Outage{Pause: pause, began: make(chan struct{}, 1)}
}

func pausing(ctx context.Context, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// Began holds a token after an outage has begun, for the goroutine that waits for its end.
func (o *Outage) Began() <-chan struct{} { return o.began }

// away is one outage, from the first refusal to the last success.
type away struct {
	err     *stepwell.Error
	refused int // operations that wait; guarded by Outage.mu
	since   time.Time
	over    chan struct{} // closed at the end
}

// Err is why nothing goes on: CodeUnavailable with the reason, nil while the store is there.
func (o *Outage) Err() error {
	if a := o.now.Load(); a != nil {
		return a.err
	}
	return nil
}

// Over is closed when the outage ends, nil without one; since is when it began.
func (o *Outage) Over() (over <-chan struct{}, since time.Time) {
	if a := o.now.Load(); a != nil {
		return a.over, a.since
	}
	return nil, time.Time{}
}

// Begin registers an operation that the store has refused. Its end, which must be called, says that it was taken or
// given up.
func (o *Outage) Begin(err error) (end func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	a := o.now.Load()
	if a == nil {
		a = &away{err: outageError(err), since: time.Now(), over: make(chan struct{})}
		o.now.Store(a)
		select {
		case o.began <- struct{}{}:
		default:
		}
	}
	a.refused++
	return sync.OnceFunc(func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if a.refused--; a.refused == 0 {
			o.now.Store(nil)
			close(a.over)
		}
	})
}

func outageError(err error) *stepwell.Error {
	message := "the store takes nothing at the moment"
	if e, ok := errors.AsType[*AwayError](err); ok {
		message += ": " + e.Reason
	}
	return &stepwell.Error{Code: stepwell.CodeUnavailable, Message: message, Hint: stepwell.HintOf(err), Err: err}
}

// Retry runs f until it succeeds or fails for a reason that does not pass. The end of ctx ends the wait with an error
// that is ErrAway.
func (o *Outage) Retry(ctx context.Context, f func() error) error {
	err := f()
	if err == nil || !IsAway(err) {
		return err
	}
	end := o.Begin(err)
	defer end()
	for pause := awayPause; ; pause = min(2*pause, maxAwayPause) {
		if !o.Pause(ctx, pause) {
			return fmt.Errorf("%w: %w", ErrAway, err)
		}
		if err = f(); err == nil || !IsAway(err) {
			return err
		}
	}
}
