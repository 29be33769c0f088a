package conductor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
	"github.com/stepwell/stepwell/engine"
	"github.com/stepwell/stepwell/store"
)

// ApprovalPrefix begins the keys of decisions (util.approval). They count only while a step awaits them: a decision
// before the question, and a second one, are refused.
const ApprovalPrefix = "approval:"

// eventPrefix begins the keys of events (util.wait_for); any text may follow.
const eventPrefix = "event:"

// waiters are the steps of executions in memory that await a signal, durably. The signals are in the store. They belong to
// the loop.
type waiters struct {
	byKey map[string][]waiter
	due   []string // keys of which the store may have a signal
	again []string // keys whose signal the store could not read or deliver
	retry int64    // when to try those again, in µs
}

// overdue reports whether undelivered signals are due for a retry.
func (w *waiters) overdue(now int64) bool { return len(w.again) > 0 && now >= w.retry }

// waiter is a step that awaits a key.
type waiter struct {
	l     *live
	since int64 // µs; 0: it awaited it before the execution was taken up
	engine.Await
}

// Signal ends the steps that await its key (Answer). It is durable when Signal returns: fresh is false for a repetition
// (Signal.ID). When no step awaits the key now, it is kept for the next one that does, over restarts too; several early
// signals of a key count as one, the oldest. All steps that await the key now get it. Delivered says that there was one;
// its end is durable then.
//
// CodeInvalid: the body is no Answer. CodeConflict: no step waits for the decision. CodeLimit: too much is kept already.
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
	if _, err := c.decodeAnswer(s); err != nil {
		return false, false, err
	}
	if s.At.IsZero() {
		s.At = c.o.Now()
	}
	if early { // the step that will wait may know more secrets, such as parameters
		if s.Body, err = c.o.Secrets.SealWhole(s.Body); err != nil {
			return false, false, err
		}
	}
	if fresh, err = c.o.Store.PutSignal(ctx, s); err != nil {
		return fresh, false, err
	}
	if !fresh { // the store may have refused it although it had stored it: then no step has got it
		return false, false, c.Deliver(ctx, []string{s.Key})
	}
	c.o.Signalled(ctx, s)
	var took bool // the loop's until it answers
	err = c.ask(ctx, item{do: func(it *item) { c.arrive(s, it, &took) }})
	if err != nil { // it is durable, and is found when the executions are taken up again
		return true, false, nil
	}
	if took {
		return true, true, nil
	}
	// A step that began to await it while it was stored has found it there, or one of another process has: then the signal has gone with
	// the commit that has the step's end.
	if left, err := c.o.Store.SignalsFor(ctx, []string{s.Key}); err == nil && len(left) == 0 {
		return true, true, nil
	}
	c.kept.add(s)
	return true, false, nil
}

// DeliverStored gives a signal that another process has stored to the steps here that awaited its key at that time. They get it
// although a step there has taken it. It is durable when DeliverStored returns.
func (c *Conductor) DeliverStored(ctx context.Context, s store.Signal) error {
	return c.ask(ctx, item{do: func(it *item) {
		if l := c.deliverOne(s, awaitedAt(s)); l != nil {
			l.replies = append(l.replies, it.reply)
			return
		}
		c.answer(it.reply, nil)
	}})
}

// Deliver gives the stored signals of keys to the steps here that await them, where nothing has told of the signals.
func (c *Conductor) Deliver(ctx context.Context, keys []string) error {
	return c.inLoop(ctx, func() error {
		c.waiters.due = append(c.waiters.due, keys...)
		c.more = true
		return nil
	})
}

