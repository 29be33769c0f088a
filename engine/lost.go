package engine

import (
	"fmt"
	"strings"

	"github.com/stepwell/stepwell"
)

// lost handles a worker's death: the attempt counts and the step is retried with the next epoch; a non-idempotent
// step fails, and a step that lost too many workers is poisoned. A task that no worker had begun just goes on.
func (r *Run) lost(p place, worker string) {
	n := p.node()
	begun := n.status == stepwell.StepRunning
	if worker == "" && n.info != nil {
		worker = n.info.worker
	}
	if worker == "" {
		worker = "(unknown)"
	}
	r.landed(p)
	if n.flags&revoking != 0 {
		n.flags &^= revoking
		r.cutShort(p)
		return
	}
	if !begun {
		n.flags |= keepTry
	} else if f := r.mayRunAgain(p, worker); f != nil {
		r.got = arrival{worker: worker, started: n.info.started}
		r.end(p, stepwell.StepFailed, f)
		return
	}
	n.status = stepwell.StepPending
	if begun {
		n.info.worker, n.info.started = "", 0
		r.row(p) // it runs no more
	}
	r.makeReadyFirst(p)
}

// mayRunAgain counts a lost worker and returns the reason not to retry the step, nil if it is retried. A worker that
// had made progress does not count.
func (r *Run) mayRunAgain(p place, worker string) *Failure {
	in := p.node().ensure()
	if !in.advanced {
		in.lost = append(in.lost, worker)
	}
	most := MaxLostLeases
	if len(p.step().Members()) > 0 {
		most = MaxLostStreams
	}
	switch {
	case p.step().Policy.NotIdempotent:
		return &Failure{Code: stepwell.CodeLost, Message: fmt.Sprintf("worker %s died while the step ran, and the action must not run twice", worker),
			Hint: "check what it did, then restart the step"}
	case len(in.lost) >= most:
		return &Failure{Code: stepwell.CodeLost, Message: fmt.Sprintf("lost %d workers, the step seems to kill them: %s", len(in.lost), strings.Join(in.lost, ", "))}
	}
	return nil
}

// recovered looks at every step: the process that had all of them in flight has died.
func (r *Run) recovered() bool {
	flying := r.flying()
	for _, p := range flying {
		r.lost(p, "")
	}
	return len(flying) > 0
}

func (r *Run) flying() (list []place) {
	if r.main != nil {
		r.visit(func(p place) {
			if p.flies() {
				list = append(list, p)
			}
		})
	}
	return list
}

// flies reports whether an attempt of a step has been dispatched and has not ended.
func (p place) flies() bool {
	s := p.node().status
	return (s == stepwell.StepQueued || s == stepwell.StepRunning) && p.step().Body == nil
}

// Flight is an attempt of a step that was dispatched and has not ended.
type Flight struct {
	Idx    int32
	Epoch  uint32
	Begun  bool   // a worker is known to run it; else it may still be queued
	Worker string // that runs it
}

// Flying lists the attempts in flight, in order of index.
func (r *Run) Flying() (list []Flight) {
	for _, p := range r.flying() {
		n := p.node()
		a := Flight{Idx: p.idx(), Epoch: n.epoch, Begun: n.status == stepwell.StepRunning}
		if n.info != nil {
			a.Worker = n.info.worker
		}
		list = append(list, a)
	}
	return list
}

// Task makes the task of an attempt in flight once more, nil if the step has none. Its templates read the present
// values: only references to steps that it does not depend on can differ from the first time.
func (r *Run) Task(idx int32) *Task {
	if p, ok := r.find(idx); ok && p.flies() {
		return r.task(p)
	}
	return nil
}
