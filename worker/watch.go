package worker

import (
	"context"
	"time"

	"github.com/stepwell/stepwell/engine"
)

// watch is the loop that looks after running jobs: it records those that run for long, and
// abandons handlers that go on although their context has ended.
func (p *Pool) watch(ctx, pull context.Context) {
	tick := time.NewTicker(min(p.o.SeenRunning, p.o.Grace) / 4)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			p.watchOnce(now, pull)
		}
	}
}

func (p *Pool) watchOnce(now time.Time, pull context.Context) {
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
	for _, j := range seen {
		t := j.task
		ev := engine.Event{Kind: engine.Running, At: now.UnixMicro(), Idx: t.Idx, Epoch: t.Epoch, Started: j.started.UnixMicro(), Worker: p.o.Name}
		if err := p.o.Reporter.Report(context.Background(), t.Run, ev); err != nil {
			p.o.Log.Error("report failed", "execution", t.Execution, "step", t.Key, "error", err)
		}
	}
	for _, j := range over {
		if !j.over.CompareAndSwap(false, true) {
			continue
		}
		p.end(j)
		p.o.Log.Warn("a handler ignores the end of its context and was abandoned", "execution", j.task.Execution, "step", j.task.Key, "action", j.task.Step.Action)
		p.report(j, nil, context.Cause(j.ctx))
		if pull.Err() == nil {
			p.live.Go(func() { p.loop(pull) })
		}
	}
}
