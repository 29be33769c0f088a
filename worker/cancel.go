package worker

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/engine"
)

const (
	cancelTimeout = 30 * time.Second // of one call
	maxCancelling = 8                // calls at once
)

// Cancel stops the work that a step left elsewhere (action.Canceler). It returns at once; Run does not
// return before the call has, not even after Drain, unless its context ends. The outcome goes to the
// step's log.
func (p *Pool) Cancel(t *engine.Task) {
	act, ok := p.o.Actions.Lookup(t.Step.Action)
	if !ok {
		return
	}
	if _, ok := act.Handler.(action.Canceler); !ok {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		p.o.Log.Warn("the work of a step was not cancelled: the process stops", "execution", t.Execution, "step", t.Key)
		return
	}
	p.cancels = append(p.cancels, t)
	if p.ctx != nil {
		p.callCancels()
	}
}

// callCancels sees to it that there are goroutines for the calls that are due. The caller holds the lock.
func (p *Pool) callCancels() {
	for p.cancelling < min(maxCancelling, len(p.cancels)) {
		p.cancelling++
		p.calls.Go(p.cancelLoop)
	}
}

// cancelLoop makes the calls that are due, and ends when there are none.
func (p *Pool) cancelLoop() {
	for {
		p.mu.Lock()
		if len(p.cancels) == 0 {
			p.cancels = nil
			p.cancelling--
			p.mu.Unlock()
			return
		}
		t := p.cancels[0]
		p.cancels = p.cancels[1:]
		p.mu.Unlock()
		p.cancelOne(t)
	}
}

// cancelOne makes one call. A handler that ignores the end of its context is left alone after that.
func (p *Pool) cancelOne(t *engine.Task) {
	ctx, end := context.WithTimeoutCause(p.ctx, cancelTimeout, errCancelTimeout)
	defer end()
	j := &job{task: t, ctx: ctx, started: time.Now(), timeout: cancelTimeout}
	j.host = host{p: p, j: j, level: minLevel(t.Step.Policy.LogLevel)}
	ended := make(chan error, 1)
	go func() { ended <- p.callCancel(j) }()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		select {
		case err = <-ended:
		case <-time.After(p.o.Grace):
			err = context.Cause(ctx)
		}
	}
	if err != nil {
		j.host.Log(slog.LevelError, "the work going on elsewhere could not be cancelled: "+err.Error())
		return
	}
	j.host.Log(slog.LevelInfo, "the work going on elsewhere was cancelled")
}

var errCancelTimeout = &stepwell.Error{Code: stepwell.CodeTimeout, Message: "not ended within " + cancelTimeout.String()}

func (p *Pool) callCancel(j *job) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	act, _ := p.o.Actions.Lookup(j.task.Step.Action)
	params, err := p.params(j, act)
	if err != nil {
		return err
	}
	return act.Handler.(action.Canceler).Cancel(j.ctx, p.call(j, params))
}
