package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/app"
	"github.com/stepwell/stepwell/conductor"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/spec"
)

// benchLoad is the product, running, with what a workload needs.
type benchLoad struct {
	app    *app.App
	marks  chan time.Time // when a marking step's code began
	halves chan struct{}  // the fan-out is half done
	result *benchResult
	times  []time.Duration // of a fan-out's steps; the conductor's until the execution has ended
}

// benchRun opens the product, runs the workload once and closes it again.
func benchRun(ctx context.Context, workload string, n int, o benchOptions) (_ *benchResult, err error) {
	b := &benchLoad{marks: make(chan time.Time, n+1), halves: make(chan struct{}, 1)}
	b.app, err = app.New(ctx, app.Options{DB: strings.TrimPrefix(o.store, "sqlite:"), Synchronous: o.sync.value, Workers: o.workers,
		Register: b.register, Observe: b.observe(n), Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.app.Close()) }()
	ctx, stop := context.WithCancel(ctx)
	ran := make(chan error, 1)
	go func() { ran <- b.app.Run(ctx) }()
	defer func() { stop(); err = errors.Join(err, <-ran) }()
	r := &benchResult{Workload: workload, N: n}
	b.result = r
	switch workload {
	case "start":
		err = b.start(ctx, r)
	case "chain":
		err = b.chain(ctx, r)
	case "fanout":
		err = b.fanout(ctx, r)
	case "diamond":
		err = b.diamond(ctx, r)
	}
	r.RSS = peakMB()
	return r, err
}

// register adds the step that notes when its code began.
func (b *benchLoad) register(r *action.Registry) error {
	mark := action.HandlerFunc(func(context.Context, *action.Call) (any, error) {
		b.marks <- time.Now()
		return nil, nil
	})
	return r.Add(action.Action{Spec: spec.Spec{Name: "bench.mark", Summary: "Notes the time."}, Handler: mark})
}

// observe tells when half of a fan-out of n steps has ended, and notes how long its steps took from
// being queued to their end.
func (b *benchLoad) observe(n int) func(*conductor.Update) {
	return func(u *conductor.Update) {
		if b.times != nil && u.Progress.Total > n {
			for i := range u.Rows {
				b.times = append(b.times, time.Duration(u.Rows[i].Ended-u.Rows[i].Queued)*time.Microsecond)
			}
		}
		if u.Progress.Total > n && u.Progress.Completed >= n/2 {
			select {
			case b.halves <- struct{}{}:
			default:
			}
		}
	}
}

// pipeline compiles and stores a pipeline, which is measured apart.
func (b *benchLoad) pipeline(ctx context.Context, name string, steps ...definition.Step) (*conductor.Pipeline, error) {
	resetPeak()
	began := time.Now()
	p, err := b.app.Conductor.Register(ctx, &definition.Definition{Name: name, Steps: steps})
	b.result.PrepareMS += ms(time.Since(began))
	b.result.PrepareRSS = max(b.result.PrepareRSS, peakMB())
	clear(steps) // the caller's memory of the document is not needed any more
	resetPeak()
	return p, err
}

// run starts an execution and waits for its end.
func (b *benchLoad) run(ctx context.Context, p *conductor.Pipeline) error {
	id, err := b.app.Conductor.Start(ctx, conductor.Request{Pipeline: p})
	if err != nil {
		return err
	}
	x, err := b.app.Conductor.Wait(ctx, id)
	if err != nil {
		return err
	}
	if x.Status != stepwell.ExecutionCompleted {
		return fmt.Errorf("execution %s is %s", id, x.Status)
	}
	return nil
}

func (b *benchLoad) start(ctx context.Context, r *benchResult) error {
	p, err := b.pipeline(ctx, "bench-start", definition.Step{ID: "a", Action: "bench.mark"})
	if err != nil {
		return err
	}
	times := make([]time.Duration, r.N)
	began := time.Now()
	for i := range times {
		at := time.Now()
		if err := b.run(ctx, p); err != nil {
			return err
		}
		times[i] = (<-b.marks).Sub(at)
	}
	r.total(time.Since(began), r.N)
	r.percentiles(times)
	return nil
}

