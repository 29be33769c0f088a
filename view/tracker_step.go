package view

import (
	"time"

	"github.com/stepwell/stepwell"
)

// step applies the new status of a step.
func (t *Tracker) step(e *Event) {
	l, is := t.board.find(e.Step)
	e.Type, e.Execution, e.Status, e.child = "step", t.id, e.State.String(), is == child || is == inner
	if is == child && !l.body {
		t.countSpawned(l, e)
	}
	f := t.flights[e.Step]
	switch e.State {
	case stepwell.StepPending: // a restart
		if is == itself {
			*l = line{shape: l.shape}
		}
		t.land(e, l, is, f)
		delete(t.flights, e.Step)
	case stepwell.StepQueued:
		t.queue(e, l, is, f)
	case stepwell.StepRunning:
		if is == itself && l.body {
			t.open(l, e.At, e.Attempt, true)
		} else if f = t.found(e, l, is, f); f != nil {
			t.start(e.Step, f, e.At)
		}
	case stepwell.StepRetrying, stepwell.StepWaiting:
		t.pause(e, l, is, f)
	default:
		t.finish(e, l, is, f)
	}
}

// queue adds a dispatched attempt. The steps around it have begun.
func (t *Tracker) queue(e *Event, l *line, is kin, f *flight) *flight {
	if f != nil && !f.failed {
		return f
	}
	attempt := max(e.Attempt, 1)
	if f != nil && e.Attempt == 0 {
		attempt = f.attempt + 1
	}
	f = &flight{attempt: attempt, line: l, kin: is, queued: e.At}
	t.flights[e.Step] = f
	switch is {
	case itself:
		t.open(l.parent, e.At, 0, true)
		l.status, l.hidden = stepwell.StepQueued, false
		t.streams = t.streams || l.stream
	case child, inner:
		t.open(l, e.At, 0, true)
	}
	return f
}

// open begins a step that has others inside, and those around it. A step that has ended is begun again, by a restart, only
// if again says so.
func (t *Tracker) open(l *line, at time.Time, attempt int, again bool) {
	if l == nil || !l.body || l.status == stepwell.StepRunning || l.status.Terminal() && !again {
		return
	}
	t.open(l.parent, at, 0, again)
	if attempt == 0 {
		if attempt = 1; l.status == stepwell.StepRetrying {
			attempt = l.attempt + 1
		}
	}
	l.status, l.started, l.attempt, l.hidden, l.message = stepwell.StepRunning, at, attempt, false, ""
	t.opened = append(t.opened, l)
	t.view.show(&Event{At: at, Type: "step", Execution: t.id, Step: l.key, Status: "started", State: stepwell.StepRunning, Attempt: attempt})
}

// start begins an attempt, with the other steps of a segment.
func (t *Tracker) start(key string, f *flight, at time.Time) {
	if f.running || f.failed {
		return
	}
	f.running, f.started = true, at
	if !f.led {
		t.active++
	}
	switch f.kin {
	case itself:
		l := f.line
		l.status, l.started, l.attempt, l.fraction, l.note, l.items = stepwell.StepRunning, at, f.attempt, 0, "", nil
	case child:
		if f.line.running++; f.line.started.IsZero() {
			f.line.started = at
		}
	}
	t.began = Event{At: at, Type: "step", Execution: t.id, Step: key, Status: "started", State: stepwell.StepRunning, Attempt: f.attempt, child: f.kin != itself}
	t.view.show(&t.began)
	for _, with := range f.with {
		if member := t.flights[with]; member != nil {
			t.start(with, member, at)
		}
	}
}

// found is the attempt that e tells of. The stream does not tell that the steps of a segment are dispatched, and tells it of
// others by their number when it is asked before they have a name.
func (t *Tracker) found(e *Event, l *line, is kin, f *flight) *flight {
	switch inside := is != itself || l.inside; {
	case f != nil:
	case !inside && l.stream && t.streams:
		f = t.queue(e, l, is, nil)
	case inside && t.unnamed > 0:
		t.unnamed--
		f = t.queue(e, l, is, nil)
	}
	return f
}

// ran makes sure that the attempt that e ends has started.
func (t *Tracker) ran(e *Event, l *line, is kin, f *flight) *flight {
	if f = t.found(e, l, is, f); f != nil {
		t.start(e.Step, f, f.queued)
	}
	return f
}

