package kube

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stepwell/stepwell/action"
)

// Limits of logs that are followed.
const (
	maxStreams   = 500 // at once, of all clusters; others are read now and then
	readEvery    = 10 * time.Second
	readRest     = 3      // of those others a second, together: a thousand quiet jobs cost few requests
	maxFollowed  = 10_000 // lines of a pod; of those after them the last ones come at the end
	followAgain  = 500 * time.Millisecond
	followMost   = 10 * time.Second
	followedLate = 3 * time.Second // how long the end of a job waits for its last lines
)

// following is a pod whose log is followed.
type following struct {
	end   context.CancelFunc
	done  chan struct{}
	over  chan struct{} // closed when the container runs no more
	ended sync.Once
}

// await waits until the log has been read to its end, for a while.
func (f *following) await(ctx context.Context) {
	timer := time.NewTimer(followedLate)
	defer timer.Stop()
	select {
	case <-f.done:
	case <-ctx.Done():
	case <-timer.C:
	}
}

// leave ends it in a moment: its last lines may be under way.
func (f *following) leave() { time.AfterFunc(followedLate, f.end) }

// followPod begins to follow the log of a pod that has one. The caller has the lock.
func (w *watcher) followPod(ctx context.Context, a *waiting, p *pod) {
	state := p.first().State
	if f := a.pods[p.Metadata.Name]; f != nil {
		if p.over() {
			f.ended.Do(func() { close(f.over) })
		}
		return
	}
	if state.Running == nil && state.Terminated == nil {
		return
	}
	ctx, end := context.WithCancel(ctx)
	f := &following{end: end, done: make(chan struct{}), over: make(chan struct{})}
	a.pods[p.Metadata.Name] = f
	about, name, container := a.Awaited, p.Metadata.Name, p.first().Name
	tail := a.Watch.TailLines
	uid := a.UID
	w.settling.Go(func() {
		defer close(f.done)
		defer end()
		r := &reader{w: w, a: &about, uid: uid, pod: name, container: container, over: f.over, last: make([]string, 0, 16), keep: tail}
		r.run(ctx)
		if r.waits {
			w.o.unstreamed.Add(-1)
		}
	})
}

// podEnded reports whether a pod's container runs no more.
func (w *watcher) podEnded(uid, name, container string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.pods[uid][name]
	return p == nil || p.over()
}

// over reports that the pod's container runs no more.
func (p *pod) over() bool {
	return p.first().State.Terminated != nil || p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed"
}

// reader brings the lines of one container into the step's log, each once: the time of the last one is where it goes on.
type reader struct {
	w              *watcher
	a              *Awaited
	uid            string
	pod, container string
	over           chan struct{}

	cursor time.Time // the last line's
	same   int       // lines with that time that the step's log has
	resume time.Time // the cursor when the log was opened
	skip   int       // lines with that time that come again
	lines  int
	keep   int      // how many of the lines beyond the limit come at the end
	last   []string // those
	left   int      // how many were left out before them
	waits  bool     // for a stream
}

func (r *reader) run(ctx context.Context) {
	for {
		var err error
		if r.cursor, r.same, err = r.w.o.steps.LastLine(ctx, r.a, r.pod); err == nil {
			break
		}
		if action.Pause(ctx, followMost) != nil {
			return
		}
	}
	pause := followAgain
	for ctx.Err() == nil {
		ended := r.w.podEnded(r.uid, r.pod, r.container) // before it is read: then nothing follows
		n, err := r.read(ctx)
		if n > 0 {
			pause = followAgain
		}
		switch status := statusOf(err); {
		case status == http.StatusForbidden:
			r.w.o.steps.Line(r.a, r.w.o.clusters.o.Now(), slog.LevelWarn, r.pod, "the log cannot be read: "+err.Error())
			return
		case status == http.StatusNotFound, err == nil && ended:
			r.flush()
			return
		}
		r.rest(ctx, pause, ended)
		pause = min(2*pause, followMost)
	}
}