// admitSignal refuses a signal for which no execution in memory waits: a decision that no step awaits, wherever its
// execution is, or that has been made; and others while too much is kept.
func (c *Conductor) admitSignal(ctx context.Context, key string) error {
	if strings.HasPrefix(key, ApprovalPrefix) {
		waiting, err := c.o.Store.Awaiting(ctx, []string{key})
		if err != nil {
			return err
		}
		made, err := c.o.Store.SignalsFor(ctx, []string{key})
		if err == nil && (len(waiting) == 0 || len(made) > 0) {
			err = &stepwell.Error{Code: stepwell.CodeConflict, Message: "no step is waiting for this decision", Hint: "it has been made already, or its step has not asked yet"}
		}
		return err
	}
	kept, err := c.keptBytes(ctx)
	if err == nil && kept > c.o.MaxKept {
		err = &stepwell.Error{Code: stepwell.CodeLimit, Message: fmt.Sprintf("signals of more than %d bytes are kept that no step has waited for", c.o.MaxKept)}
	}
	return err
}

// kept is the size of the signals not yet awaited: the store's sum, at most keptAge old, plus later ones.
type kept struct {
	mu    sync.Mutex
	at    int64
	bytes int64
}

const keptAge = time.Second

func (c *Conductor) keptBytes(ctx context.Context) (int64, error) {
	c.kept.mu.Lock()
	defer c.kept.mu.Unlock()
	if now := c.now(); c.kept.at == 0 || now-c.kept.at >= keptAge.Microseconds() {
		bytes, err := c.o.Store.Kept(ctx)
		if err != nil {
			return 0, err
		}
		c.kept.at, c.kept.bytes = now, bytes
	}
	return c.kept.bytes, nil
}

func (k *kept) add(s store.Signal) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.bytes += int64(len(s.Key) + len(s.Body) + 200)
}

