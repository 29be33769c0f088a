package conductor

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// ApprovalPrefix begins the keys of decisions (util.approval). They count only while somebody waits for them: a
// decision on what has not been asked yet is refused, and so is a second one.
const ApprovalPrefix = "approval:"

// eventPrefix begins the keys of events (util.wait_for); what follows may be anything.
const eventPrefix = "event:"

// mailbox brings signals to the steps that await them. It belongs to the loop, but for held.
type mailbox struct {
	pending map[string]answer   // the oldest signal of each key that no step has taken
	awaits  map[string][]waiter // steps that have begun to await a key, durably
	due     []string            // keys that have both, perhaps
	again   []string            // keys whose signal could not be delivered, for want of the store
	retry   int64               // when to try those again, in µs
	held    atomic.Int64        // bytes of pending
}

// overdue reports whether it is time to try again what could not be delivered.
func (m *mailbox) overdue(now int64) bool { return len(m.again) > 0 && now >= m.retry }

// waiter is a step that awaits a key.
type waiter struct {
	l *live
	engine.Await
}

// Signal tells the steps that await its key how they end (Answer). It is durable when Signal returns: fresh is
// false for the repetition of one that has come before (Signal.ID). When no step awaits the key now, it is kept for
// the next that does, over restarts too; signals of a key that come before it count as one, the oldest. All steps
// that await the key now get it. Delivered says that there was one, whose end is durable then.
//
// CodeInvalid: the body is no Answer. CodeConflict: it is a decision that nobody waits for. CodeLimit: too much is kept
// already.
func (c *Conductor) Signal(ctx context.Context, s store.Signal) (fresh, delivered bool, err error) {
	if err := engine.CheckKey(s.Key); err != nil {
		return false, false, err
	}
	if len(s.Body) > maxAnswer {
		return false, false, &stepwell.Error{Code: stepwell.CodeLimit, Message: fmt.Sprintf("the signal is %d bytes, the limit is %d MiB", len(s.Body), maxAnswer>>20)}
	}
	if len(s.ID) > engine.MaxKey {
		return false, false, &stepwell.Error{Code: stepwell.CodeLimit, Message: fmt.Sprintf("the id of the signal is %d bytes, the limit is %d", len(s.ID), engine.MaxKey)}
	}
	body, early, err := c.sealBody(ctx, s.Key, s.Body)
	if err != nil {
		return false, false, err
	}
	s.Body = body
	ans, err := c.decodeAnswer(s)
	if err != nil {
		return false, false, err
	}
	if err := c.roomFor(ctx, s.Key); err != nil {
		return false, false, err
	}
	if s.At.IsZero() {
		s.At = time.Now()
	}
	if early { // what waits for it may know more secrets, such as parameters
		if s.Body, err = c.o.Secrets.SealWhole(s.Body); err != nil {
			return false, false, err
		}
	}
	if fresh, err = c.o.Store.PutSignal(ctx, s); err != nil || !fresh {
		return fresh, false, err
	}
	var took bool // the loop's until it answers
	err = c.ask(ctx, item{do: func(it *item) { c.arrive(s.Key, ans, it, &took) }})
	if err != nil { // it is durable, and is found when the executions are taken up again
		return true, false, nil
	}
	return true, took, nil
}

// roomFor refuses a signal that nobody awaits when too many of the kind are kept. One that somebody awaits is not kept.
func (c *Conductor) roomFor(ctx context.Context, key string) error {
	if c.mail.held.Load() <= c.o.MaxKept {
		return nil
	}
	return c.inLoop(ctx, func() error {
		if len(c.mail.awaits[key]) > 0 {
			return nil
		}
		return &stepwell.Error{Code: stepwell.CodeLimit, Message: fmt.Sprintf("signals of more than %d bytes are kept that no step has waited for", c.o.MaxKept)}
	})
}

