package desk

import (
	"context"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/worker"
)

// Run ends leases and reports lost attempts until ctx ends; then streams and waiting turns end too. It is called once.
func (d *Desk) Run(ctx context.Context) error {
	defer d.shut()
	if d.o.Lists != nil {
		var lists sync.WaitGroup
		defer lists.Wait()
		lists.Go(func() { d.offerLoop(ctx) })
	}
	tick := time.NewTicker(max(time.Millisecond, min(d.o.Lease, d.o.Requeue)/6))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-d.wake:
		case <-tick.C:
			d.sweep(d.o.Now())
			d.lookAtNodes()
		}
		d.mu.Lock()
		chores := d.chores
		d.chores = nil
		d.mu.Unlock()
		for _, f := range chores {
			f(ctx)
		}
		d.reportGone(ctx)
	}
}

// reportGone reports the attempts that have ended with their workers: those of many executions in one commit.
func (d *Desk) reportGone(ctx context.Context) {
	if len(d.gone) == 0 {
		return
	}
	if err := d.p.Conductor.ReportAll(ctx, d.gone); err != nil && stepwell.CodeOf(err) != stepwell.CodeConflict && ctx.Err() == nil {
		d.o.Log.Error("attempts that have ended with their workers were not reported", "attempts", len(d.gone), "error", err)
	}
	d.gone = d.gone[:0]
}

// Expect is conductor.Options.Expect: it does not wait.
func (d *Desk) Expect(run int64, flying []engine.Flight) {
	list := append([]engine.Flight{}, flying...)
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, f := range list {
		d.flying[flight{run, f.Idx, f.Epoch}] = f.Worker
	}
	d.do(func(ctx context.Context) {
		defer d.forgetFlying(run, list)
		for _, f := range list {
			if d.o.Gone(f.Worker) {
				d.gone = append(d.gone, conductor.RunEvent{Run: run, Event: engine.Event{Kind: engine.Lost, At: d.o.Now().UnixMicro(), Idx: f.Idx, Epoch: f.Epoch, Worker: f.Worker}})
				continue
			}
			t, err := d.p.Conductor.Task(ctx, run, f.Idx, f.Epoch)
			if err != nil {
				if stepwell.CodeOf(err) != stepwell.CodeConflict && ctx.Err() == nil {
					d.o.Log.Error("an attempt in flight was not taken over", "run", run, "step", f.Idx, "error", err)
				}
				continue
			}
			d.mu.Lock()
			d.expect(t, f.Begun, f.Worker)
			d.mu.Unlock()
		}
	})
}

// forgetFlying is for attempts that are expected by now.
func (d *Desk) forgetFlying(run int64, list []engine.Flight) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, f := range list {
		delete(d.flying, flight{run, f.Idx, f.Epoch})
	}
}

// sweep ends what has lasted too long.
func (d *Desk) sweep(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, a := range d.attempts {
		switch {
		case a.settling:
		case a.state == held && now.After(a.until) && d.unheard(a):
			a.unheard++
			d.putBack(a)
		case a.state == held && now.After(a.until):
			d.lose(a)
		case a.state == held && a.remote != nil && now.Sub(a.since) > a.remote.Timeout()+2*d.o.Lease:
			d.overrun(a)
		case a.state == expected && !a.begun && now.Sub(a.since) > d.o.Requeue:
			d.putBack(a)
		case a.state == expected && now.Sub(a.since) > d.o.Lease:
			d.lose(a)
		}
	}
	for name, s := range d.sessions {
		if len(s.held) == 0 && s.news == nil && now.Sub(s.seen) > sessionsLast*d.o.Lease {
			delete(d.sessions, name)
		}
	}
}

// lose ends an attempt whose worker says nothing any more. It counts as begun, so that a step that kills its workers is found
// out, unless it must be claimed to begin. The caller holds the lock.
func (d *Desk) lose(a *attempt) {
	name, now, t := a.worker, d.o.Now().UnixMicro(), a.task
	if a.holder != nil {
		name = a.holder.name
	}
	var running []conductor.RunEvent
	if a.state == held && !a.claimed && !t.Step.Policy.NotIdempotent {
		running = []conductor.RunEvent{{Run: t.Run, Event: engine.Event{Kind: engine.Running, At: now, Idx: a.idx, Epoch: a.epoch, Started: a.since.UnixMicro(), Worker: name}}}
	}
	lost := engine.Event{Kind: engine.Lost, At: now, Idx: a.idx, Epoch: a.epoch, Worker: name}
	d.release(a)
	a.state, a.settling = held, true // by nobody: until the loss is durable, no outcome is taken, of whomever
	d.do(func(ctx context.Context) {
		if len(running) > 0 { // refused when it was recorded already
			_ = d.p.Conductor.ReportAll(ctx, running)
		}
		d.o.Log.Warn("a worker was lost", "worker", name, "execution", t.Execution, "step", t.Key)
		d.report(ctx, "a lost worker", t.Run, lost)
		d.mu.Lock()
		defer d.mu.Unlock()
		d.drop(a)
	})
}

// overrun ends an attempt whose worker lives on and does not end it. The caller holds the lock.
func (d *Desk) overrun(a *attempt) {
	x, name, run := a.remote, a.holder.name, a.task.Run
	a.revoked, a.holder.revoked = true, true
	a.settle(true)
	a.holder.ring()
	d.do(func(ctx context.Context) {
		ev := x.Conclude(worker.Ended{Worker: name, Ran: x.Timeout(), Err: stepwell.Errorf(stepwell.CodeTimeout, "", "the worker did not stop")})
		d.report(ctx, "an attempt that did not stop", run, ev)
		d.mu.Lock()
		defer d.mu.Unlock()
		d.drop(a)
	})
}