// sealBody seals known secrets, and those of the receivers, in a signal's body; early says that no receiver is known
// yet. It refuses a signal that must not be kept.
func (c *Conductor) sealBody(ctx context.Context, key string, body []byte) (_ []byte, early bool, err error) {
	var waiting []string
	err = c.inLoop(ctx, func() error {
		for _, w := range c.waiters.byKey[key] {
			if !w.l.run.Status().Terminal() {
				waiting = append(waiting, w.l.run.ID)
			}
		}
		return nil
	})
	if err == nil && len(waiting) == 0 {
		err = c.admitSignal(ctx, key)
	}
	if err != nil {
		return nil, false, err
	}
	_, after, _ := strings.Cut(key, ":")
	if execution, _, one := strings.Cut(after, "/"); one && !strings.HasPrefix(key, ApprovalPrefix) && !strings.HasPrefix(key, eventPrefix) {
		return c.o.Secrets.Seal(execution, body), false, nil
	}
	if len(waiting) == 0 {
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

// arrive delivers a stored signal. It answers the caller once the effects are durable. A step of another process, which knows of the
// signal by then (Options.Signalled), may have taken it: the steps here that awaited it at its time get it all the same.
func (c *Conductor) arrive(s store.Signal, it *item, took *bool) {
	l := c.deliver(s.Key)
	if l == nil {
		l = c.deliverOne(s, awaitedAt(s))
	}
	if l == nil {
		c.answer(it.reply, nil)
		return
	}
	*took = true
	l.replies = append(l.replies, it.reply)
}

// deliver gives the signals of keys to the steps that await them, and returns an execution of theirs, or nil. The
// effects and the removal of a signal become durable together. Signals are read here, in the loop: one read earlier
// might have been taken since.
func (c *Conductor) deliver(keys ...string) (took *live) {
	keys = slices.DeleteFunc(keys, func(key string) bool { return len(c.waiters.byKey[key]) == 0 })
	if len(keys) == 0 {
		return nil
	}
	signals, err := c.o.Store.SignalsFor(context.Background(), keys)
	if err != nil {
		c.deliverLater(err, keys...)
		return nil
	}
	for _, s := range signals {
		if l := c.deliverOne(s, anyWaiter); l != nil {
			took = l
		}
	}
	return took
}

func (c *Conductor) deliverLater(err error, keys ...string) {
	c.o.Log.Error("a signal cannot be delivered; it will be retried", "key", strings.Join(keys, ", "), "error", err)
	c.waiters.again = append(c.waiters.again, keys...)
	c.waiters.retry = c.now() + pushPause.Microseconds()
}

func anyWaiter(waiter) bool { return true }

// awaitedAt picks the steps that awaited a signal when it was stored.
func awaitedAt(s store.Signal) func(waiter) bool {
	return func(w waiter) bool { return w.since <= s.At.UnixMicro() }
}

// deliverOne gives a signal to the steps that await its key and that are meant.
func (c *Conductor) deliverOne(s store.Signal, meant func(waiter) bool) (took *live) {
	ans, err := c.openAnswer(s)
	if err != nil {
		c.o.Log.Error("a signal cannot be read", "key", s.Key, "error", err)
		return nil
	}
	events, err := c.answerEvents(s.Key, ans)
	if err != nil { // it stays, for all of them
		c.deliverLater(err, s.Key)
		return nil
	}
	for i, w := range c.waiters.byKey[s.Key] {
		if w.l.gone || !meant(w) {
			continue
		}
		changed, err := c.tell(w.l, &events[i])
		if err != nil {
			c.o.Log.Error("a signal was refused", "key", s.Key, "execution", w.l.run.ID, "step", w.Key, "error", err)
		}
		if changed {
			took = w.l
			took.taken = append(took.taken, s.Key)
		}
	}
	if took != nil {
		c.unawait(s.Key, meant)
	}
	return took
}

// openAnswer reads a signal as it was stored.
func (c *Conductor) openAnswer(s store.Signal) (ans Answer, err error) {
	if s.Body, err = c.o.Secrets.OpenWhole(s.Body); err != nil {
		return ans, err
	}
	return c.decodeAnswer(s)
}

// answerEvents makes the events of a signal for all steps that await it.
func (c *Conductor) answerEvents(key string, ans Answer) ([]engine.Event, error) {
	events := make([]engine.Event, len(c.waiters.byKey[key]))
	for i, w := range c.waiters.byKey[key] {
		if w.l.gone {
			continue
		}
		var err error
		if events[i], err = c.answerEvent(ans, w.l.run.ID, &w.Await); err != nil {
			return nil, fmt.Errorf("execution %s, step %s: %w", w.l.run.ID, w.Key, err)
		}
	}
	return events, nil
}

// deliverDue delivers signals to steps that began to wait since the last turn.
func (c *Conductor) deliverDue() {
	due := c.waiters.due
	c.waiters.due = nil
	if c.waiters.overdue(c.now()) {
		due, c.waiters.again = append(due, c.waiters.again...), nil
	}
	for part := range slices.Chunk(due, maxDue) {
		c.deliver(part...)
	}
}

// maxDue bounds the keys of one look for signals.
const maxDue = 1000

// awaitSignals adds steps that have begun to await a signal.
func (c *Conductor) awaitSignals(l *live, list []engine.Await, since int64) {
	for _, a := range list {
		if l.awaits == nil {
			l.awaits = map[int32]string{}
		}
		if old, ok := l.awaits[a.Idx]; ok {
			c.unawait(old, func(w waiter) bool { return w.l == l && w.Idx == a.Idx })
		}
		l.awaits[a.Idx] = a.External
		c.waiters.byKey[a.External] = append(c.waiters.byKey[a.External], waiter{l, since, a})
		c.waiters.due = append(c.waiters.due, a.External)
		c.more = true
	}
}

// unawait forgets waiters of a key.
func (c *Conductor) unawait(key string, which func(waiter) bool) {
	var rest []waiter
	for _, w := range c.waiters.byKey[key] {
		if !which(w) {
			rest = append(rest, w)
		} else if w.l.awaits[w.Idx] == key {
			delete(w.l.awaits, w.Idx)
		}
	}
	if c.waiters.byKey[key] = rest; len(rest) == 0 {
		delete(c.waiters.byKey, key)
	}
}

// awaitNoMore removes an execution's steps that, by their rows, await no more.
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

// Awaiting lists the steps of an execution that await a signal, with their handlers' state for display (util.approval:
// the question). CodeConflict: the execution has ended.
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
	l, err := c.rebuild(ctx, row, 0)
	if err != nil {
		return nil, err
	}
	return l.run.Awaiting(), nil
}
