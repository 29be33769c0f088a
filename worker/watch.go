package worker

import (
	"context"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/queue"
)

// watch is the loop that records long-running jobs and abandons handlers that ignore the end of their context.
func (p *Pool) watch(ctx context.Context) {
	tick := time.NewTicker(max(time.Millisecond, min(p.o.SeenRunning, p.o.Grace)/4))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			p.watchOnce(ctx, now)
		}
	}
}

func (p *Pool) watchOnce(ctx context.Context, now time.Time) {
	var seen, over []*job
	p.mu.Lock()
	for _, j := range p.jobs {
		if !j.seen && now.Sub(j.started) >= p.o.SeenRunning {
			j.seen = true
			seen = append(seen, j)
		}
		if j.ctx.Err() == nil {
			continue
		}
		if j.ending.IsZero() {
			j.ending = now
		}
		if now.Sub(j.ending) >= p.o.Grace {
			over = append(over, j)
		}
	}
	p.mu.Unlock()
	for _, j := range over {
		p.abandon(j)
	}
	for _, j := range seen {
		p.reportRunning(ctx, j, now)
	}
}

// seenLesson is after how long a step of a lesson's execution is reported as running: people follow those step by step.
const seenLesson = 100 * time.Millisecond

// reportSoon reports that a step is running, unless that was reported or it has ended.
func (p *Pool) reportSoon(j *job) {
	p.mu.Lock()
	late := j.seen || p.jobs[idOf(j.Task)] != j
	j.seen = true
	p.mu.Unlock()
	if !late {
		p.reportRunning(p.ctx, j, p.o.Now())
	}
}

// reportRunning reports that a step is running; if it has ended meanwhile, the report is dropped. While the store is
// away it waits no longer than the pool lasts: the conductor, which would answer, ends after the pool.
func (p *Pool) reportRunning(ctx context.Context, j *job, now time.Time) {
	err := p.o.Reporter.Report(ctx, j.Task.Run, j.running(now))
	if err != nil && stepwell.CodeOf(err) != stepwell.CodeConflict && p.ctx.Err() == nil && ctx.Err() == nil {
		p.o.Log.Error("report failed", "execution", j.Task.Execution, "step", j.Task.Key, "error", err)
	}
}

// abandon ends a job without its handler. Another goroutine replaces the one that the handler holds, unless as many
// handlers as there are workers hold one already: then there is one worker less until one of them returns.
func (p *Pool) abandon(j *job) {
	if !j.over.CompareAndSwap(false, true) {
		return
	}
	p.mu.Lock()
	delete(p.jobs, idOf(j.Task))
	p.abandoned++
	replaced := !p.closed && p.abandoned <= p.o.Concurrency
	if replaced {
		p.replaced++
		p.employ()
	}
	p.mu.Unlock()
	p.live.Done() // its goroutine is no longer waited for
	p.o.Log.Warn("a handler ignores the end of its context and was abandoned", "execution", j.Task.Execution, "step", j.Task.Key,
		"action", j.Task.Step.Action, "abandoned", p.abandonedNow(), "replaced", replaced)
	cause := context.Cause(j.ctx)
	if ev, dealt := j.outcome(nil, cause, cause); dealt && p.report(j, ev) {
		p.acknowledge([]queue.Lease{j.lease}) // a queue's limit does not wait for a handler that may never return
	}
}

func (p *Pool) abandonedNow() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.abandoned
}

// returned takes the goroutine of an abandoned handler back. It reports whether the goroutine is a
// worker again: not if another took its place, or the pool ends.
func (p *Pool) returned() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.abandoned--
	if p.closed {
		return false
	}
	if p.replaced > p.abandoned {
		p.replaced--
		return false
	}
	p.live.Add(1)
	return true
}
