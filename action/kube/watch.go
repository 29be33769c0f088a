package kube

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/action"
)

// Times and limits of a watch.
const (
	watchFor     = 290 * time.Second // asked of the server
	watchSilence = 320 * time.Second // after which it is taken for dead
	relistFirst  = 500 * time.Millisecond
	relistMost   = 30 * time.Second
	tickEvery    = time.Second
	maxSettling  = 16 // outcomes that are looked at at once in a namespace
	settlePause  = time.Second
	settleMost   = 30 * time.Second
	refusedEvery = 10 * time.Second // looks for the reason that a job has no pods
	refusedAfter = 3 * time.Second
)

// waiting is a job that a step awaits. All but the first two belong to the watcher's lock.
type waiting struct {
	Awaited
	work

	settling bool
	settled  bool
	tries    int
	next     time.Time // of the next look at its end
	told     string    // the last reason for not starting that the log has
	asked    time.Time // when events were last looked at
	pods     map[string]*following
}

// watcher watches the jobs and pods of this installation in a namespace.
type watcher struct {
	o         *Observer
	cluster   *Cluster
	namespace string
	end       context.CancelFunc
	changed   chan struct{}
	slots     chan struct{}
	settling  sync.WaitGroup

	mu      sync.Mutex
	synced  bool
	jobs    map[string]*job            // by uid
	pods    map[string]map[string]*pod // by the job's uid and the pod's name
	awaited map[string]*waiting        // by uid
	idle    time.Time                  // since when nothing is awaited
}

func newWatcher(o *Observer, c *Cluster, namespace string, end context.CancelFunc) *watcher {
	return &watcher{o: o, cluster: c, namespace: namespace, end: end, changed: make(chan struct{}, 1), slots: make(chan struct{}, maxSettling),
		jobs: map[string]*job{}, pods: map[string]map[string]*pod{}, awaited: map[string]*waiting{}, idle: time.Now()}
}

// await says which jobs are awaited now, and reports whether nothing has been for long.
func (w *watcher) await(now map[string]*waiting, at time.Time) (idle bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for uid, before := range w.awaited {
		if now[uid] != nil || before.settling {
			continue
		}
		delete(w.awaited, uid)
		for _, f := range before.pods {
			f.leave()
		}
		if j := w.jobs[uid]; j != nil && j.ended() { // a look of the step's own has found its end
			w.settling.Go(func() { w.release(context.Background(), before, j) })
		}
	}
	for uid, a := range now {
		if w.awaited[uid] == nil {
			a.pods = map[string]*following{}
			w.awaited[uid] = a
		}
	}
	if len(w.awaited) > 0 {
		w.idle = at
	}
	w.wake()
	return at.Sub(w.idle) > idleAfter
}

func (w *watcher) wake() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// run watches until ctx ends.
func (w *watcher) run(ctx context.Context) {
	defer w.settling.Wait()
	w.settling.Go(func() { w.act(ctx) })
	pause, failing := relistFirst, false
	for ctx.Err() == nil {
		begun := time.Now()
		err := w.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(begun) > relistMost {
			pause, failing = relistFirst, false
		}
		if err != nil && !failing {
			failing = true
			w.o.log.Warn("jobs are not watched for now; steps look at theirs every five minutes", "cluster", w.cluster.id, "namespace", w.namespace, "error", err)
		}
		if action.Pause(ctx, pause) != nil {
			return
		}
		pause = min(2*pause, relistMost)
	}
}

