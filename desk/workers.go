package desk

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/desk/wire"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/queue"
)

// Worker describes a worker that has joined.
type Worker struct {
	Name, Version string
	Actions       []string
	Queues        []string // none: all
	Concurrency   int
	Held          int
	Seen          time.Time
	Secure        bool // it may be given secrets
	Draining      bool
	Caller        string // identity
}

// Workers lists the workers that have joined, by name.
func (d *Desk) Workers() (list []Worker) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.sessions {
		list = append(list, Worker{s.name, s.version, slices.Sorted(maps.Keys(s.actions)), slices.Sorted(maps.Keys(s.queues)), s.concurrency, len(s.held), s.seen, s.caller.Secure, s.draining, s.caller.ID})
	}
	slices.SortFunc(list, func(a, b Worker) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// Drain has a worker begin nothing more and end when it has finished what it holds. CodeNotFound.
func (d *Desk) Drain(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.sessions[name]
	if s == nil {
		return stepwell.Errorf(stepwell.CodeNotFound, "`stepwell workers list` shows those that have joined", "no worker %q has joined", stepwell.Head(name, wire.MaxName))
	}
	s.draining = true
	s.ring()
	return nil
}

// Standings are how its queues are, and who holds the places of those with a limit. Look.Waits is the desk's own.
func (d *Desk) Standings(look queue.Look) []queue.Standing {
	d.mu.Lock()
	defer d.mu.Unlock()
	look.Waits = func(m *queue.Message) bool {
		a := d.byRun[flight{m.Run, m.Idx, m.Epoch}]
		return a != nil && a.state == waiting
	}
	out := d.queue.Standings(look)
	for i := range out {
		for k := range out[i].Holders {
			h := &out[i].Holders[k]
			t, ok := h.Body.(*engine.Task)
			if !ok {
				continue
			}
			a := d.byRun[flight{t.Run, t.Idx, t.Epoch}]
			if a == nil || a.lease.Token != h.Token {
				continue
			}
			switch h.Since = a.since; a.state {
			case local:
				h.Worker = d.o.Node
			case held:
				h.Worker = a.holder.name
			case offered:
				h.List = d.o.Lists.Name(a.place.queue)
			case expected:
				h.Worker = a.worker
			}
		}
	}
	return out
}

// Unserved are the steps of an execution, by key, that wait for an action which neither the local pool nor any worker that
// has joined serves in their queue.
func (d *Desk) Unserved(execution string) map[string]string {
	d.mu.Lock()
	defer d.mu.Unlock()
	found := map[string]string{}
	for k, a := range d.attempts {
		if k.execution == execution && a.state == waiting && !d.isLocal(a.task) && !d.listed(a.task) && !d.served(a.task) {
			found[a.task.Key] = a.task.Step.Action
		}
	}
	return found
}

// ListOf is the list outside from which nobody has taken a step of an execution, as far as is known here; "": it is in none.
func (d *Desk) ListOf(execution, step string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	for k, a := range d.attempts {
		if k.execution == execution && a.state == offered && a.task.Key == step {
			return d.o.Lists.Name(a.task.Queue)
		}
	}
	return ""
}

// WaitsIn is the queue in which a step of an execution waits; false: it does not wait.
func (d *Desk) WaitsIn(execution, step string) (name string, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for k, a := range d.attempts {
		if k.execution == execution && a.state == waiting && a.task.Key == step {
			return a.task.Queue, true
		}
	}
	return "", false
}

// served reports whether some worker takes a task. The caller holds the lock.
func (d *Desk) served(t *engine.Task) bool {
	for _, s := range d.sessions {
		if !s.draining && d.suits(t, s) {
			return true
		}
	}
	return false
}
