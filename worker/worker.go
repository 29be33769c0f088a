// Package worker runs steps: it pulls tasks from the queue, renders their parameters, calls the
// action's handler within its time limit, and reports the outcome (specification:
// pipeline-steps, "Step Execution by Workers").
//
// A pool owns its goroutines: Run returns when all have ended except those held by an abandoned
// handler. Drain stops pulling and lets running steps finish. A handler that ignores the end of its context is
// abandoned after a grace period: its step is reported as timed out or cancelled, a fresh goroutine
// takes its place, and its late result is dropped. There are never more goroutines than twice
// Concurrency: beyond that, abandoned handlers cost workers.
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

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
	"github.com/stepwell/stepwell/definition"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/queue"
	"github.com/stepwell/stepwell/store"
)

// Reporter receives the reports of tasks. Spawned and Running return once they are durable; outcomes return at once,
// when there is room, or when ctx has ended: they are accepted then too, and a lost one is repeated by the step's
// next attempt.
type Reporter interface {
	Report(ctx context.Context, run int64, ev engine.Event) error
}

// Records stores what running steps record besides outcomes; the store has it.
type Records interface {
	store.Records
	Outputs(ctx context.Context, execution int64) iter.Seq2[engine.StepRow, error]
}

// Progress is a running step's report of its progress.
type Progress struct {
	Fraction float64 // done, 0 to 1; negative: not said
	Note     string
	Counts   *action.Counts // of a stream step, else nil
}

// Options configure a Runner and a Pool. Actions, Reporter, Records and Blobs are required, by a pool Queue too.
type Options struct {
	Queue    queue.Queue
	Actions  *action.Registry
	Reporter Reporter
	Records  Records
	Blobs    store.Blobs
	// Outage is shared with the conductor: refused operations are retried as long as the pool runs, and no attempt is
	// used up. Defaults to a new one.
	Outage *store.Outage
	// Secrets seals secrets in records, and opens them for steps that may read them. Defaults to none.
	Secrets Secrets
	// Lines takes the steps' log lines. Defaults to dropping them.
	Lines func(store.LogLine)
	// Progress takes the steps' own progress. Defaults to dropping it.
	Progress func(run int64, idx int32, p Progress)
	// Name is the recorded runner of a step. Defaults to "local".
	Name string
	// Concurrency is how many steps run at once. Defaults to four for each processor, at least 8.
	Concurrency int
	// Grace is how long a handler may go on after its context ended. Defaults to 15 seconds.
	Grace time.Duration
	// SeenRunning is after how long a running step is recorded as such; one of an execution with a lesson is after a tenth of a
	// second. Defaults to one second.
	SeenRunning time.Duration
	// HeadLines and TailLines limit the kept log lines of an attempt: the first ones, written as they come, and the
	// last ones, written at its end. Lines between are counted. Default to 5,000 and 1,000.
	HeadLines, TailLines int
	// CallbackURL is where something outside can end the step that awaits the key. Defaults to there being no such
	// address.
	CallbackURL func(key string) string
	// Allow is CodeDenied when the author of a definition may not use an action or module. Author is nil for older
	// executions. Defaults to allowing all.
	Allow func(author *definition.Author, action string) error
	// Touch is CodeDenied when steps may not touch a file or directory. Defaults to all.
	Touch func(path string) error
	// Media is the path of a local copy of a lesson's file, which lasts while the step runs. It is asked for when the params
	// of a step name the file of its own execution. Defaults to leaving the name as it is.
	Media func(ctx context.Context, ref, name string) (path string, err error)
	// Price is what an action's calls that began at a time, have ended now and gave the outputs have used and cost. Every call
	// counts, also a failed or a waiting one. Defaults to nothing.
	Price func(action string, calls int, began time.Time, outputs json.RawMessage) stepwell.Spending
	// Orphans calls take whenever this process is to stop what dead processes have given up and not stopped, until ctx ends. Defaults to
	// once, at the start, when no other process is there.
	Orphans func(ctx context.Context, take func(ctx context.Context))
	// Lent says that the steps are another process's, which has their rows of outside work: Cancel is called by CancelFor alone.
	Lent bool
	// CancelElsewhere makes one call of Cancel of an action that workers elsewhere serve (spec.Spec.Cancels); state is the task's,
	// opened. Defaults to nobody serving them.
	CancelElsewhere func(ctx context.Context, t *engine.Task, state json.RawMessage, h action.Host) error
	// Now is the clock of all times that are recorded or decide. Defaults to time.Now.
	Now func() time.Time
	// Log takes the pool's own messages. Defaults to slog.Default.
	Log *slog.Logger
}

