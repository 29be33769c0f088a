// Package worker runs steps: it pulls tasks from the queue, renders their parameters, calls the
// action's handler within its time limit, and reports what became of it (specification:
// pipeline-steps, "Step Execution by Workers").
//
// A pool owns its goroutines: Run returns when all have ended. Drain stops pulling and lets what
// runs finish. A handler that ignores the end of its context is abandoned after a grace period:
// its step is reported as timed out or cancelled, a fresh goroutine takes its place, and whatever
// it returns later is dropped.
package worker

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/queue"
	"github.com/stepwell/stepwell/store"
)

// Reporter takes what happened to a task. Spawned and Running return once they are durable;
// outcomes return at once, and are repeated by the step's next attempt if they get lost.
type Reporter interface {
	Report(ctx context.Context, run int64, ev engine.Event) error
}

// Records is what running steps read and write beside their outcome; the store has it.
type Records interface {
	Memo(ctx context.Context, execution int64, step int32, key string) (json.RawMessage, bool, error)
	PutMemo(ctx context.Context, m store.Memo) error
	Outputs(ctx context.Context, execution int64) iter.Seq2[engine.StepRow, error]
}

// Options configure a Pool. Queue, Actions, Reporter, Records and Blobs are required.
type Options struct {
	Queue    queue.Queue
	Actions  *action.Registry
	Reporter Reporter
	Records  Records
	Blobs    store.Blobs
	// Lines takes the steps' log lines. Defaults to dropping them.
	Lines func(store.LogLine)
	// Progress takes the steps' own progress. Defaults to dropping it.
	Progress func(run int64, idx int32, fraction float64, note string)
	// Name says who ran a step. Defaults to "local".
	Name string
	// Concurrency is how many steps run at once. Defaults to four for each processor, at least 8.
	Concurrency int
	// Grace is how long a handler may go on after its context ended. Defaults to 15 seconds.
	Grace time.Duration
	// SeenRunning is after how long a running step is recorded as such. Defaults to one second.
	SeenRunning time.Duration
	// Log takes the pool's own messages. Defaults to slog.Default.
	Log *slog.Logger
}

func (o *Options) validate() error {
	if o.Queue == nil || o.Actions == nil || o.Reporter == nil || o.Records == nil || o.Blobs == nil {
		return errors.New("worker: Queue, Actions, Reporter, Records and Blobs are required")
	}
	if o.Concurrency <= 0 {
		o.Concurrency = max(8, 4*runtime.NumCPU())
	}
	if o.Grace <= 0 {
		o.Grace = 15 * time.Second
	}
	if o.SeenRunning <= 0 {
		o.SeenRunning = time.Second
	}
	if o.Name == "" {
		o.Name = "local"
	}
	if o.Lines == nil {
		o.Lines = func(store.LogLine) {}
	}
	if o.Progress == nil {
		o.Progress = func(int64, int32, float64, string) {}
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return nil
}

// Pool is a set of workers in one process.
type Pool struct {
	o       Options
	drained chan struct{}
	once    sync.Once

	mu      sync.Mutex
	jobs    map[taskID]*job
	revoked map[taskID]struct{}
	live    sync.WaitGroup
	ctx     context.Context // of the handlers: ends when Run's does
}

type taskID struct {
	run   int64
	idx   int32
	epoch uint32
}

// New makes a pool.
func New(o Options) (*Pool, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	return &Pool{o: o, drained: make(chan struct{}), jobs: map[taskID]*job{}, revoked: map[taskID]struct{}{}}, nil
}

// Run pulls and runs tasks until ctx ends, which also ends the handlers' contexts, or until Drain
// has been called and the last handler has returned.
func (p *Pool) Run(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	p.ctx = ctx
	pull, endPull := context.WithCancel(ctx)
	defer endPull()
	for range p.o.Concurrency {
		p.live.Go(func() { p.loop(pull) })
	}
	watching, endWatch := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() { defer close(watched); p.watch(watching, pull) }()
	select {
	case <-ctx.Done():
	case <-p.drained:
	}
	endPull()
	p.live.Wait()
	endWatch()
	<-watched
	return ctx.Err()
}

// Drain stops pulling. It returns at once.
func (p *Pool) Drain() { p.once.Do(func() { close(p.drained) }) }

// Idle reports whether no handler runs.
func (p *Pool) Idle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.jobs) == 0
}

// Revoke ends the context of a task, now or when it is pulled. Its outcome is reported as usual.
func (p *Pool) Revoke(run int64, idx int32, epoch uint32) {
	id := taskID{run, idx, epoch}
	p.mu.Lock()
	defer p.mu.Unlock()
	if j := p.jobs[id]; j != nil {
		j.cancel(errRevoked)
		return
	}
	p.revoked[id] = struct{}{}
}

// loop is one worker: pull a task, run it, again.
func (p *Pool) loop(ctx context.Context) {
	var leases []queue.Lease
	for {
		var err error
		if leases, err = p.pull(ctx, leases[:0]); err != nil {
			if ctx.Err() == nil && !errors.Is(err, queue.ErrClosed) {
				p.o.Log.Error("pull failed", "error", err)
				select {
				case <-ctx.Done():
				case <-time.After(time.Second):
					continue
				}
			}
			return
		}
		for i := range leases {
			task, ok := leases[i].Body.(*engine.Task)
			if !ok {
				p.o.Log.Error("a message without a task was dropped", "run", leases[i].Run, "step", leases[i].Idx)
				continue
			}
			if abandoned := p.run(task); abandoned {
				return // another goroutine has taken this one's place
			}
		}
		if err := p.o.Queue.Ack(ctx, leases); err != nil && ctx.Err() == nil {
			p.o.Log.Error("acknowledgement failed", "error", err)
		}
	}
}

type pullerInto interface {
	PullInto(ctx context.Context, into []queue.Lease, max int) ([]queue.Lease, error)
}

func (p *Pool) pull(ctx context.Context, into []queue.Lease) ([]queue.Lease, error) {
	if q, ok := p.o.Queue.(pullerInto); ok {
		return q.PullInto(ctx, into, 1)
	}
	return p.o.Queue.Pull(ctx, 1)
}
