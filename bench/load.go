package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
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

// result is one run of a workload of no-op steps.
type result struct {
	Workload  string  `json:"workload"`
	N         int     `json:"n"`
	MS        float64 `json:"ms"`
	MSPerStep float64 `json:"ms_per_step"`
	StepsPerS float64 `json:"steps_per_s"`
	P50       float64 `json:"p50_ms"`
	P99       float64 `json:"p99_ms"`
	RSS       float64 `json:"rss_mb"`
	Lone      float64 `json:"lone_ms,omitempty"` // a one-step execution submitted in the middle
	// Compiling and storing the pipeline before it is started, which happens once per version: not
	// part of the figures above.
	PrepareMS  float64 `json:"prepare_ms"`
	PrepareRSS float64 `json:"prepare_rss_mb"`
	Store      string  `json:"store"`
	Queue      string  `json:"queue"`
	Sync       string  `json:"sync"`
	Fsync      float64 `json:"fsync_p50_ms"`
	Costs      *costs  `json:"costs,omitempty"`
}

func (r *result) head() string {
	return fmt.Sprintf("%-8s %-6s %8s %10s %12s %12s %9s %9s %8s %9s", "workload", "sync", "n", "ms", "ms/step", "steps/s", "p50 ms", "p99 ms", "rss MB", "fsync ms")
}

func (r *result) text() string {
	text := fmt.Sprintf("%-8s %-6s %8d %10.1f %12.4f %12.0f %9.3f %9.3f %8.1f %9.3f", r.Workload, r.Sync, r.N, r.MS, r.MSPerStep, r.StepsPerS, r.P50, r.P99, r.RSS, r.Fsync)
	if r.Lone > 0 {
		text += fmt.Sprintf("  lone %.1f ms", r.Lone)
	}
	return text + r.Costs.text()
}

// load is the running product, prepared for a workload.
type load struct {
	*bench
	app    *app.App
	marks  chan time.Time // when a marking step's code began
	halves chan struct{}  // the fan-out is half done
	result *result
	times  []time.Duration // of a fan-out's steps; the conductor's until the execution has ended
	before usage
}