// sealBody takes secrets out of what a signal says: what everybody knows, and those that it is for; early says that nobody
// is known that it is for. It refuses a decision that no step awaits.
func (c *Conductor) sealBody(ctx context.Context, key string, body []byte) (_ []byte, early bool, _ error) {
	_, after, _ := strings.Cut(key, ":")
	decision := strings.HasPrefix(key, ApprovalPrefix)
	if execution, _, one := strings.Cut(after, "/"); one && !decision && !strings.HasPrefix(key, eventPrefix) {
		return c.o.Secrets.Seal(execution, body), false, nil
	}
	var waiting []string
	err := c.inLoop(ctx, func() error {
		for _, w := range c.mail.awaits[key] {
			if !w.l.run.Status().Terminal() {
				waiting = append(waiting, w.l.run.ID)
			}
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, false, err
	case decision && len(waiting) == 0:
		return nil, false, &stepwell.Error{Code: stepwell.CodeConflict, Message: "nobody waits for this decision", Hint: "it has been made already, or its step has not asked yet"}
	case len(waiting) == 0:
		return c.o.Secrets.Seal("", body), true, nil
	}
	body = c.o.Secrets.Seal(waiting[0], body)
	for _, execution := range waiting[1:] {
		if body, err = c.o.Secrets.Reseal(execution, body); err != nil {
			return nil, false, err
		}
	}
	return body, false, nil
}

// arrive takes a signal in. It answers who brought it, once what follows from it is durable.
func (c *Conductor) arrive(key string, ans answer, it *item, took *bool) {
	if _, there := c.mail.pending[key]; !there {
		c.keep(key, ans)
	}
	l := c.deliver(key)
	if l == nil {
		c.answer(it.reply, nil)
		return
	}
	*took = true
	l.replies = append(l.replies, it.reply)
}

func (c *Conductor) keep(key string, ans answer) {
	c.mail.pending[key] = ans
	c.mail.held.Add(ans.size(key))
}

func (c *Conductor) drop(key string) {
	if ans, ok := c.mail.pending[key]; ok {
		delete(c.mail.pending, key)
		c.mail.held.Add(-ans.size(key))
	}
}

// deliver gives the signal of a key to those who await it, and an execution of theirs; nil when there are none.
// What they do about it and that it is taken becomes durable together.
func (c *Conductor) deliver(key string) (took *live) {
	ans, ok := c.mail.pending[key]
	if !ok {
		return nil
	}
	events, err := c.settleAll(key, ans)
	if err != nil { // it stays, for all of them
		c.o.Log.Error("a signal cannot be delivered; it is tried again", "key", key, "error", err)
		c.mail.again = append(c.mail.again, key)
		c.mail.retry = c.now() + pushPause.Microseconds()
		return nil
	}
	for i, w := range c.mail.awaits[key] {
		if w.l.gone {
			continue
		}
		changed, err := c.tell(w.l, &events[i])
		if err != nil {
			c.o.Log.Error("a signal was refused", "key", key, "execution", w.l.run.ID, "step", w.Key, "error", err)
		}
		if changed {
			took = w.l
			took.taken = append(took.taken, key)
		}
	}
	if took != nil {
		c.drop(key)
		c.unawait(key, func(waiter) bool { return true })
	}
	return took
}

// settleAll is what a signal means to each of those who await it.
func (c *Conductor) settleAll(key string, ans answer) ([]engine.Event, error) {
	events := make([]engine.Event, len(c.mail.awaits[key]))
	for i, w := range c.mail.awaits[key] {
		if w.l.gone {
			continue
		}
		var err error
		if events[i], err = c.settle(ans, w.l.run.ID, &w.Await); err != nil {
			return nil, fmt.Errorf("execution %s, step %s: %w", w.l.run.ID, w.Key, err)
		}
	}
	return events, nil
}

// deliverDue brings together what has met since the last turn.
func (c *Conductor) deliverDue() {
	due := c.mail.due
	c.mail.due = nil
	if c.mail.overdue(c.now()) {
		due, c.mail.again = append(due, c.mail.again...), nil
	}
	for _, key := range due {
		c.deliver(key)
	}
}

// awaitSignals adds steps that have begun to await a signal.
func (c *Conductor) awaitSignals(l *live, list []engine.Await) {
	for _, a := range list {
		if l.awaits == nil {
			l.awaits = map[int32]string{}
		}
		if old, ok := l.awaits[a.Idx]; ok {
			c.unawait(old, func(w waiter) bool { return w.l == l && w.Idx == a.Idx })
		}
		l.awaits[a.Idx] = a.External
		c.mail.awaits[a.External] = append(c.mail.awaits[a.External], waiter{l, a})
		if _, there := c.mail.pending[a.External]; there {
			c.mail.due = append(c.mail.due, a.External)
			c.more = true
		}
	}
}

// unawait forgets waiters of a key.
func (c *Conductor) unawait(key string, which func(waiter) bool) {
	var rest []waiter
	for _, w := range c.mail.awaits[key] {
		if !which(w) {
			rest = append(rest, w)
		} else if w.l.awaits[w.Idx] == key {
			delete(w.l.awaits, w.Idx)
		}
	}
	if c.mail.awaits[key] = rest; len(rest) == 0 {
		delete(c.mail.awaits, key)
	}
}

// awaitNoMore forgets the steps of an execution that have gone on otherwise, as their rows tell.
func (c *Conductor) awaitNoMore(l *live, rows []engine.StepRow) {
	for i := range rows {
		if len(l.awaits) == 0 {
			return
		}
		if key, ok := l.awaits[rows[i].Idx]; ok && rows[i].Status != stepwell.StepWaiting {
			c.unawait(key, func(w waiter) bool { return w.l == l && w.Idx == rows[i].Idx })
		}
	}
}

// awaitNothing forgets all that an execution awaits.
func (c *Conductor) awaitNothing(l *live) {
	for _, key := range l.awaits {
		c.unawait(key, func(w waiter) bool { return w.l == l })
	}
	l.awaits = nil
}

// loadSignals reads what no step has taken.
func (c *Conductor) loadSignals(ctx context.Context) error {
	var after store.Signal
	for {
		page, err := c.o.Store.PendingSignals(ctx, after, 1000)
		if err != nil {
			return fmt.Errorf("signals: %w", err)
		}
		for _, s := range page {
			after = s
			if _, there := c.mail.pending[s.Key]; there {
				continue
			}
			if s.Body, err = c.o.Secrets.OpenWhole(s.Body); err != nil {
				c.o.Log.Error("a signal cannot be opened", "key", s.Key, "error", err)
				continue
			}
			ans, err := c.decodeAnswer(s)
			if err != nil {
				c.o.Log.Error("a signal cannot be read", "key", s.Key, "error", err)
				continue
			}
			c.keep(s.Key, ans)
		}
		if len(page) < 1000 {
			return nil
		}
	}
}

// ForgetSignals lets go of signals from before a time that no step has waited for: retention has removed them
// from the store.
func (c *Conductor) ForgetSignals(ctx context.Context, before time.Time) error {
	return c.inLoop(ctx, func() error {
		for key, ans := range c.mail.pending {
			if ans.at.Before(before) {
				c.drop(key)
			}
		}
		return nil
	})
}

// Awaiting lists the steps of an execution that await a signal, with what their handlers left for those who show it
// (util.approval: the question). CodeConflict: the execution has ended.
func (c *Conductor) Awaiting(ctx context.Context, id string) ([]engine.Await, error) {
	l := c.live(id)
	if l == nil {
		return c.awaited(ctx, id)
	}
	var list []engine.Await // the loop's until it answers
	err := c.look(ctx, item{run: l.run.No, on: l, do: func(it *item) {
		for _, a := range l.run.Awaiting() {
			a.State = append([]byte(nil), a.State...)
			list = append(list, a)
		}
		c.answer(it.reply, nil)
	}})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// awaited is Awaiting of an execution that is not in memory.
func (c *Conductor) awaited(ctx context.Context, id string) ([]engine.Await, error) {
	row, err := c.o.Store.Execution(ctx, id)
	if err != nil {
		return nil, err
	}
	if row.Status.Terminal() {
		return nil, errGone
	}
	l, err := c.rebuild(ctx, row)
	if err != nil {
		return nil, err
	}
	return l.run.Awaiting(), nil
}
