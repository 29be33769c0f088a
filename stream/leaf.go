package stream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stepwell/stepwell"
)

// leaf tracks durability at a step without successors: a sink, or a modifier or source whose items no step takes; these
// items are done when they are through.
type leaf struct {
	seg  *segment
	node *node

	mu      sync.Mutex
	entries []entry   // written and not yet in the checkpoint, in order
	batches []reached // not yet settled
	late    []int64   // refused when they were in the checkpoint already
	written int64     // items
	noted   int64     // in the checkpoint; they count there up to durable
	durable int64
	prints  pendingPrints
	state   json.RawMessage // last noted
	last    time.Time       // when
}

// entry is one item that was written.
type entry struct {
	key     [16]byte
	seq     int64
	root    int32
	refused bool
}

// reached is a batch that is settled when so many items are durable.
type reached struct {
	ticket *ticket
	end    int64
}

const maxState = 1 << 20

// keysHeld is how many batches' keys a leaf keeps in memory until it writes them early.
const keysHeld = 64

// queueBatch enters a batch that is about to be written.
func (l *leaf) queueBatch(b *batch) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, it := range b.items {
		l.written++
		it.origin.pos = l.written
		l.prints.add(it, l.written)
		if l.seg.keyed {
			l.entries = append(l.entries, entry{key: it.origin.key, seq: it.origin.seq, root: int32(it.origin.root.index)})
		}
	}
	if l.seg.keyed {
		l.batches = append(l.batches, reached{b.ticket, l.written})
	}
	if len(l.entries) < keysHeld*l.seg.settings.Batch {
		return nil
	}
	if err := l.seg.writeKeysEarly(l); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	l.entries, l.noted = l.entries[:0], l.written
	return nil
}

// writeKeysEarly writes the keys of a leaf before they are durable, as a sink may take long to commit: they count once a
// later block confirms them.
func (s *segment) writeKeysEarly(l *leaf) error {
	c := s.checkpoint
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.append(block{End: l.node.end, From: l.noted, Durable: l.durable, Spool: c.latest.Spool}, l.entries, false)
}

// refuse records that a written item will never be durable: a later run retries it. It returns false for an item that
// was refused before. Items that are not written yet, or that are durable, cannot be refused.
func (l *leaf) refuse(it *Item) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	o := &it.origin
	if o.refused {
		return false, nil
	}
	if o.pos <= l.durable || o.pos > l.written {
		return false, &stepwell.Error{Code: stepwell.CodeInternal, Message: fmt.Sprintf("%s refuses item %s, which was not given to it, or was said to be durable",
			l.node.module.Spec.Name, it.ID())}
	}
	o.refused = true
	switch {
	case !l.seg.keyed:
	case o.pos <= l.noted:
		l.late = append(l.late, o.pos-1)
	default:
		l.entries[o.pos-l.noted-1].refused = true
	}
	return true, nil
}

// through records a batch at an end that is not a sink: its items are done when they come here.
func (l *leaf) through(b *batch) error {
	l.fresh(b)
	if err := l.queueBatch(b); err != nil {
		return &member{l.node, err}
	}
	l.mu.Lock()
	due := time.Since(l.last) >= l.seg.interval
	l.mu.Unlock()
	if !due {
		return nil
	}
	return l.recordDurable(all, nil)
}

// fresh drops items that are done already and came again only because a stateful step needs them.
func (l *leaf) fresh(b *batch) {
	if !l.seg.resumes || !b.ticket.root.whole {
		return
	}
	all := len(b.items)
	b.items = slices.DeleteFunc(b.items, func(it *Item) bool { return it.origin.known&(1<<l.node.end) != 0 })
	l.node.counts.skipped.Add(int64(all - len(b.items)))
}

// all says that everything written is durable.
const all = -1

// recordDurable records in the checkpoint that so many items are durable, and the state from which a sink resumes there.
func (l *leaf) recordDurable(durable int64, state any) error {
	raw, err := json.Marshal(state)
	if err != nil {
		return fmt.Errorf("state: %w", err)
	}
	if len(raw) > maxState {
		return &stepwell.Error{Code: stepwell.CodeLimit, Message: fmt.Sprintf("a state of %d bytes; %d are allowed", len(raw), maxState)}
	}
	raw = l.seg.sealed(raw)
	l.mu.Lock()
	defer l.mu.Unlock()
	if durable == all {
		durable = l.written
	}
	if durable < l.durable || durable > l.written {
		return &stepwell.Error{Code: stepwell.CodeInternal, Message: fmt.Sprintf("%s says that %d items are durable; %d were, and %d are written",
			l.node.module.Spec.Name, durable, l.durable, l.written)}
	}
	l.last = time.Now()
	if l.seg.keyed {
		if bytes.Equal(raw, l.state) || string(raw) == "null" {
			raw = nil
		}
		err = l.recordBatches(durable, raw)
	} else {
		err = l.seg.prints.add(l.prints.upTo(durable))
	}
	if err != nil {
		return err
	}
	l.prints.drop(durable)
	if l.seg.keyed && durable > l.durable {
		l.node.host.Advance()
	}
	l.durable = durable
	return nil
}

// recordBatches records the items up to a number, with the state when it is new. l.mu is held.
func (l *leaf) recordBatches(durable int64, state json.RawMessage) error {
	keys, n := l.entries[:max(durable-l.noted, 0)], 0
	for n < len(l.batches) && l.batches[n].end <= durable {
		n++
	}
	if durable == l.durable && n == 0 && state == nil {
		return nil
	}
	b := block{End: l.node.end, State: state, From: l.noted, Durable: durable, Late: l.late}
	if err := l.seg.recordBlock(b, keys, l.batches[:n], l.prints.upTo(durable)); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	if state != nil {
		l.state = state
	}
	l.entries = slices.Delete(l.entries, 0, len(keys))
	l.batches = slices.Delete(l.batches, 0, n)
	l.noted += int64(len(keys))
	l.late = l.late[:0]
	return nil
}

// recordBlock writes a block: first the spool and the footprints, then the block that refers to them.
func (s *segment) recordBlock(b block, keys []entry, batches []reached, footprints []byte) error {
	c := s.checkpoint
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range batches {
		if r.ticket.pending.Add(-1) == 0 {
			r.ticket.root.settleTicket(r.ticket)
		}
	}
	for _, r := range s.graph.roots {
		if n, ok := r.news(); ok {
			b.Cursors = append(b.Cursors, n)
		}
	}
	var err error
	if b.Spool, err = s.spool.sync(); err != nil {
		return err
	}
	if err := s.prints.add(footprints); err != nil {
		return err
	}
	if c.prints, err = s.prints.sync(); err != nil {
		return err
	}
	if err := errors.Join(s.sought.sync(), s.writeDoneKeys()); err != nil {
		return err
	}
	if err := c.append(b, keys, true); err != nil {
		return err
	}
	for _, n := range b.Cursors {
		s.graph.roots[n.Root].node.pages.passed(n.Seq)
	}
	return nil
}