// follow lists jobs and pods, and watches them until one of the watches ends badly.
func (w *watcher) follow(ctx context.Context) error {
	k, err := w.cluster.connect(ctx)
	if err != nil {
		return err
	}
	selector := labelInstance + "=" + label(w.o.clusters.o.Instance())
	jobs, jobsAt, err := listAll[job](ctx, k, jobPath(w.namespace, ""), selector)
	if err != nil {
		return err
	}
	pods, podsAt, err := listAll[pod](ctx, k, corePath(w.namespace, "pods", ""), selector)
	if err != nil {
		return err
	}
	w.replace(jobs, pods)
	ctx, end := context.WithCancel(ctx)
	defer end()
	ended := make(chan error, 2)
	go func() {
		ended <- watch(ctx, k, jobPath(w.namespace, ""), selector, jobsAt, func(j *job) *meta { return &j.Metadata }, w.sawJob)
	}()
	go func() {
		ended <- watch(ctx, k, corePath(w.namespace, "pods", ""), selector, podsAt, func(p *pod) *meta { return &p.Metadata }, w.sawPod)
	}()
	err = <-ended
	end()
	<-ended
	return err
}

func (w *watcher) replace(jobs []job, pods []pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.synced = true
	clear(w.jobs)
	clear(w.pods)
	for i := range jobs {
		w.jobs[jobs[i].Metadata.UID] = &jobs[i]
	}
	for i := range pods {
		w.putPod(&pods[i])
	}
	w.wake()
}

func (w *watcher) putPod(p *pod) {
	uid := jobOf(p)
	if w.pods[uid] == nil {
		w.pods[uid] = map[string]*pod{}
	}
	w.pods[uid][p.Metadata.Name] = p
}

func jobOf(p *pod) string { return p.Metadata.Labels["batch.kubernetes.io/controller-uid"] }

func (w *watcher) sawJob(deleted bool, j *job) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if deleted {
		delete(w.jobs, j.Metadata.UID)
	} else {
		w.jobs[j.Metadata.UID] = j
	}
	w.wake()
}

func (w *watcher) sawPod(deleted bool, p *pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !deleted {
		w.putPod(p)
	} else if of := w.pods[jobOf(p)]; of != nil {
		if delete(of, p.Metadata.Name); len(of) == 0 {
			delete(w.pods, jobOf(p))
		}
	}
	w.wake()
}

