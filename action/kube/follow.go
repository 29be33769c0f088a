package kube

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/stepwell/stepwell/action"
)

// Limits of logs that are followed.
const (
	maxStreams   = 500 // at once, of all clusters; others are read now and then
	readEvery    = 10 * time.Second
	maxFollowed  = 10_000 // lines of a pod; of those after them the last ones come at the end
	followAgain  = 500 * time.Millisecond
	followMost   = 10 * time.Second
	followedLate = 3 * time.Second // how long the end of a job waits for its last lines
)

// following is a pod whose log is followed.
type following struct {
	end  context.CancelFunc
	done chan struct{}
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
	if a.pods[p.Metadata.Name] != nil || state.Running == nil && state.Terminated == nil {
		return
	}
	ctx, end := context.WithCancel(ctx)
	f := &following{end: end, done: make(chan struct{})}
	a.pods[p.Metadata.Name] = f
	about, name, container := a.Awaited, p.Metadata.Name, p.first().Name
	tail := a.Watch.TailLines
	uid := a.UID
	w.settling.Go(func() {
		defer close(f.done)
		defer end()
		r := &reader{w: w, a: &about, uid: uid, pod: name, container: container, last: make([]string, 0, 16), keep: tail}
		r.run(ctx)
	})
}

// podEnded reports whether a pod's container runs no more.
func (w *watcher) podEnded(uid, name, container string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.pods[uid][name]
	return p == nil || p.first().State.Terminated != nil || p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed"
}

// reader brings the lines of one container into the step's log, each once: the time of the last one is where it goes on.
type reader struct {
	w              *watcher
	a              *Awaited
	uid            string
	pod, container string

	cursor time.Time // the last line's
	same   int       // lines with that time that the step's log has
	resume time.Time // the cursor when the log was opened
	skip   int       // lines with that time that come again
	lines  int
	keep   int      // how many of the lines beyond the limit come at the end
	last   []string // those
	left   int      // how many were left out before them
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
		if action.Pause(ctx, pause) != nil {
			return
		}
		pause = min(2*pause, followMost)
	}
}

// read reads the log from the cursor to its end, or as long as it goes on.
func (r *reader) read(ctx context.Context) (n int, err error) {
	k, err := r.w.cluster.connect(ctx)
	if err != nil {
		return 0, err
	}
	query := url.Values{"container": {r.container}, "timestamps": {"true"}}
	select {
	case r.w.o.streams <- struct{}{}:
		defer func() { <-r.w.o.streams }()
		query.Set("follow", "true")
	default:
		defer func() { _ = action.Pause(ctx, readEvery-followMost) }()
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
			r.w.o.steps.Line(r.a, at, slog.LevelWarn, r.pod, "the log goes on after "+strconv.Itoa(maxFollowed)+" lines: its last ones come when the pod ends")
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