// steps runs a workload of no-op steps as often as is asked for, with both kinds of commits in turns.
func (b *bench) steps() error {
	if b.Nodes > 0 && !b.member {
		return b.onNodes()
	}
	kinds := []string{b.Sync}
	if b.Sync == "both" {
		kinds = []string{"full", "normal"}
	}
	for run := range b.Runs {
		for _, kind := range kinds {
			db := b.Store
			if db == "" {
				db = "sqlite:" + filepath.Join(b.dir, fmt.Sprintf("%s-%s-%d.db", b.workload, kind, run))
			}
			r, err := b.stepsOnce(app.Options{DB: db, Synchronous: kind, Workers: b.Workers})
			if err != nil {
				return err
			}
			b.all = append(b.all, r)
			if err := b.print(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// stepsOnce opens the product, runs the workload once and closes it again.
func (b *bench) stepsOnce(o app.Options) (r *result, err error) {
	kind, _, _ := strings.Cut(o.DB, ":")
	r = &result{Workload: b.workload, N: b.n, Store: kind, Queue: b.apart(), Sync: o.Synchronous, Fsync: b.fsync}
	l := &load{bench: b, marks: make(chan time.Time, b.n+1), halves: make(chan struct{}, 1), result: r}
	o.Register, o.Observe = l.register, l.observe(b.n)
	if b.shared() { // a database that others share has a named key
		o.MasterKey.Text = masterKey()
	}
	with := withApp
	if b.WorkersIn > 0 {
		halves := o.Observe
		o.Observe = func(u *conductor.Update) { halves(u); l.observeMarks(u) }
	}
	if b.WorkersIn > 0 || b.member {
		with = func(ctx context.Context, o app.Options, f func(context.Context, *app.App) error) error {
			return b.withWorkers(ctx, o, f)
		}
	}
	err = with(b.ctx, o, func(ctx context.Context, a *app.App) error {
		l.app = a
		return map[string]func(context.Context, *result) error{"start": l.start, "chain": l.chain, "fanout": l.fanout, "diamond": l.diamond}[b.workload](ctx, r)
	})
	r.RSS = peakMB()
	return r, err
}

// withApp opens the product, lets f use it while it runs, and closes it again.
func withApp(ctx context.Context, o app.Options, f func(context.Context, *app.App) error) (err error) {
	o.Log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	a, err := app.New(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	ctx, stop := context.WithCancel(ctx)
	ran := make(chan error, 1)
	go func() { ran <- a.Run(ctx) }()
	defer func() { stop(); err = errors.Join(err, <-ran) }()
	return f(ctx, a)
}

// register adds the step that notes when its code began.
func (l *load) register(r *action.Registry) error {
	mark := action.HandlerFunc(func(_ context.Context, call *action.Call) (any, error) {
		l.marks <- time.Now()
		if l.Bytes == 0 {
			return nil, nil
		}
		return markAt{Data: call.Params[dataParam]}, nil
	})
	return errors.Join(r.Add(action.Action{Spec: markSpec, Handler: mark}), r.Add(echo))
}

// dataParam is the parameter that passes Options.Bytes from step to step.
const dataParam = "data"

var markSpec = spec.Spec{Name: "bench.mark", Summary: "Notes the time.", OpenParams: true, OpenOutputs: true}

// echo is the step without an effect that gives back what it is given.
var echo = action.Action{Spec: spec.Spec{Name: "bench.echo", Summary: "Gives back its parameter.", OpenParams: true, OpenOutputs: true},
	Handler: action.HandlerFunc(func(_ context.Context, call *action.Call) (any, error) {
		return markAt{Data: call.Params[dataParam]}, nil
	})}

// observe reports when half of a fan-out of n steps has ended, and records the time of its steps from being queued to
// their end.
func (l *load) observe(n int) func(*conductor.Update) {
	return func(u *conductor.Update) {
		if l.times != nil && u.Progress.Total > n {
			for i := range u.Rows {
				l.times = append(l.times, time.Duration(u.Rows[i].Ended-u.Rows[i].Queued)*time.Microsecond)
			}
		}
		if u.Progress.Total > n && u.Progress.Completed >= n/2 {
			select {
			case l.halves <- struct{}{}:
			default:
			}
		}
	}
}

// pipeline compiles and stores a pipeline, which is measured apart.
func (l *load) pipeline(ctx context.Context, name string, steps ...definition.Step) (*conductor.Pipeline, error) {
	resetPeak()
	began := time.Now()
	d := &definition.Definition{Name: name, Steps: steps}
	if l.Bytes > 0 {
		l.pass(d)
	}
	p, err := l.app.Conductor.Register(ctx, d)
	l.result.PrepareMS += ms(time.Since(began))
	l.result.PrepareRSS = max(l.result.PrepareRSS, peakMB())
	clear(steps) // the caller's memory of the document is not needed any more
	resetPeak()
	return p, err
}

// pass has every step take the data of the one before it, the first ones of the execution.
func (l *load) pass(d *definition.Definition) {
	d.Parameters = []definition.Parameter{{Name: dataParam, Type: "string"}}
	for i := range d.Steps {
		s := &d.Steps[i]
		from := "params"
		if len(s.DependsOn) > 0 {
			from = "steps." + s.DependsOn[0] + ".outputs"
		}
		s.Params = map[string]any{dataParam: "{{ " + from + "." + dataParam + " }}"}
		if s.Action == "util.noop" {
			s.Action = echo.Spec.Name
		}
	}
}

// run starts an execution and waits for its end.
func (l *load) run(ctx context.Context, p *conductor.Pipeline) error {
	r := conductor.Request{Pipeline: p}
	if l.Bytes > 0 {
		r.Params = map[string]any{dataParam: strings.Repeat("x", l.Bytes)}
	}
	return execute(ctx, l.app, r)
}

// begin takes the time when the workload begins, and what has been used up to then.
func (l *load) begin(ctx context.Context) (at time.Time, err error) {
	if l.member {
		err = await()
	}
	if err == nil {
		l.before, err = l.usage(ctx)
	}
	return time.Now(), err
}

// end gives the figures of a number of steps since began.
func (l *load) end(ctx context.Context, began time.Time, steps int) error {
	l.result.total(time.Since(began), steps)
	after, err := l.usage(ctx)
	l.result.Costs = after.since(&l.before, steps)
	if err == nil && l.member {
		err = await()
	}
	return err
}

// execute runs an execution to its end, which must be a good one.
func execute(ctx context.Context, a *app.App, r conductor.Request) error {
	id, err := a.Conductor.Start(ctx, r)
	if err != nil {
		return err
	}
	x, err := a.Conductor.Wait(ctx, id)
	if err == nil && x.Status != stepwell.ExecutionCompleted {
		err = fmt.Errorf("execution %s is %s: %+v", id, x.Status, x.Failure)
	}
	return err
}

func (l *load) start(ctx context.Context, r *result) error {
	p, err := l.pipeline(ctx, "bench-start", definition.Step{ID: "a", Action: "bench.mark"})
	if err != nil {
		return err
	}
	times := make([]time.Duration, r.N)
	began, err := l.begin(ctx)
	if err != nil {
		return err
	}
	for i := range times {
		at := time.Now()
		if err := l.run(ctx, p); err != nil {
			return err
		}
		times[i] = (<-l.marks).Sub(at)
	}
	r.percentiles(times)
	return l.end(ctx, began, r.N)
}

func (l *load) chain(ctx context.Context, r *result) error {
	steps := make([]definition.Step, r.N)
	for i := range steps {
		steps[i] = definition.Step{ID: fmt.Sprintf("s%d", i), Action: "bench.mark"}
		if i > 0 {
			steps[i].DependsOn = []string{steps[i-1].ID}
		}
	}
	p, err := l.pipeline(ctx, "bench-chain", steps...)
	if err != nil {
		return err
	}
	began, err := l.begin(ctx)
	if err != nil {
		return err
	}
	if err := l.run(ctx, p); err != nil {
		return err
	}
	if err := l.end(ctx, began, r.N); err != nil {
		return err
	}
	times, last := make([]time.Duration, r.N), began
	for i := range times {
		at := <-l.marks
		times[i], last = at.Sub(last), at
	}
	r.percentiles(times)
	return nil
}

func (l *load) fanout(ctx context.Context, r *result) error {
	p, lone, err := l.fanoutPipelines(ctx, r.N)
	if err != nil {
		return err
	}
	l.times = make([]time.Duration, 0, r.N+1)
	alone := make(chan error, 1)
	began, err := l.begin(ctx)
	if err != nil {
		return err
	}
	go func() {
		if r.N < 10_000 {
			alone <- nil
			return
		}
		<-l.halves
		at := time.Now()
		err := l.run(ctx, lone)
		r.Lone = ms(time.Since(at))
		alone <- err
	}()
	if err := l.run(ctx, p); err != nil {
		return err
	}
	if err := l.end(ctx, began, r.N); err != nil {
		return err
	}
	r.percentiles(l.times)
	return <-alone
}

func (l *load) fanoutPipelines(ctx context.Context, n int) (p, lone *conductor.Pipeline, err error) {
	steps := make([]definition.Step, n+1)
	ids := make([]string, n)
	for i := range n {
		ids[i] = fmt.Sprintf("s%d", i)
		steps[i] = definition.Step{ID: ids[i], Action: "util.noop"}
	}
	steps[n] = definition.Step{ID: "join", Action: "util.noop", DependsOn: ids}
	if p, err = l.pipeline(ctx, "bench-fanout", steps...); err != nil {
		return nil, nil, err
	}
	lone, err = l.pipeline(ctx, "bench-lone", definition.Step{ID: "a", Action: "util.noop"})
	return p, lone, err
}

// inFlight is how many diamonds run at a time.
const inFlight = 100

func (l *load) diamond(ctx context.Context, r *result) error {
	noop := func(id string, after ...string) definition.Step {
		return definition.Step{ID: id, Action: "util.noop", DependsOn: after}
	}
	p, err := l.pipeline(ctx, "bench-diamond", noop("a"), noop("b", "a"), noop("c", "a"), noop("d", "b", "c"))
	if err != nil {
		return err
	}
	times := make([]time.Duration, r.N)
	next := make(chan int)
	failed := make(chan error, inFlight)
	var group sync.WaitGroup
	began, err := l.begin(ctx)
	if err != nil {
		return err
	}
	for range inFlight {
		group.Go(func() {
			for i := range next {
				at := time.Now()
				if err := l.run(ctx, p); err != nil {
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
	err = l.end(ctx, began, 4*r.N)
	r.percentiles(times)
	select {
	case failure := <-failed:
		return errors.Join(failure, err)
	default:
		return err
	}
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func (r *result) total(took time.Duration, steps int) {
	r.MS = ms(took)
	r.MSPerStep = r.MS / float64(steps)
	r.StepsPerS = float64(steps) / took.Seconds()
}

func (r *result) percentiles(times []time.Duration) {
	slices.Sort(times)
	r.P50, r.P99 = ms(times[len(times)/2]), ms(times[len(times)*99/100])
}