// land ends an attempt. e says which, if it does not yet.
func (t *Tracker) land(e *Event, l *line, is kin, f *flight) {
	switch {
	case e.Attempt > 0:
	case f != nil:
		e.Attempt = f.attempt
	case is == itself && l.body:
		e.Attempt = l.attempt
	}
	if f == nil || !f.running {
		return
	}
	f.running = false
	if !f.led {
		t.active--
	}
	if f.kin == child {
		f.line.running--
	}
}

// pause applies that a step will go on later.
func (t *Tracker) pause(e *Event, l *line, is kin, f *flight) {
	f = t.ran(e, l, is, f)
	if t.land(e, l, is, f); f != nil {
		f.failed = true
	}
	if is == itself {
		l.status, l.message, l.attempt, l.fraction, l.note, l.wake = e.State, e.Message, e.Attempt, 0, "", time.Time{}
		if e.Wake != nil {
			l.wake = *e.Wake
		}
	}
	t.view.show(e)
	if e.State == stepwell.StepWaiting && l != nil && l.asks {
		t.asks(e.Step)
	}
}

// asks tells whoever wants to know that a step waits for an approval.
func (t *Tracker) asks(step string) {
	if t.asked != nil {
		t.asked(step)
	}
}

// finish applies the end of a step.
func (t *Tracker) finish(e *Event, l *line, is kin, f *flight) {
	if e.State == stepwell.StepCompleted || failures(e.State) > 0 {
		if f == nil || !f.failed { // else it ends without another attempt
			f = t.ran(e, l, is, f)
		}
	}
	t.land(e, l, is, f)
	delete(t.flights, e.Step)
	if e.Duration == nil {
		e.Duration = t.duration(e, l, is, f)
	}
	switch is {
	case itself:
		l.status, l.message, l.attempt, l.wake = e.State, e.Message, e.Attempt, time.Time{}
		l.hidden = l.hidden && e.State == stepwell.StepSkipped
		if e.Duration != nil {
			l.took = time.Duration(*e.Duration) * time.Millisecond
		}
		if l.body && l.many && l.total < l.ended {
			l.total = l.ended
		}
	case child:
		l.ended++
		l.note = ""
		if n := failures(e.State); n > 0 {
			l.failed += n
			l.message = e.Message
		}
	}
	t.view.show(e)
}

// duration is how long a step has taken, by what was seen of it; nil: nothing was.
func (t *Tracker) duration(e *Event, l *line, is kin, f *flight) *int64 {
	var began time.Time
	switch {
	case f != nil:
		began = f.started
	case is == itself && l.body:
		began = l.started
	}
	if began.IsZero() {
		return nil
	}
	ms := max(0, e.At.Sub(began).Milliseconds())
	return &ms
}

// failures is 1 for a step that failed.
func failures(s stepwell.StepStatus) int {
	if s == stepwell.StepFailed || s == stepwell.StepTimedOut {
		return 1
	}
	return 0
}

// countSpawned counts spawned steps. A restart may reset them.
func (t *Tracker) countSpawned(l *line, e *Event) {
	before, known := t.spawns[e.Step]
	if !known {
		l.total++
		t.added++
	}
	if known && before.Terminal() && !e.State.Terminal() {
		l.ended--
		l.failed -= failures(before)
	}
	t.spawns[e.Step] = e.State
}

// Restore applies a step of an execution that exists and that nobody runs at the moment: e has its attempt, status, message,
// duration and, in At, when it started.
func (t *Tracker) Restore(e *Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l, is := t.board.find(e.Step)
	switch {
	case is == itself:
		l.status, l.attempt = e.State, e.Attempt
		if e.Duration != nil {
			l.took = time.Duration(*e.Duration) * time.Millisecond
		}
		if l.started = t.begun; !e.At.IsZero() {
			l.started = e.At
		}
		if e.State.Terminal() {
			l.message = e.Message
		}
		if l.status == stepwell.StepQueued || l.status == stepwell.StepRunning && !l.body {
			l.status = stepwell.StepPending // whoever ran it is gone
		}
		l.hidden = l.hidden && e.State == stepwell.StepPending
		if l.asks && e.State == stepwell.StepWaiting {
			t.asks(e.Step)
		}
	case is == child:
		if !l.body {
			t.countSpawned(l, e)
			l.failed += failures(e.State)
		}
		if e.State.Terminal() {
			l.ended++
		}
	}
}
