package kube

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
)

// Awaited is a step that awaits the end of a job.
type Awaited struct {
	Key       string // of the signal
	Execution string // id
	Run       int64  // its number
	Step      int32
	StepKey   string
	Attempt   int
}

// Steps are the steps of the executions that this process runs.
type Steps interface {
	// Awaited lists those that await a signal whose key begins with SignalPrefix.
	Awaited(ctx context.Context) ([]Awaited, error)
	// Signal ends the steps that await the key, as the answer says. It may be given twice.
	Signal(ctx context.Context, key string, answer []byte) (delivered bool, err error)
	// Line adds a line to the step's log.
	Line(a *Awaited, at time.Time, level slog.Level, pod, text string)
	// LastLine is the time of the last line that the step's log has of a pod, and how many lines have that time; zero: it has none.
	LastLine(ctx context.Context, a *Awaited, pod string) (at time.Time, same int, err error)
	// Ended reports whether an execution is known, and whether it has ended.
	Ended(ctx context.Context, execution string) (known, ended bool, err error)
}

// Times of the observer.
const (
	refreshEvery = 30 * time.Second // of the list of awaited jobs
	expectEvery  = 200 * time.Millisecond
	expectFor    = 30 * time.Second
	checkEvery   = time.Minute // of the clusters' health
	sweepEvery   = time.Hour
	idleAfter    = 10 * time.Minute // a namespace in which nothing is awaited is watched no more
)

// Observer watches the jobs that steps await: it ends the steps, and brings the pods' lines into their logs. Nothing depends on it but
// how soon: a step looks at its job every five minutes by itself. A process that runs executions has one; it makes no requests for jobs as
// long as none is awaited.
type Observer struct {
	clusters *Clusters
	steps    Steps
	log      *slog.Logger
	offer    func(context.Context, *Ended) error // nil: ended jobs of CronJobs are not announced
	streams  chan struct{}                       // of logs that are followed

	unstreamed atomic.Int64 // logs that are followed without one

	mu       sync.Mutex
	expected map[string]time.Time // keys of jobs that were created a moment ago
	woken    chan struct{}
	watchers map[place]*watcher
	running  sync.WaitGroup
}

// place is a namespace of a cluster.
type place struct{ cluster, namespace string }

// NewObserver makes one. Expect may be called at once.
func NewObserver(c *Clusters, log *slog.Logger) *Observer {
	return &Observer{clusters: c, log: log, streams: make(chan struct{}, maxStreams), expected: map[string]time.Time{}, woken: make(chan struct{}, 1), watchers: map[place]*watcher{}}
}

// Expect says that a step is about to await a job.
func (o *Observer) Expect(key string) {
	o.mu.Lock()
	o.expected[key] = time.Now()
	o.mu.Unlock()
	o.Wake()
}

// Wake has the steps that await jobs read again soon, as after executions were taken over from another process.
func (o *Observer) Wake() {
	select {
	case o.woken <- struct{}{}:
	default:
	}
}

// Run watches until ctx ends.
func (o *Observer) Run(ctx context.Context, steps Steps) error {
	o.steps = steps
	ctx, end := context.WithCancel(ctx)
	defer o.running.Wait()
	defer end()
	o.running.Go(func() { o.every(ctx, checkEvery, o.check) })
	o.running.Go(func() { o.every(ctx, sweepEvery, o.sweep) })
	if o.offer != nil {
		o.running.Go(func() { o.every(ctx, endedEvery, o.announce) })
	}
	failing := false
	for {
		err := o.refresh(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && !failing {
			o.log.Warn("the steps that await jobs cannot be read; it will be retried", "error", err)
		}
		failing = err != nil
		o.wait(ctx)
	}
}

// every does something now and then.
func (o *Observer) every(ctx context.Context, pause time.Duration, do func(context.Context)) {
	for do(ctx); action.Pause(ctx, pause) == nil; {
		do(ctx)
	}
}

// wait returns when the list of awaited jobs is to be read again.
func (o *Observer) wait(ctx context.Context) {
	o.mu.Lock()
	pause := refreshEvery
	if len(o.expected) > 0 {
		pause = expectEvery
	}
	o.mu.Unlock()
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-o.woken:
		_ = action.Pause(ctx, expectEvery/4) // several begin at once
	}
}

