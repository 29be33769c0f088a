package fleet

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/stepwell/stepwell"
)

// The roles that one node at a time has; others have names of their own.
const (
	RoleScheduler = "scheduler" // fires schedules and empties the outbox
	RoleRetention = "retention" // removes old executions
	RoleCancels   = "cancels"   // stops work outside that was given up
)

// role is one that this node has or wants.
type role struct {
	parent context.Context    // of the wish
	end    context.CancelFunc // of the present term; nil: another node has the role
	until  time.Time          // of the lease, by this machine's clock
	terms  chan context.Context
}

// Lead runs f whenever this node gets the role, until ctx ends or f returns although the node still has it. f's context ends when the
// role is lost, at the latest when the node's lease ends: f is to check it before every effect. Two nodes never begin a term
// within one lease, but f of the one may still be returning while that of the other begins. A role is wanted once
// in a process.
func (n *Node) Lead(ctx context.Context, name string, f func(ctx context.Context)) error {
	r := &role{parent: ctx, terms: make(chan context.Context, 1)}
	n.mu.Lock()
	taken := n.roles[name] != nil
	if !taken {
		n.roles[name] = r
	}
	n.mu.Unlock()
	if taken {
		return stepwell.Errorf(stepwell.CodeInternal, "", "the role %s is wanted twice", name)
	}
	defer func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		r.lose()
		delete(n.roles, name)
	}()
	for {
		select {
		case <-ctx.Done():
			return nil
		case term := <-r.terms:
			if term.Err() != nil {
				continue
			}
			if f(term); term.Err() == nil {
				return nil
			}
		}
	}
}

// lose ends the present term.
func (r *role) lose() {
	if r.end != nil {
		r.end()
		r.end = nil
	}
	select {
	case <-r.terms: // it has not begun
	default:
	}
}

// wanted are the names of the roles that this node has or wants.
func (n *Node) wanted() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Sorted(maps.Keys(n.roles))
}

// grant begins and ends terms by the answer to a beat. A term has the lease's end as its deadline, which every beat moves on.
func (n *Node) grant(names []string, until time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for name, r := range n.roles {
		if !slices.Contains(names, name) {
			r.lose()
			continue
		}
		r.until = until
		if r.end != nil {
			continue
		}
		term, end := context.WithCancel(r.parent)
		r.end = end
		r.terms <- term
		go n.watch(term, r, end)
	}
}

// watch ends a term when the lease ends without a beat.
func (n *Node) watch(term context.Context, r *role, end context.CancelFunc) {
	defer end()
	for {
		n.mu.Lock()
		left := r.until.Sub(n.o.Local())
		n.mu.Unlock()
		if left <= 0 {
			n.expire(n.o.Local())
			return
		}
		timer := time.NewTimer(left)
		select {
		case <-term.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// expire ends the terms whose lease has ended at a time of this machine's clock; all of them if that is zero.
func (n *Node) expire(now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, r := range n.roles {
		if now.IsZero() || !now.Before(r.until) {
			r.lose()
		}
	}
}
