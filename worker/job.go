package worker

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/queue"
)

var (
	errRevoked  = stepwell.Errorf(stepwell.CodeCancelled, "", "stopped on request")
	errDeadline = action.ErrDeadline
	// errDrained ends a stream when the pool is drained: it would go on while items come, and its next attempt goes
	// on at its checkpoint.
	errDrained = stepwell.Errorf(stepwell.CodeCancelled, "", "stopped at its last checkpoint, because the process ends")
	// errNotMine ends, without a report, a task that another worker runs or that was given up.
	errNotMine = stepwell.Errorf(stepwell.CodeConflict, "", "the attempt is not this worker's")
)

// job is an attempt in the hands of a pool.
type job struct {
	attempt
	lease  queue.Lease
	over   atomic.Bool // its outcome has been or is being reported
	seen   bool        // has been recorded as running; once the job has begun, guarded by the pool's mutex
	ending time.Time   // when watch saw its context end
}

// run runs one task to its outcome. It is dealt with unless the process stops first; abandoned says that
// others have reported an outcome meanwhile.
func (p *Pool) run(t *engine.Task, lease queue.Lease) (dealt, abandoned bool) {
	j := &job{lease: lease, seen: t.Step.Policy.NotIdempotent}
	j.begin(p.ctx, p.Runner, t)
	defer j.end()
	if !p.addJob(j) {
		return true, false // a message that came twice
	}
	if t.About != nil && !j.seen {
		defer time.AfterFunc(seenLesson, func() { p.reportSoon(j) }).Stop()
	}
	j.prepare()
	out, err := j.callHandler()
	cause := context.Cause(j.ctx)
	if !j.over.CompareAndSwap(false, true) {
		return true, true
	}
	p.mu.Lock()
	delete(p.jobs, idOf(t))
	p.mu.Unlock()
	ev, dealt := j.outcome(out, err, cause)
	return dealt && (ev.Kind == 0 || p.report(j, ev)), false
}

// report hands an outcome on.
func (p *Pool) report(j *job, ev engine.Event) bool {
	err := p.o.Reporter.Report(p.ctx, j.Task.Run, ev)
	if err != nil && p.ctx.Err() == nil { // else the whole process stops, and says why
		p.o.Log.Error("report failed", "execution", j.Task.Execution, "step", j.Task.Key, "error", err)
	}
	return err == nil
}

func (p *Pool) addJob(j *job) bool {
	id := idOf(j.Task)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.jobs[id] != nil {
		return false
	}
	p.jobs[id] = j
	if p.revoked.remove(id) {
		j.cancel(errRevoked)
	}
	select {
	case <-p.drained:
		j.drain()
	default:
	}
	return true
}

// drain stops a stream; other work is left to finish.
func (j *job) drain() {
	if len(j.Task.Members) > 0 {
		j.cancel(errDrained)
	}
}