// rest waits before the log is read again: until the container has ended, if it had not.
func (r *reader) rest(ctx context.Context, pause time.Duration, ended bool) {
	over := r.over
	if ended {
		over = nil // the read has failed
	}
	if n := r.w.o.unstreamed.Load(); r.waits {
		pause = max(readEvery, time.Duration(n)*time.Second/readRest)
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-over:
	case <-timer.C:
	}
}

// stream takes one of the streams, or has the log read now and then.
func (r *reader) stream() bool {
	waited := r.waits
	select {
	case r.w.o.streams <- struct{}{}:
		r.waits = false
	default:
		r.waits = true
	}
	if r.waits != waited {
		r.w.o.unstreamed.Add(map[bool]int64{true: 1, false: -1}[r.waits])
	}
	return !r.waits
}

// read reads the log from the cursor to its end, or as long as it goes on.
func (r *reader) read(ctx context.Context) (n int, err error) {
	k, err := r.w.cluster.connect(ctx)
	if err != nil {
		return 0, err
	}
	query := url.Values{"container": {r.container}, "timestamps": {"true"}}
	if r.stream() {
		defer func() { <-r.w.o.streams }()
		query.Set("follow", "true")
	}
	if !r.cursor.IsZero() {
		query.Set("sinceTime", r.cursor.UTC().Truncate(time.Second).Format(time.RFC3339))
	}
	body, err := k.open(ctx, corePath(r.w.namespace, "pods", r.pod)+"/log", query)
	if err != nil {
		return 0, err
	}
	defer body.Close()
	r.resume, r.skip = r.cursor, r.same
	err = lines(body, func(line string) bool {
		if r.take(line) {
			n++
		}
		return ctx.Err() == nil
	})
	if err == io.EOF {
		err = nil
	}
	return n, err
}

// take adds a line, unless it was there already.
func (r *reader) take(line string) bool {
	stamp, text, ok := strings.Cut(line, " ")
	at, err := time.Parse(time.RFC3339Nano, stamp)
	if !ok || err != nil {
		at, text = r.w.o.clusters.o.Now(), line
	} else if at = at.Truncate(time.Microsecond); !r.isNew(at) { // the step's log keeps microseconds
		return false
	}
	text = strings.ToValidUTF8(strings.TrimRight(text, "\r"), "�")
	switch r.lines++; {
	case r.lines <= maxFollowed:
		r.w.o.steps.Line(r.a, at, slog.LevelInfo, r.pod, text)
	default:
		if r.lines == maxFollowed+1 {
			r.w.o.steps.Line(r.a, at, slog.LevelWarn, r.pod, "the log continues after "+strconv.Itoa(maxFollowed)+" lines: its last ones come when the pod ends")
		}
		if len(r.last) == r.keep {
			r.last, r.left = r.last[1:], r.left+1
		}
		r.last = append(r.last, text)
	}
	return true
}

// isNew reports whether the step's log lacks a line with this time, and moves the cursor. Several lines may have the same.
func (r *reader) isNew(at time.Time) bool {
	switch {
	case at.Before(r.resume):
		return false
	case at.Equal(r.resume) && r.skip > 0:
		r.skip--
		return false
	case at.Equal(r.cursor):
		r.same++
	case at.After(r.cursor):
		r.cursor, r.same = at, 1
	}
	return true
}

// flush adds the lines that come at the end.
func (r *reader) flush() {
	now := r.cursor
	if r.left > 0 {
		r.w.o.steps.Line(r.a, now, slog.LevelWarn, r.pod, strconv.Itoa(r.left)+" lines were left out here")
	}
	for _, text := range r.last {
		r.w.o.steps.Line(r.a, now, slog.LevelInfo, r.pod, text)
	}
	r.last = nil
}

// lines adds a text to the step's log.
func (w *watcher) lines(a *waiting, text string) {
	now := w.o.clusters.o.Now()
	for line := range strings.Lines(text) {
		w.o.steps.Line(&a.Awaited, now, slog.LevelInfo, "", strings.TrimRight(line, "\r\n"))
	}
}