func (o *Options) validate() error {
	if o.Actions == nil || o.Reporter == nil || o.Records == nil || o.Blobs == nil {
		return errors.New("worker: Actions, Reporter, Records and Blobs are required")
	}
	if o.Secrets == nil {
		o.Secrets = noSecrets{}
	}
	if o.Outage == nil {
		o.Outage = store.NewOutage(nil)
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
	if o.HeadLines <= 0 {
		o.HeadLines = 5000
	}
	if o.TailLines <= 0 {
		o.TailLines = 1000
	}
	if o.CancelElsewhere == nil {
		o.CancelElsewhere = func(_ context.Context, t *engine.Task, _ json.RawMessage, _ action.Host) error {
			return noAction("process", t.Step.Action)
		}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Name == "" {
		o.Name = "local"
	}
	if o.Lines == nil {
		o.Lines = func(store.LogLine) {}
	}
	if o.Progress == nil {
		o.Progress = func(int64, int32, Progress) {}
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return nil
}

// Pool is a set of workers in one process.
type Pool struct {
	*Runner
	drained chan struct{}
	once    sync.Once
	ctx     context.Context // of the handlers: ends when Run's does
	pulling context.Context // ends when no more tasks are pulled

	live  sync.WaitGroup // workers that Run waits for
	calls sync.WaitGroup // goroutines that cancel outside work

	mu        sync.Mutex
	jobs      map[taskID]*job
	revoked   revoked
	closed    bool // no worker is added any more
	ended     bool // and no call of Cancel
	abandoned int  // handlers that hold a goroutine after their abandonment
	replaced  int  // abandoned ones whose worker was replaced

	cancels    []store.OutsideWork     // to be stopped now
	cancelling int                     // goroutines that do it
	later      []store.OutsideWork     // to be stopped, or looked at, at their times
	loaded     bool                    // the rows of former processes are in later
	own        map[outsideKey]struct{} // the work given up in this process until then
	wake       chan struct{}           // something has come to later
}

type taskID struct {
	run   int64
	idx   int32
	epoch uint32
}

func idOf(t *engine.Task) taskID { return taskID{t.Run, t.Idx, t.Epoch} }

// New makes a pool.
func New(o Options) (*Pool, error) {
	if o.Queue == nil {
		return nil, errors.New("worker: Queue is required")
	}
	r, err := NewRunner(o)
	if err != nil {
		return nil, err
	}
	p := &Pool{Runner: r, drained: make(chan struct{}), wake: make(chan struct{}, 1), jobs: map[taskID]*job{}}
	if !o.Lent {
		r.giveUp = p.Cancel
	}
	return p, nil
}

// Run pulls and runs tasks until ctx ends, which also ends the handlers' contexts, or until Drain
// has been called and the last handler has returned. Either way a handler that ignores the end of its
// context is waited for no longer than Grace. It is called once.
func (p *Pool) Run(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	pull, endPull := context.WithCancel(ctx)
	defer endPull()
	p.mu.Lock()
	p.ctx, p.pulling = ctx, pull
	p.callCancels()
	p.mu.Unlock()
	for range p.o.Concurrency {
		p.employ()
	}
	watching, endWatch := context.WithCancel(context.WithoutCancel(ctx)) // it is needed most when ctx has ended
	watched := make(chan struct{})
	go func() { defer close(watched); p.watch(watching) }()
	retried := make(chan struct{})
	go func() { defer close(retried); p.retryCancels(pull) }()
	select {
	case <-ctx.Done():
	case <-p.drained:
	}
	endPull()
	<-retried
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.live.Wait()
	endWatch()
	<-watched
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	p.calls.Wait()
	return ctx.Err()
}

// employ starts a worker.
func (p *Pool) employ() {
	p.live.Add(1)
	go p.loop()
}

// Drain stops pulling, and stops streams at their checkpoints; they stay in flight. It returns at once.
func (p *Pool) Drain() {
	p.once.Do(func() {
		close(p.drained)
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, j := range p.jobs {
			j.drain()
		}
	})
}

// Concurrency is how many steps run at once.
func (p *Pool) Concurrency() int { return p.o.Concurrency }

// Running is how many do now.
func (p *Pool) Running() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.jobs)
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
	p.revoked.add(id)
}

// loop is one worker: pull a task, run it, again. The goroutine of an abandoned handler ends without
// a word, because it was written off then.
func (p *Pool) loop() {
	var leases []queue.Lease
	for {
		var err error
		if leases, err = p.pull(leases[:0]); err != nil {
			if p.pullAgain(err) {
				continue
			}
			p.live.Done()
			return
		}
		dealt := leases[:0]
		for _, lease := range leases {
			done, abandoned := p.handle(lease)
			if done {
				dealt = append(dealt, lease)
			}
			if abandoned && !p.returned() {
				p.acknowledge(dealt)
				return
			}
		}
		p.acknowledge(dealt)
	}
}

// pullAgain waits a little after an error of the queue. It reports whether to go on.
func (p *Pool) pullAgain(err error) bool {
	if p.pulling.Err() != nil || errors.Is(err, queue.ErrClosed) || errors.Is(err, context.Canceled) {
		return false
	}
	p.o.Log.Error("pull failed", "error", err)
	select {
	case <-p.pulling.Done():
		return false
	case <-time.After(time.Second):
		return true
	}
}

// handle runs the task of a message. A message is dealt with unless the process stops before its task has an outcome.
func (p *Pool) handle(lease queue.Lease) (dealt, abandoned bool) {
	task, ok := lease.Body.(*engine.Task)
	if !ok {
		p.o.Log.Error("a message without a task was dropped", "run", lease.Run, "step", lease.Idx)
		return true, false
	}
	return p.run(task, lease)
}

func (p *Pool) acknowledge(leases []queue.Lease) {
	if len(leases) == 0 {
		return
	}
	if err := p.o.Queue.Ack(context.WithoutCancel(p.ctx), leases); err != nil {
		p.o.Log.Error("acknowledgement failed", "error", err)
	}
}

type pullerInto interface {
	PullInto(ctx context.Context, into []queue.Lease, max int) ([]queue.Lease, error)
}

func (p *Pool) pull(into []queue.Lease) ([]queue.Lease, error) {
	select {
	case <-p.drained: // from the moment of Drain on, and not only from when Run has heard of it
		return nil, context.Canceled
	default:
	}
	if q, ok := p.o.Queue.(pullerInto); ok {
		return q.PullInto(p.pulling, into, 1)
	}
	return p.o.Queue.Pull(p.pulling, 1)
}