func (b *benchLoad) chain(ctx context.Context, r *benchResult) error {
	steps := make([]definition.Step, r.N)
	for i := range steps {
		steps[i] = definition.Step{ID: fmt.Sprintf("s%d", i), Action: "bench.mark"}
		if i > 0 {
			steps[i].DependsOn = []string{steps[i-1].ID}
		}
	}
	p, err := b.pipeline(ctx, "bench-chain", steps...)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := b.run(ctx, p); err != nil {
		return err
	}
	r.total(time.Since(began), r.N)
	times, last := make([]time.Duration, r.N), began
	for i := range times {
		at := <-b.marks
		times[i], last = at.Sub(last), at
	}
	r.percentiles(times)
	return nil
}

func (b *benchLoad) fanout(ctx context.Context, r *benchResult) error {
	p, lone, err := b.fanoutPipelines(ctx, r.N)
	if err != nil {
		return err
	}
	b.times = make([]time.Duration, 0, r.N+1)
	alone := make(chan error, 1)
	began := time.Now()
	go func() {
		if r.N < 10_000 {
			alone <- nil
			return
		}
		<-b.halves
		at := time.Now()
		err := b.run(ctx, lone)
		r.Lone = ms(time.Since(at))
		alone <- err
	}()
	if err := b.run(ctx, p); err != nil {
		return err
	}
	took := time.Since(began)
	r.total(took, r.N)
	r.percentiles(b.times)
	return <-alone
}

func (b *benchLoad) fanoutPipelines(ctx context.Context, n int) (p, lone *conductor.Pipeline, err error) {
	steps := make([]definition.Step, n+1)
	ids := make([]string, n)
	for i := range n {
		ids[i] = fmt.Sprintf("s%d", i)
		steps[i] = definition.Step{ID: ids[i], Action: "util.noop"}
	}
	steps[n] = definition.Step{ID: "join", Action: "util.noop", DependsOn: ids}
	if p, err = b.pipeline(ctx, "bench-fanout", steps...); err != nil {
		return nil, nil, err
	}
	lone, err = b.pipeline(ctx, "bench-lone", definition.Step{ID: "a", Action: "util.noop"})
	return p, lone, err
}

// inFlight is how many diamonds run at a time.
const inFlight = 100

func (b *benchLoad) diamond(ctx context.Context, r *benchResult) error {
	noop := func(id string, after ...string) definition.Step {
		return definition.Step{ID: id, Action: "util.noop", DependsOn: after}
	}
	p, err := b.pipeline(ctx, "bench-diamond", noop("a"), noop("b", "a"), noop("c", "a"), noop("d", "b", "c"))
	if err != nil {
		return err
	}
	times := make([]time.Duration, r.N)
	next := make(chan int)
	failed := make(chan error, inFlight)
	var group sync.WaitGroup
	began := time.Now()
	for range inFlight {
		group.Go(func() {
			for i := range next {
				at := time.Now()
				if err := b.run(ctx, p); err != nil {
					failed <- err
					for range next { // let the others be handed out
					}
					return
				}
				times[i] = time.Since(at)
			}
		})
	}
	for i := range r.N {
		next <- i
	}
	close(next)
	group.Wait()
	r.total(time.Since(began), 4*r.N)
	r.percentiles(times)
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func (r *benchResult) total(took time.Duration, steps int) {
	r.MS = ms(took)
	r.MSPerStep = r.MS / float64(steps)
	r.StepsPerS = float64(steps) / took.Seconds()
}

func (r *benchResult) percentiles(times []time.Duration) {
	slices.Sort(times)
	r.P50, r.P99 = ms(times[len(times)/2]), ms(times[len(times)*99/100])
}