// watchEvent is one line of a watch.
type watchEvent struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`
}

// watch tells of the changes of a collection, beginning anew where the server ended it in good order. It returns when the collection has
// to be listed again.
func watch[T any](ctx context.Context, k *client, path, selector, version string, about func(*T) *meta, saw func(deleted bool, o *T)) error {
	for {
		err := watchOnce(ctx, k, path, selector, &version, about, saw)
		if err != nil || ctx.Err() != nil {
			return err
		}
	}
}

func watchOnce[T any](ctx context.Context, k *client, path, selector string, version *string, about func(*T) *meta, saw func(deleted bool, o *T)) error {
	ctx, end := context.WithTimeout(ctx, watchSilence)
	defer end()
	begun := time.Now()
	body, err := k.open(ctx, path, url.Values{"labelSelector": {selector}, "watch": {"1"}, "allowWatchBookmarks": {"true"}, "resourceVersion": {*version},
		"timeoutSeconds": {strconv.Itoa(int(watchFor / time.Second))}})
	if err != nil {
		return err
	}
	defer body.Close()
	dec := json.NewDecoder(body)
	for {
		var e watchEvent
		if err := dec.Decode(&e); err != nil {
			if time.Since(begun) < time.Second { // it must not begin anew all the time
				return &stepwell.Error{Code: stepwell.CodeUnavailable, Message: "the watch ended at once", Err: err}
			}
			return nil
		}
		if e.Type == "ERROR" {
			var s struct {
				Code    int    `json:"code"`
				Message string `json:"message"`
			}
			if json.Unmarshal(e.Object, &s) == nil && s.Code == http.StatusGone {
				return errExpired
			}
			return &StatusError{Status: s.Code, Message: s.Message}
		}
		o := new(T)
		if err := json.Unmarshal(e.Object, o); err != nil {
			return err
		}
		*version = about(o).Version
		if e.Type != "BOOKMARK" {
			saw(e.Type == "DELETED", o)
		}
	}
}

// errExpired says that a watch cannot go on from where it was: the collection is listed again.
var errExpired = errors.New("the watch has expired")

// act is the loop that does what the state asks for.
func (w *watcher) act(ctx context.Context) {
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.changed:
		case <-tick.C:
		}
		w.mu.Lock()
		if w.synced {
			now := time.Now()
			for uid, a := range w.awaited {
				w.consider(ctx, a, w.jobs[uid], w.pods[uid], now)
			}
		}
		w.mu.Unlock()
	}
}

// consider does what is due for a job that is awaited.
func (w *watcher) consider(ctx context.Context, a *waiting, j *job, pods map[string]*pod, now time.Time) {
	if a.settled || a.settling || now.Before(a.next) {
		return
	}
	if j != nil && a.Watch == (watchOptions{}) {
		if json.Unmarshal([]byte(j.Metadata.Annotations[noteWatch]), &a.Watch) != nil {
			a.Watch.Logs, a.Watch.TailLines, a.Watch.OutputsFrom, a.Watch.Pending = "none", 1000, "none", 600
		}
	}
	if a.Watch.Logs == "follow" {
		for _, p := range pods {
			w.followPod(ctx, a, p)
		}
	}
	switch {
	case j == nil, j.ended():
		w.settle(ctx, a)
	default:
		w.explain(ctx, a, j, pods, now)
	}
}

// explain says in the step's log why a job does not start, and ends the step when that has lasted too long.
func (w *watcher) explain(ctx context.Context, a *waiting, j *job, pods map[string]*pod, now time.Time) {
	limit := time.Duration(a.Watch.Pending) * time.Second
	for _, p := range pods {
		if why, since := p.stuck(); why != "" {
			w.tell(a, p.Metadata.Name, why)
			if now.Sub(since) > limit {
				w.settle(ctx, a)
			}
			return
		}
	}
	if len(pods) == 0 && !j.Spec.Suspend && j.Status.Active+j.Status.Succeeded+j.Status.Failed == 0 && now.Sub(j.Metadata.Created) > refusedAfter && now.Sub(a.asked) > refusedEvery {
		a.asked = now
		w.settling.Go(func() { w.askEvents(ctx, a) })
		if now.Sub(j.Metadata.Created) > limit {
			w.settle(ctx, a)
		}
	}
}

// tell adds the reason to the step's log, once.
func (w *watcher) tell(a *waiting, pod, why string) {
	if a.told != why {
		a.told = why
		w.o.steps.Line(&a.Awaited, w.o.clusters.o.Now(), slog.LevelWarn, pod, "the job does not start: "+why)
	}
}

func (w *watcher) askEvents(ctx context.Context, a *waiting) {
	k, err := w.cluster.connect(ctx)
	if err != nil {
		return
	}
	if why, err := k.refusedPods(ctx, w.namespace, a.UID); err == nil && why != "" {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.tell(a, "", why)
	}
}

// settle looks how a job has ended, and ends its step. The caller has the lock.
func (w *watcher) settle(ctx context.Context, a *waiting) {
	a.settling = true
	w.settling.Go(func() {
		if a.Watch.Logs == "follow" {
			w.readLogs(ctx, a)
		}
		select {
		case w.slots <- struct{}{}:
			defer func() { <-w.slots }()
		case <-ctx.Done():
			return
		}
		err := w.report(ctx, a)
		w.mu.Lock()
		defer w.mu.Unlock()
		a.settling = false
		switch {
		case err == nil:
			a.settled = true
		case err == errRuns:
			a.tries, a.next = 0, time.Now().Add(settlePause)
		default:
			a.tries++
			a.next = time.Now().Add(min(settlePause<<min(a.tries, 10), settleMost))
			if a.tries == 3 {
				w.o.log.Warn("the end of a job cannot be told yet", "cluster", w.cluster.id, "job", a.Name, "error", err)
			}
		}
	})
}

// report ends the step of one job; errRuns: it has not ended.
func (w *watcher) report(ctx context.Context, a *waiting) error {
	out, said, err := w.look(ctx, a)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	failed := err
	if err == errRuns || err != nil && !ofJob(err) {
		return err
	}
	if a.Watch.Logs == "end" {
		w.lines(a, said)
	}
	body, err := answerOf(out, failed)
	if err != nil {
		return err
	}
	delivered, err := w.o.steps.Signal(ctx, a.Key, body)
	if err != nil || !delivered {
		return err
	}
	w.mu.Lock()
	j := w.jobs[a.UID]
	w.mu.Unlock()
	if j != nil {
		w.release(ctx, a, j)
	}
	return nil
}

// readLogs waits until the logs of all pods of a job have been read. Those of which the watch has not told yet are asked for.
func (w *watcher) readLogs(ctx context.Context, a *waiting) {
	if j, _ := w.told(a); j == nil {
		w.askPods(ctx, a)
	}
	w.mu.Lock()
	for _, p := range w.pods[a.UID] {
		w.followPod(ctx, a, p)
	}
	followed := maps.Clone(a.pods)
	w.mu.Unlock()
	for _, f := range followed {
		f.await(ctx)
	}
}

func (w *watcher) askPods(ctx context.Context, a *waiting) {
	k, err := w.cluster.connect(ctx)
	if err != nil {
		return
	}
	pods, _ := k.podsOf(ctx, w.namespace, a.UID) // the outcome needs them too, and says so
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range pods {
		w.putPod(&pods[i])
	}
}

// told is a job that has ended and its pods, once the watches have told of the end of all of them; else nil.
func (w *watcher) told(a *waiting) (j *job, pods []pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if j = w.jobs[a.UID]; j == nil || !j.ended() {
		return nil, nil
	}
	for _, p := range w.pods[a.UID] {
		if !p.over() {
			return nil, nil
		}
		pods = append(pods, *p)
	}
	if len(pods) < max(1, j.Status.Succeeded+j.Status.Failed) {
		return nil, nil
	}
	return j, pods
}

// look is Clusters.look, without requests for what the watches have told.
func (w *watcher) look(ctx context.Context, a *waiting) (out map[string]any, said string, err error) {
	if j, pods := w.told(a); j != nil {
		if k, err := w.cluster.connect(ctx); err == nil {
			return k.outcomeOf(ctx, w.cluster, &a.work, j, pods)
		}
	}
	return w.o.clusters.look(ctx, &a.work)
}

// release has an ended job go after its time, unless it is to be kept.
func (w *watcher) release(ctx context.Context, a *waiting, j *job) {
	ctx, end := context.WithTimeout(ctx, requestTimeout)
	defer end()
	if k, err := w.cluster.connect(ctx); err == nil {
		if err := k.limitLife(ctx, w.namespace, j, a.Watch); err != nil && ctx.Err() == nil {
			w.o.log.Debug("a job keeps its time to live for now", "job", a.Name, "error", err)
		}
	}
}

// limitLife sets the time to live of an ended job whose outcome is recorded.
func (k *client) limitLife(ctx context.Context, namespace string, j *job, o watchOptions) error {
	failed := has(j.Status.Conditions, "Failed") != nil
	if !j.ended() || o.Keep == "always" || o.Keep == "failed" && failed || j.Spec.TTL == nil || *j.Spec.TTL != int(safetyTTL/time.Second) || *j.Spec.TTL == o.TTL {
		return nil
	}
	err := k.do(ctx, request{method: http.MethodPatch, path: jobPath(namespace, j.Metadata.Name), kind: mergePatch, body: object{"metadata": object{"uid": j.Metadata.UID}, "spec": object{"ttlSecondsAfterFinished": o.TTL}}}, nil)
	if status := statusOf(err); status == http.StatusNotFound || status == http.StatusConflict {
		return nil
	}
	return err
}