// refresh reads which jobs are awaited, and watches where they are.
func (o *Observer) refresh(ctx context.Context) error {
	begun := time.Now()
	if len(o.clusters.all()) == 0 {
		return nil
	}
	all, err := o.steps.Awaited(ctx)
	if err != nil {
		return err
	}
	awaited := map[place]map[string]*waiting{}
	o.mu.Lock()
	for i := range all {
		a := &all[i]
		w, ok := parseKey(a.Key)
		if !ok {
			continue
		}
		delete(o.expected, a.Key)
		at := place{w.Cluster, w.Namespace}
		if awaited[at] == nil {
			awaited[at] = map[string]*waiting{}
		}
		awaited[at][w.UID] = &waiting{Awaited: *a, work: w}
	}
	maps.DeleteFunc(o.expected, func(_ string, since time.Time) bool { return begun.Sub(since) > expectFor })
	watchers := maps.Clone(o.watchers)
	o.mu.Unlock()
	for at := range awaited {
		if watchers[at] == nil {
			watchers[at] = o.watch(ctx, at)
		}
	}
	for at, w := range watchers {
		if w != nil && w.await(awaited[at], begun) {
			o.mu.Lock()
			delete(o.watchers, at)
			o.mu.Unlock()
			w.end()
		}
	}
	return nil
}

// watch begins to watch a namespace; nil: its cluster is not one of the settings any more.
func (o *Observer) watch(ctx context.Context, at place) *watcher {
	cluster, err := o.clusters.Find(at.cluster)
	if err != nil {
		return nil
	}
	ctx, end := context.WithCancel(ctx)
	w := newWatcher(o, cluster, at.namespace, end)
	o.mu.Lock()
	o.watchers[at] = w
	o.mu.Unlock()
	o.running.Go(func() { w.run(ctx) })
	return w
}

// parseKey reads a key of work.key.
func parseKey(key string) (w work, ok bool) {
	parts := strings.Split(strings.TrimPrefix(key, SignalPrefix), "/")
	if !strings.HasPrefix(key, SignalPrefix) || len(parts) != 5 || slices.Contains(parts, "") {
		return w, false
	}
	return work{Cluster: parts[1], Namespace: parts[2], Name: parts[3], UID: parts[4]}, true
}

// check asks each cluster how it is.
func (o *Observer) check(ctx context.Context) {
	for id, c := range o.clusters.all() {
		before := c.status().State
		ctx, end := context.WithTimeout(ctx, requestTimeout)
		err := c.Check(ctx)
		end()
		switch after := c.status().State; {
		case ctx.Err() != nil && err == nil, after == before:
		case after == StateFailing:
			o.log.Warn("a Kubernetes cluster fails; steps that work on it wait", "cluster", id, "error", err)
		case before == StateFailing:
			o.log.Info("a Kubernetes cluster is well again", "cluster", id)
		}
	}
}

// answer is the body of the signal that ends a step.
type answer struct {
	Status  string         `json:"status,omitempty"`
	Outputs map[string]any `json:"outputs,omitempty"`
	Error   string         `json:"error,omitempty"`
	Code    stepwell.Code  `json:"code,omitempty"`
	Hint    string         `json:"hint,omitempty"`
	Final   bool           `json:"final,omitempty"`
	By      string         `json:"by,omitempty"`
}

func answerOf(out map[string]any, err error) ([]byte, error) {
	a := answer{Outputs: out, By: "kubernetes"}
	if err != nil {
		a = answer{Status: "failed", Error: err.Error(), Code: stepwell.CodeOf(err), Hint: stepwell.HintOf(err), Final: action.IsFail(err), By: "kubernetes"}
	}
	return json.Marshal(a)
}
